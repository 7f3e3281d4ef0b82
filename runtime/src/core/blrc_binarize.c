/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Raw input to bits, by thresholds. */
#include "blrc.h"

void blrc_binarize(int32_t pixels, int32_t channels, const uint8_t *x, BLRC_TABLE(int16_t) limits, int32_t limit_count,
                   uint32_t *y)
{
    int32_t i, c;

    for (i = 0; i < pixels; ++i) {
        uint32_t word = 0;
        int32_t at = 0;

        for (c = 0; c < channels; ++c) {
            word |= (uint32_t)((int32_t)*x++ >= (int32_t)BLRC_READ(int16_t, limits, at)) << (c & 31);
            if (++at == limit_count) {
                at = 0;
            }
            if ((c & 31) == 31) {
                *y++ = word;
                word = 0;
            }
        }
        if ((channels & 31) != 0) {
            *y++ = word;
        }
    }
}
