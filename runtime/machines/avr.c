/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* An AVR in simavr, under avr_runner: bytes go through the three general-purpose I/O registers, which do nothing else.
 *
 * GPIOR0: reading takes the next byte from the host, writing gives it one. GPIOR1: reading says whether there is a byte
 * to take. GPIOR2: takes the status, before the CPU sleeps with interrupts off, which ends the run. */
#include <avr/io.h>

#include "machine.h"

uint32_t io_read(void *data, uint32_t bytes)
{
    uint8_t *to = (uint8_t *)data;
    uint32_t count = 0;

    for (; count < bytes && GPIOR1 != 0; ++count) {
        *to++ = GPIOR0;
    }
    return count;
}

void io_write(const void *data, uint32_t bytes)
{
    const uint8_t *from = (const uint8_t *)data;

    for (; bytes > 0; --bytes) {
        GPIOR0 = *from++;
    }
}

void io_exit(int status)
{
    GPIOR2 = (uint8_t)status;
    for (;;) {
        __asm__ volatile("cli\n\tsleep" ::: "memory");
    }
}
