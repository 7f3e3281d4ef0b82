/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Cortex-M without a C library: vectors, start, and semihosting on the files in.bin and out.bin of the host.
 *
 * The linker script defines where things lie; semihosting: Arm's "Semihosting for AArch32 and AArch64". */
#include "machine.h"

#define SYS_OPEN 0x01u
#define SYS_WRITE 0x05u
#define SYS_READ 0x06u
#define SYS_EXIT_EXTENDED 0x20u
#define STOPPED_BY_APPLICATION 0x20026u
#define OPEN_RB 1u
#define OPEN_WB 5u
#define CPACR (*(volatile uint32_t *)0xE000ED88u)

extern uint32_t machine_stack_top[], machine_data[], machine_data_end[], machine_bss[], machine_bss_end[];
extern const uint32_t machine_data_source[];

int main(void);
void machine_reset(void);
static void machine_fault(void);

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} machine_vectors = {
    machine_stack_top,
    {machine_reset, machine_fault, machine_fault, machine_fault, machine_fault, machine_fault, machine_fault, 0, 0, 0,
     machine_fault, machine_fault, 0, machine_fault, machine_fault},
};

static uint32_t machine_call(uint32_t operation, const void *arguments)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;

    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static uint32_t machine_open(const char *name, uint32_t length, uint32_t mode)
{
    uint32_t arguments[3];

    arguments[0] = (uint32_t)(uintptr_t)name;
    arguments[1] = mode;
    arguments[2] = length;
    return machine_call(SYS_OPEN, arguments);
}

static uint32_t machine_in, machine_out;

uint32_t io_read(void *data, uint32_t bytes)
{
    uint32_t arguments[3];

    arguments[0] = machine_in;
    arguments[1] = (uint32_t)(uintptr_t)data;
    arguments[2] = bytes;
    return bytes - machine_call(SYS_READ, arguments);
}

void io_write(const void *data, uint32_t bytes)
{
    uint32_t arguments[3];

    arguments[0] = machine_out;
    arguments[1] = (uint32_t)(uintptr_t)data;
    arguments[2] = bytes;
    if (machine_call(SYS_WRITE, arguments) != 0) {
        io_exit(3);
    }
}

void io_exit(int status)
{
    uint32_t arguments[2];

    arguments[0] = STOPPED_BY_APPLICATION;
    arguments[1] = (uint32_t)status;
    for (;;) {
        machine_call(SYS_EXIT_EXTENDED, arguments);
    }
}

static void machine_fault(void)
{
    io_exit(120); /* a fault, for example an unaligned access */
}

void machine_reset(void)
{
    const uint32_t *from = machine_data_source;
    uint32_t *to;

    for (to = machine_data; to < machine_data_end; ++to) {
        *to = *from++;
    }
    for (to = machine_bss; to < machine_bss_end; ++to) {
        *to = 0;
    }
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    CPACR |= 0xFu << 20; /* floating point and vectors are off at reset */
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
    machine_in = machine_open("in.bin", 6, OPEN_RB);
    machine_out = machine_open("out.bin", 7, OPEN_WB);
    io_exit(machine_in == ~0u || machine_out == ~0u ? 121 : main());
}
