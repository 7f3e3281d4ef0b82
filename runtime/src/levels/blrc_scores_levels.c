/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Scores of codes with weights of 8 bits. */
#include "blrc_levels.h"

void blrc_scores_levels(int32_t pixels, int32_t channels, int32_t classes, int32_t bits, const void *x,
                        BLRC_TABLE(int8_t) weights, BLRC_TABLE(int32_t) bias, int32_t *y)
{
    const uint8_t *pixel = (const uint8_t *)x;
    uint8_t codes[32];
    int32_t i, first, k, c;

    for (k = 0; k < classes; ++k) {
        y[k] = BLRC_READ(int32_t, bias, k);
    }
    for (i = 0; i < pixels; ++i, pixel += blrc_pixel_bytes(bits, channels)) {
        for (first = 0; first < channels; first += 32) {
            const int32_t count = blrc_get_codes(bits, channels, first, pixel, codes);
            BLRC_TABLE(int8_t) row = BLRC_SKIP(int8_t, weights, i * channels + first);

            for (k = 0; k < classes; ++k, row = BLRC_SKIP(int8_t, row, pixels * channels)) {
                int32_t sum = 0;

                for (c = 0; c < count; ++c) {
                    sum += (int32_t)codes[c] * BLRC_READ(int8_t, row, c);
                }
                y[k] += sum;
            }
        }
    }
}
