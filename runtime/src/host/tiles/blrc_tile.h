/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* The inner loops of binary layers on hosts, one for each level of the instruction set.
 *
 * A tile is a few pixels. Of each, the bits of all taps lie in one run of 64-bit units, taps outside the map as zeros.
 * A zero bit xor a weight is the weight, so absent taps count the ones among their weights; `limits` has them added,
 * for every place where a window can lie: a row's bit is 1 where popcount(run xor weights) <= limit.
 *
 * weights: for each block of 32 rows (output channels), unit after unit of the run, the two words of each row. Rows lie
 *   in the order 0, 2, ... 14, 1, 3, ... 15, and so on from 16.
 * bytes: the same bits in the order of look-ups, or null: for each 16 blocks (the last may be fewer), for each 3 units
 *   (the last may be fewer), for each block, byte after byte of these units, that byte of each row, in order.
 * Missing rows of the last block are zeros with limit -1. */
#ifndef BLRC_TILE_H
#define BLRC_TILE_H

#include "blrc_tier.h"

#define BLRC_TILE_PIXELS 6
#define BLRC_TILE_ROWS 32 /* of a block: one word of the result */

typedef struct blrc_tile {
    const uint32_t *run[BLRC_TILE_PIXELS];  /* 2 * units words each */
    const int32_t *limit[BLRC_TILE_PIXELS]; /* of 32 * blocks rows */
    uint32_t *y[BLRC_TILE_PIXELS];          /* where `blocks` words of the result are OR-ed */
    int32_t pixels, units, blocks;
    const uint32_t *weights;
    const uint8_t *bytes;
} blrc_tile;

static inline uint64_t blrc_unit_at(const uint32_t *words)
{
    return (uint64_t)words[0] | (uint64_t)words[1] << 32;
}

#ifdef __cplusplus
extern "C" {
#endif

void blrc_tile_portable(const blrc_tile *tile);
void blrc_tile_popcnt(const blrc_tile *tile);
void blrc_tile_avx2(const blrc_tile *tile);
void blrc_tile_avx512(const blrc_tile *tile);

/* Of this CPU. */
void blrc_tile_run(int32_t tier, const blrc_tile *tile);

#ifdef __cplusplus
}
#endif

#endif
