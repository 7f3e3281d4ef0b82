/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Many output channels that read the same run of words: the inner loop of dense layers and of gathered convolutions.
 *
 * Compiled for itself (BLRC_NOINLINE), so that its few variables stay in registers whatever surrounds the call. */
#include "blrc_rows.h"
#include "blrc_run.h"

void blrc_run(int32_t n, int32_t words, int32_t first, int32_t end, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
              BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    const blrc_row_input in = {x, x, (uint32_t)words, n};

    blrc_rows(&in, 0, first, end, weights, thresholds, y);
}
