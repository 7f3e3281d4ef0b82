/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary tiles without vectors: what a function of some level of the instruction set inlines. BLRC_TILE_POPCOUNT(v) has
 * to count the ones of 64 bits. */
#ifndef BLRC_TILE_PLAIN_H
#define BLRC_TILE_PLAIN_H

#include "blrc_tile.h"

/* The sum, and the bit, of row j of 8 that lie side by side: even ones or odd ones of 16. */
#define BLRC_TILE_SUM(j) a##j += BLRC_TILE_POPCOUNT(v ^ blrc_unit_at(w + 2 * j));
#define BLRC_TILE_BIT(j) bits |= (uint32_t)(a##j <= limit[2 * j]) << (row + 2 * j);

/* One pixel of a tile: eight sums at a time, whose weights fill a line of the cache. */
#define BLRC_TILE_PLAIN(tile, p) \
    { \
        const int32_t units = (tile)->units; \
        int32_t block, eight, i; \
\
        for (block = 0; block < (tile)->blocks; ++block) { \
            uint32_t bits = 0; \
\
            for (eight = 0; eight < 4; ++eight) { \
                const int32_t row = eight / 2 * 16 + eight % 2; \
                const int32_t *const limit = (tile)->limit[p] + BLRC_TILE_ROWS * block + row; \
                const uint32_t *w = (tile)->weights + 64 * units * block + 16 * eight; \
                const uint32_t *x = (tile)->run[p]; \
                int64_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, a5 = 0, a6 = 0, a7 = 0; \
\
                for (i = 0; i < units; ++i, x += 2, w += 64) { \
                    const uint64_t v = blrc_unit_at(x); \
\
                    BLRC_TILE_SUM(0) \
                    BLRC_TILE_SUM(1) \
                    BLRC_TILE_SUM(2) \
                    BLRC_TILE_SUM(3) \
                    BLRC_TILE_SUM(4) \
                    BLRC_TILE_SUM(5) \
                    BLRC_TILE_SUM(6) \
                    BLRC_TILE_SUM(7) \
                } \
                BLRC_TILE_BIT(0) \
                BLRC_TILE_BIT(1) \
                BLRC_TILE_BIT(2) \
                BLRC_TILE_BIT(3) \
                BLRC_TILE_BIT(4) \
                BLRC_TILE_BIT(5) \
                BLRC_TILE_BIT(6) \
                BLRC_TILE_BIT(7) \
            } \
            (tile)->y[p][block] |= bits; \
        } \
    }

#endif
