/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Scores of a last layer with real weights, of either width. */
#ifndef BLRC_SCORES_H
#define BLRC_SCORES_H

#include "blrc.h"

/* The weight, or where `minus` is 1 its negative: x ^ -1 is -x - 1. */
static inline int32_t blrc_signed(int32_t weight, uint32_t minus)
{
    const int32_t mask = -(int32_t)minus;

    return (weight ^ mask) - mask;
}

#define BLRC_WEIGHT (bits_of_weights == 8 ? BLRC_NEXT(int8_t, narrow) : BLRC_NEXT(int16_t, wide))

/* y[class] = bias[class] + sum of +-weights by the signs in x. The weights are those of `narrow` where
 * `bits_of_weights`, a constant of the caller, is 8, else those of `wide`: nothing is decided when it runs. */
static inline void blrc_scores(int32_t bits_of_weights, int32_t pixels, int32_t channels, int32_t classes,
                               const uint32_t *x, BLRC_TABLE(int8_t) narrow, BLRC_TABLE(int16_t) wide,
                               BLRC_TABLE(int32_t) bias, int32_t *y)
{
    int32_t k, i, c;

    for (k = 0; k < classes; ++k) {
        const uint32_t *word = x;
        int32_t sum = BLRC_READ(int32_t, bias, k);

        for (i = 0; i < pixels; ++i) {
            for (c = 0; c < channels; c += 32) {
                uint32_t bits = ~*word++;
                int32_t left = channels - c < 32 ? channels - c : 32;

                for (; left >= 4; left -= 4, bits >>= 4) {
                    sum += blrc_signed(BLRC_WEIGHT, bits & 1u);
                    sum += blrc_signed(BLRC_WEIGHT, (bits >> 1) & 1u);
                    sum += blrc_signed(BLRC_WEIGHT, (bits >> 2) & 1u);
                    sum += blrc_signed(BLRC_WEIGHT, (bits >> 3) & 1u);
                }
                for (; left > 0; --left, bits >>= 1) {
                    sum += blrc_signed(BLRC_WEIGHT, bits & 1u);
                }
            }
        }
        y[k] = sum;
    }
}

#endif
