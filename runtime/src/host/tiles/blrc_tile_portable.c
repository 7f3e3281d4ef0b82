/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary tiles in portable C. */
#include "blrc_tile_plain.h"

/* Hacker's Delight, 5-1. */
static inline int64_t blrc_ones(uint64_t v)
{
    v -= (v >> 1) & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + ((v >> 2) & 0x3333333333333333u);
    v = (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (int64_t)((v * 0x0101010101010101u) >> 56);
}

#define BLRC_TILE_POPCOUNT(v) blrc_ones(v)

void blrc_tile_portable(const blrc_tile *tile)
{
    int32_t p;

    for (p = 0; p < tile->pixels; ++p) {
        BLRC_TILE_PLAIN(tile, p)
    }
}
