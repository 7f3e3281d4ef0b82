/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Which inner loop of binary tiles an AArch64 takes. */
#include "blrc_neon.h"

void blrc_tile_run(int32_t tier, const blrc_tile *tile)
{
    if (tier == BLRC_TIER_PORTABLE) {
        blrc_tile_portable(tile);
    } else {
        blrc_tile_neon(tile);
    }
}
