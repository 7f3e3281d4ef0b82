/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* RISC-V without a C library, under an emulator of Linux programs: the system calls read, write, exit. */
#include "machine.h"

#define SYS_READ 63
#define SYS_WRITE 64
#define SYS_EXIT 93

int main(void);
void machine_start(void);

__asm__(".globl _start\n"
        "_start:\n"
        ".option push\n"
        ".option norelax\n"
        "    la gp, __global_pointer$\n"
        ".option pop\n"
        "    andi sp, sp, -16\n"
        "    call machine_start\n");

static long machine_call(long number, long a, long b, long c)
{
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a7 __asm__("a7") = number;

    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

uint32_t io_read(void *data, uint32_t bytes)
{
    uint32_t done = 0;

    while (done < bytes) {
        const long got = machine_call(SYS_READ, 0, (long)(uintptr_t)data + (long)done, (long)(bytes - done));

        if (got <= 0) {
            break;
        }
        done += (uint32_t)got;
    }
    return done;
}

void io_write(const void *data, uint32_t bytes)
{
    uint32_t done = 0;

    while (done < bytes) {
        const long put = machine_call(SYS_WRITE, 1, (long)(uintptr_t)data + (long)done, (long)(bytes - done));

        if (put <= 0) {
            io_exit(3);
        }
        done += (uint32_t)put;
    }
}

void io_exit(int status)
{
    for (;;) {
        machine_call(SYS_EXIT, status, 0, 0);
    }
}

void machine_start(void)
{
    io_exit(main());
}
