/* Output through the debugger (or QEMU): the processor stops at a breakpoint, the debugger prints and lets it go on.
 *
 * Without a debugger that breakpoint is a fault. Operations: Arm's "Semihosting for AArch32 and AArch64". */
#include <stdint.h>

#include "output.h"

#define SYS_WRITE0 0x04u
#define SYS_EXIT_EXTENDED 0x20u
#define APPLICATION_EXIT 0x20026u

static void ask_debugger(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void put(const char *text)
{
    ask_debugger(SYS_WRITE0, text);
}

void finish(int status)
{
    uint32_t arguments[2];

    arguments[0] = APPLICATION_EXIT;
    arguments[1] = (uint32_t)status;
    for (;;) {
        ask_debugger(SYS_EXIT_EXTENDED, arguments);
    }
}
