/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary tiles by look-up, for CPUs that shuffle bytes but do not count ones in vectors: for each nibble of a pixel's
 * run, a table of 16 bytes says how many bits of it differ from each value of a row's nibble. One shuffle so compares 4
 * bits of as many rows as a vector has bytes.
 *
 * The including file defines the vectors:
 *   BLRC_V                 the type; BLRC_V_ROWS its bytes: 16 or 32
 *   BLRC_V_TABLE(p)        the 16 bytes at p, in every 16 bytes of the vector
 *   BLRC_V_LOAD(p), BLRC_V_STORE(p, v)
 *   BLRC_V_ADD8, _ADD16, _AND, _SHUFFLE, _GREATER16, _PACK16, _PACK32, _LOW, _HIGH (unpack), _SHIFT4 (16-bit lanes),
 *   BLRC_V_ZERO, BLRC_V_NIBBLE (15 in all bytes), BLRC_V_MASK(v) a bit for each byte
 *   BLRC_V_PREPARE(to, p)  at `to`, the 16 bytes for the low nibble of the byte at p, then those for the high one
 *   BLRC_V_LIMITS(p)       4 limits at p, in each 128 bits those 16 rows further */
#ifndef BLRC_TILE_LOOKUP_H
#define BLRC_TILE_LOOKUP_H

#include "blrc_tile.h"

#include <string.h>

#define BLRC_LOOK_UNITS 3   /* at a time: the 48 sums of at most 4 stay below 256 */
#define BLRC_LOOK_BLOCKS 16 /* that share the tables */

#define BLRC_LOOK_PREPARE(i) BLRC_V_PREPARE(table + 32 * (BLRC_TILE_PIXELS * (i) + p), from + (i));

#define BLRC_LOOK_PIXEL(p) \
    a##p = BLRC_V_ADD8(a##p, BLRC_V_SHUFFLE(BLRC_V_TABLE(table + 32 * p), low)); \
    a##p = BLRC_V_ADD8(a##p, BLRC_V_SHUFFLE(BLRC_V_TABLE(table + 32 * p + 16), high));

#define BLRC_LOOK_KEEP(p) \
    { \
        uint16_t *const to = sums + BLRC_V_ROWS * p; \
\
        BLRC_V_STORE(to, BLRC_V_ADD16(BLRC_V_LOAD(to), BLRC_V_LOW(a##p, zero))); \
        BLRC_V_STORE(to + BLRC_V_ROWS / 2, BLRC_V_ADD16(BLRC_V_LOAD(to + BLRC_V_ROWS / 2), BLRC_V_HIGH(a##p, zero))); \
    }

/* sums += the differences of `bytes` bytes of the runs, from tables [byte][pixel][low, high nibble][16], of one vector
 * of rows. Sums lie [pixel][low, high half of every 16 bytes]. */
BLRC_V_TARGET static inline void blrc_look(const uint8_t *table, int32_t bytes, const uint8_t *w, uint16_t *sums)
{
    const BLRC_V zero = BLRC_V_ZERO, fifteen = BLRC_V_NIBBLE;
    BLRC_V a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero;

    for (; bytes > 0; --bytes, w += BLRC_TILE_ROWS, table += 2 * 16 * BLRC_TILE_PIXELS) {
        const BLRC_V both = BLRC_V_LOAD(w);
        const BLRC_V low = BLRC_V_AND(both, fifteen), high = BLRC_V_AND(BLRC_V_SHIFT4(both), fifteen);

        BLRC_LOOK_PIXEL(0)
        BLRC_LOOK_PIXEL(1)
        BLRC_LOOK_PIXEL(2)
        BLRC_LOOK_PIXEL(3)
        BLRC_LOOK_PIXEL(4)
        BLRC_LOOK_PIXEL(5)
    }
    BLRC_LOOK_KEEP(0)
    BLRC_LOOK_KEEP(1)
    BLRC_LOOK_KEEP(2)
    BLRC_LOOK_KEEP(3)
    BLRC_LOOK_KEEP(4)
    BLRC_LOOK_KEEP(5)
}

/* A bit for each row of a vector: sum <= limit. */
BLRC_V_TARGET static inline uint32_t blrc_look_decide(const uint16_t *sums, const int32_t *limit)
{
    const BLRC_V low = BLRC_V_PACK32(BLRC_V_LIMITS(limit), BLRC_V_LIMITS(limit + 4));
    const BLRC_V high = BLRC_V_PACK32(BLRC_V_LIMITS(limit + 8), BLRC_V_LIMITS(limit + 12));
    const BLRC_V more = BLRC_V_PACK16(BLRC_V_GREATER16(BLRC_V_LOAD(sums), low),
                                      BLRC_V_GREATER16(BLRC_V_LOAD(sums + BLRC_V_ROWS / 2), high));

    return ~(uint32_t)BLRC_V_MASK(more) & (0xFFFFFFFFu >> (32 - BLRC_V_ROWS));
}

/* A whole tile. */
BLRC_V_TARGET static inline void blrc_look_tile(const blrc_tile *tile)
{
    uint8_t table[8 * BLRC_LOOK_UNITS * 2 * BLRC_TILE_PIXELS * 16];
    uint16_t sums[BLRC_LOOK_BLOCKS * BLRC_TILE_PIXELS * BLRC_TILE_ROWS];
    const uint8_t *w = tile->bytes;
    int32_t start, block, first, p, i;

    for (start = 0; start < tile->blocks; start += BLRC_LOOK_BLOCKS) {
        const int32_t end = tile->blocks - start < BLRC_LOOK_BLOCKS ? tile->blocks : start + BLRC_LOOK_BLOCKS;

        memset(sums, 0, (size_t)((end - start) * BLRC_TILE_PIXELS * BLRC_TILE_ROWS) * sizeof *sums);
        for (first = 0; first < tile->units; first += BLRC_LOOK_UNITS) {
            const int32_t units = tile->units - first < BLRC_LOOK_UNITS ? tile->units - first : BLRC_LOOK_UNITS;

            for (p = 0; p < BLRC_TILE_PIXELS; ++p) {
                const uint8_t *const from = (const uint8_t *)(const void *)(tile->run[p] + 2 * first);

                for (i = 0; i < 8 * units; i += 4) { /* four, as one waits for what it loads */
                    BLRC_LOOK_PREPARE(i)
                    BLRC_LOOK_PREPARE(i + 1)
                    BLRC_LOOK_PREPARE(i + 2)
                    BLRC_LOOK_PREPARE(i + 3)
                }
            }
            for (block = start; block < end; ++block) {
                uint16_t *const to = sums + (block - start) * BLRC_TILE_PIXELS * BLRC_TILE_ROWS;

                for (i = 0; i < BLRC_TILE_ROWS / BLRC_V_ROWS; ++i) {
                    blrc_look(table, 8 * units, w + BLRC_V_ROWS * i, to + BLRC_TILE_PIXELS * BLRC_V_ROWS * i);
                }
                w += 8 * units * BLRC_TILE_ROWS;
            }
        }
        for (block = start; block < end; ++block) {
            const uint16_t *const from = sums + (block - start) * BLRC_TILE_PIXELS * BLRC_TILE_ROWS;

            for (p = 0; p < BLRC_TILE_PIXELS; ++p) {
                uint32_t bits = 0;

                for (i = 0; i < BLRC_TILE_ROWS / BLRC_V_ROWS; ++i) {
                    bits |= blrc_look_decide(from + (BLRC_TILE_PIXELS * i + p) * BLRC_V_ROWS,
                                             tile->limit[p] + BLRC_TILE_ROWS * block + BLRC_V_ROWS * i)
                            << (BLRC_V_ROWS * i);
                }
                tile->y[p][block] |= bits;
            }
        }
    }
}

#endif
