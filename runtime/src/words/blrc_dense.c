/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Dense layer on bits: one run of words. */
#include "blrc_run.h"
#include "blrc_window.h"

void blrc_dense(int32_t inputs, int32_t words, int32_t outputs, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    int32_t i;

    for (i = 0; i < blrc_words(outputs); ++i) {
        y[i] = 0;
    }
    blrc_run(inputs, words, 0, outputs, x, weights, thresholds, y);
}
