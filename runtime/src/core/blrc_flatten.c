/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* A map of bits, in which each pixel takes whole words, to one vector without gaps. */
#include "blrc.h"

void blrc_flatten(int32_t pixels, int32_t channels, const uint32_t *x, uint32_t *y)
{
    uint32_t word = 0;
    int32_t filled = 0; /* bits of word, less than 32 */
    int32_t i, left;

    for (i = 0; i < pixels; ++i) {
        for (left = channels; left > 0; left -= 32) {
            const uint32_t bits = *x++;
            const int32_t count = left < 32 ? left : 32;

            word |= bits << filled;
            filled += count;
            if (filled >= 32) {
                filled -= 32;
                *y++ = word;
                word = filled > 0 ? bits >> (count - filled) : 0;
            }
        }
    }
    if (filled > 0) {
        *y = word;
    }
}
