/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Scores of a binary last layer: one dot product a class, scaled and moved. */
#include "blrc_dot.h"

void blrc_scores_binary(int32_t inputs, int32_t words, int32_t classes, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                        BLRC_TABLE(int32_t) multiplier, BLRC_TABLE(int32_t) bias, int32_t *y)
{
    int32_t k;

    for (k = 0; k < classes; ++k, weights = BLRC_SKIP(uint32_t, weights, words)) {
        const int32_t z = inputs - 2 * (int32_t)blrc_dot1(x, weights, words);

        y[k] = BLRC_READ(int32_t, multiplier, k) * z + BLRC_READ(int32_t, bias, k);
    }
}
