/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* The same at borders, where the bits of some taps do not count. */
#include "blrc_rows.h"
#include "blrc_run_real.h"

void blrc_run_real(int32_t n, int32_t words, int32_t first, int32_t end, const uint32_t *x, const uint32_t *real,
                   BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    const blrc_row_input in = {x, real, (uint32_t)words, n};

    blrc_rows(&in, 1, first, end, weights, thresholds, y);
}
