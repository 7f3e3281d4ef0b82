/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* First layers that compute two pixels at once, in the halves of a word: what conv_pairs and conv_columns share.
 *
 * A code is that of the one pixel plus 65536 times that of the other, and so are sums. A row's sum starts at
 * 32768 - threshold in both halves, so that at the end it lies between 0 and 65535 in each, nothing was borrowed
 * between them, and the half's highest bit says whether it passes. */
#ifndef BLRC_PAIRS_H
#define BLRC_PAIRS_H

#include "blrc_carry.h"
#include "blrc_window.h"

typedef struct blrc_pair_input {
    const void *x;
    BLRC_TABLE(int8_t) table; /* null where x holds codes */
    int32_t row;              /* elements of the table for each channel; 0 where all channels share it */
} blrc_pair_input;

static inline uint32_t blrc_code(const blrc_pair_input *in, int32_t at, int32_t channel)
{
    if (in->table == 0) {
        return (uint32_t)((const int8_t *)in->x)[at];
    }
    return (uint32_t)BLRC_READ(int8_t, in->table, in->row * channel + ((const uint8_t *)in->x)[at]);
}

/* Codes of a kernel row that lies inside the map under both windows: `count` from x on, and from x + other on. */
static void blrc_inner_codes(BLRC_TABLE(int8_t) table, const uint8_t *x, int32_t other, int32_t count, uint32_t *to)
{
    const uint32_t *const end = to + count;

    for (; to != end; ++to, ++x) {
        const int8_t first = BLRC_READ(int8_t, table, *x), second = BLRC_READ(int8_t, table, x[other]);

        *to = (uint32_t)first + ((uint32_t)second << 16);
    }
}

/* The same anywhere: a code outside the map is 0. Windows start at `column` and so many columns further on. */
static void blrc_outer_codes(const blrc_conv *op, const blrc_pair_input *in, int32_t row, int32_t column,
                             int32_t further, uint32_t *to)
{
    const int32_t channels = op->in_channels;
    int32_t s, c;

    for (s = 0; s < op->window.kernel_x; ++s, column += op->window.dilation_x) {
        const int32_t other = column + further;

        for (c = 0; c < channels; ++c, ++to) {
            *to = 0;
            if (column >= 0 && column < op->in_width) {
                *to = blrc_code(in, (row + column) * channels + c, c);
            }
            if (other >= 0 && other < op->in_width) {
                *to += blrc_code(in, (row + other) * channels + c, c) << 16;
            }
        }
    }
}

/* The codes of one kernel row of the map row y: windows start at `column` and so many columns further on. */
static BLRC_INLINE void blrc_row_codes(const blrc_conv *op, const blrc_pair_input *in, int32_t y, int32_t column,
                                       int32_t further, uint32_t *to)
{
    const blrc_window *win = &op->window;
    const int32_t line = win->kernel_x * op->in_channels, row = y * op->in_width;

    if (y < 0 || y >= op->in_height) {
        const uint32_t *const end = to + line;

        while (to != end) {
            *to++ = 0;
        }
    } else if (in->table != 0 && in->row == 0 && win->dilation_x == 1 && column >= 0 && further >= 0 &&
               column + further + win->kernel_x <= op->in_width) {
        const uint8_t *const x = (const uint8_t *)in->x + (row + column) * op->in_channels;

        blrc_inner_codes(in->table, x, further * op->in_channels, line, to);
    } else {
        blrc_outer_codes(op, in, row, column, further, to);
    }
}

static inline void blrc_four_sums(uint32_t *sums, uint32_t high, uint32_t both, uint32_t other)
{
    sums[0] = high - both;
    sums[1] = high + other;
    sums[2] = high - other;
    sums[3] = high + both;
}

/* sums[bits] = +-a +-b +-c +-d, + where the bit of a (bit 0), b, c or d is set. */
static BLRC_INLINE void blrc_tabulate_four(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t *sums)
{
    const uint32_t both = a + b, other = a - b, high = c + d, differ = c - d;

    blrc_four_sums(sums, 0 - high, both, other);
    blrc_four_sums(sums + 4, differ, both, other);
    blrc_four_sums(sums + 8, 0 - differ, both, other);
    blrc_four_sums(sums + 12, high, both, other);
}

/* Bits of 8 rows, whose nibbles share a word: from bit 8 on those of one pixel, from bit 24 on those of the other. The
 * tables of all nibbles lie one behind the other from `first` on; the first nibble's is at `sums`, the ring's start. */
static BLRC_APART uint32_t blrc_eight_rows(BLRC_TABLE(uint32_t) weights, const uint32_t *sums, const uint32_t *first,
                                           int32_t nibbles, BLRC_TABLE(uint32_t) starts)
{
    const uint32_t *const end = first + 16 * nibbles;
    uint32_t z0 = BLRC_READ(uint32_t, starts, 0), z1 = BLRC_READ(uint32_t, starts, 1);
    uint32_t z2 = BLRC_READ(uint32_t, starts, 2), z3 = BLRC_READ(uint32_t, starts, 3);
    uint32_t z4 = BLRC_READ(uint32_t, starts, 4), z5 = BLRC_READ(uint32_t, starts, 5);
    uint32_t z6 = BLRC_READ(uint32_t, starts, 6), z7 = BLRC_READ(uint32_t, starts, 7);

    for (; nibbles > 0; --nibbles) {
        const uint32_t w = BLRC_NEXT(uint32_t, weights);

        z0 += sums[w & 15u];
        z1 += sums[(w >> 4) & 15u];
        z2 += sums[(w >> 8) & 15u];
        z3 += sums[(w >> 12) & 15u];
        z4 += sums[(w >> 16) & 15u];
        z5 += sums[(w >> 20) & 15u];
        z6 += sums[(w >> 24) & 15u];
        z7 += sums[w >> 28];
        sums += 16;
        if (sums == end) {
            sums = first;
        }
    }
    z0 = (z0 & 0x80008000u) >> 1 | (z1 & 0x80008000u);
    z0 = z0 >> 1 | (z2 & 0x80008000u);
    z0 = z0 >> 1 | (z3 & 0x80008000u);
    z0 = z0 >> 1 | (z4 & 0x80008000u);
    z0 = z0 >> 1 | (z5 & 0x80008000u);
    z0 = z0 >> 1 | (z6 & 0x80008000u);
    return z0 >> 1 | (z7 & 0x80008000u);
}

#endif
