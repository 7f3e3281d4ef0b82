/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Which sums of 8-bit products an x86-64 takes. */
#include "blrc_dots.h"

void blrc_dots_run(int32_t tier, const blrc_dots *in, const blrc_dots_batch *batch)
{
    switch (tier) {
    case BLRC_TIER_AVX512:
        blrc_dots_avx512(in, batch);
        break;
    case BLRC_TIER_AVX2:
        blrc_dots_avx2(in, batch);
        break;
    case BLRC_TIER_POPCNT:
        blrc_dots_popcnt(in, batch);
        break;
    default:
        blrc_dots_portable(in, batch);
        break;
    }
}

void blrc_sums_run(int32_t tier, int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    switch (tier) {
    case BLRC_TIER_AVX512:
        blrc_sums_avx512(words, classes, x, weights, y);
        break;
    case BLRC_TIER_AVX2:
        blrc_sums_avx2(words, classes, x, weights, y);
        break;
    case BLRC_TIER_POPCNT:
        blrc_sums_popcnt(words, classes, x, weights, y);
        break;
    default:
        blrc_sums_portable(words, classes, x, weights, y);
        break;
    }
}
