/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Which inner loop of binary tiles an x86-64 takes. */
#include "blrc_tile.h"

void blrc_tile_run(int32_t tier, const blrc_tile *tile)
{
    switch (tier) {
    case BLRC_TIER_AVX512:
        blrc_tile_avx512(tile);
        break;
    case BLRC_TIER_AVX2:
        blrc_tile_avx2(tile);
        break;
    case BLRC_TIER_POPCNT:
        blrc_tile_popcnt(tile);
        break;
    default:
        blrc_tile_portable(tile);
        break;
    }
}
