/* What comes before main on every Cortex-M: the vector table, the data, and what a fault does. */
#include <stdint.h>

#include "output.h"

#define VTOR (*(volatile uint32_t *)0xE000ED08u) /* where the vector table is; a Cortex-M0 has none and ignores it */
#define FAULT 3                                  /* exit status */

/* From sections.ld. */
extern uint32_t stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_source[];

int main(void);
void start(void);
void report_fault(void);
static void fault(void);

/* The processor's own; your device's interrupts follow, in the order of its manual. */
static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors __attribute__((section(".vectors"), used)) = {
    stack_top,
    {start, fault /* NMI */, fault /* HardFault */, fault /* MemManage */, fault /* BusFault */, fault /* UsageFault */,
     fault /* SecureFault */, 0, 0, 0, fault /* SVCall */, fault /* DebugMonitor */, 0, fault /* PendSV */,
     fault /* SysTick */},
};

void start(void)
{
    const uint32_t *source = data_source;
    uint32_t *to;

    VTOR = (uint32_t)&vectors; /* a boot loader has its own */
    for (to = data_start; to < data_end; ++to) {
        *to = *source++;
    }
    for (to = bss_start; to < bss_end; ++to) {
        *to = 0;
    }
    /* Set up clocks, flash wait states and pins here. None is needed: the network runs at any speed, without an FPU. */
    finish(main());
}

/* From the top of the stack again, as the fault may be that there was no more of it. */
__attribute__((naked)) static void fault(void)
{
    __asm__ volatile("ldr r0, =stack_top\n"
                     "mov sp, r0\n"
                     "bl report_fault\n");
}

void report_fault(void)
{
    put("fault: stack too small, unaligned access, or no memory there\n");
    finish(FAULT);
}
