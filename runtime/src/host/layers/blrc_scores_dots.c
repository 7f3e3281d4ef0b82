/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Scores with 8-bit weights on hosts: bias holds the scores where no bit is set; each bit adds its weight twice. */
#include "blrc_dots.h"

void blrc_scores_dots(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, const int32_t *bias,
                      int32_t *y)
{
    int32_t k;

    blrc_sums_run(blrc_tier(), words, classes, x, weights, y);
    for (k = 0; k < classes; ++k) {
        y[k] = bias[k] + 2 * y[k];
    }
}
