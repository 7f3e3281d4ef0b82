/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Scores of codes with binary weights: sums of +-codes, scaled and shifted. */
#include "blrc_levels.h"

void blrc_scores_signs(int32_t pixels, int32_t channels, int32_t classes, int32_t bits, const void *x,
                       BLRC_TABLE(uint32_t) weights, BLRC_TABLE(int32_t) multiplier, BLRC_TABLE(int32_t) bias,
                       int32_t *y)
{
    const int32_t words = blrc_words(channels);
    const uint8_t *pixel = (const uint8_t *)x;
    uint8_t codes[32];
    int32_t i, first, k, c;

    for (k = 0; k < classes; ++k) {
        y[k] = 0;
    }
    for (i = 0; i < pixels; ++i, pixel += blrc_pixel_bytes(bits, channels)) {
        for (first = 0; first < channels; first += 32) {
            const int32_t count = blrc_get_codes(bits, channels, first, pixel, codes);

            for (k = 0; k < classes; ++k) {
                uint32_t w = BLRC_READ(uint32_t, weights, (k * pixels + i) * words + first / 32);
                int32_t sum = 0;

                for (c = 0; c < count; ++c, w >>= 1) {
                    sum += (w & 1u) != 0 ? (int32_t)codes[c] : -(int32_t)codes[c];
                }
                y[k] += sum;
            }
        }
    }
    for (k = 0; k < classes; ++k) {
        y[k] = BLRC_READ(int32_t, multiplier, k) * y[k] + BLRC_READ(int32_t, bias, k);
    }
}
