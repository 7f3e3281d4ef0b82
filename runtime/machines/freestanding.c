/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* The two functions that a compiler may call where there is no C library. Plain loops: they run in tests only. */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

void *memcpy(void *to, const void *from, size_t bytes)
{
    uint8_t *const y = (uint8_t *)to;
    const uint8_t *const x = (const uint8_t *)from;
    size_t i;

    for (i = 0; i < bytes; ++i) {
        y[i] = x[i];
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *const y = (uint8_t *)to;
    size_t i;

    for (i = 0; i < bytes; ++i) {
        y[i] = (uint8_t)value;
    }
    return to;
}
