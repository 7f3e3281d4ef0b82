/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Which sums of 8-bit products an AArch64 takes. */
#include "blrc_neon.h"

void blrc_dots_run(int32_t tier, const blrc_dots *in, const blrc_dots_batch *batch)
{
    switch (tier) {
    case BLRC_TIER_DOTPROD:
        blrc_dots_dotprod(in, batch);
        break;
    case BLRC_TIER_NEON:
        blrc_dots_neon(in, batch);
        break;
    default:
        blrc_dots_portable(in, batch);
        break;
    }
}

void blrc_sums_run(int32_t tier, int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    if (tier == BLRC_TIER_PORTABLE) {
        blrc_sums_portable(words, classes, x, weights, y);
    } else {
        blrc_sums_neon(words, classes, x, weights, y);
    }
}
