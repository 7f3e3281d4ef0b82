/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Blocks of four output channels that read the same run of words: what blrc_run and blrc_run_real share. `border` is 1
 * where some bits do not count; both give it as a constant. */
#ifndef BLRC_ROWS_H
#define BLRC_ROWS_H

#include "blrc_dot.h"

/* What the rows of all blocks read: words, and which of their bits count, n in all. */
typedef struct blrc_row_input {
    const uint32_t *x, *real;
    uint32_t words;
    int32_t n;
} blrc_row_input;

#if BLRC_VECTOR

static BLRC_INLINE uint32_t blrc_block(uint32_t bits, const blrc_row_input *in, int32_t border, BLRC_TABLE(uint32_t) w,
                                       BLRC_TABLE(blrc_bit_threshold) thresholds)
{
    uint32_t acc[BLRC_ROWS];

    blrc_quad_count(in->x, in->real, border, in->words, w, acc);
    return bits | blrc_pass4(acc, in->n, thresholds);
}

#elif BLRC_CARRY_SAVE

/* Bits in `ones`, and those that differ in pairs of words. */
static BLRC_APART uint32_t blrc_count_all(uint32_t ones, uint32_t pairs, const uint32_t *x, BLRC_TABLE(uint32_t) w)
{
    return blrc_count_pairs(ones, pairs, x, x, 0, w);
}

static BLRC_APART uint32_t blrc_count_real(uint32_t ones, uint32_t pairs, const uint32_t *x, BLRC_TABLE(uint32_t) w,
                                           const uint32_t *real)
{
    return blrc_count_pairs(ones, pairs, x, real, 1, w);
}

/* Rows one by one, so that each that is 1 already is left out. The last of an odd number of words stands alone. */
static BLRC_INLINE uint32_t blrc_four_rows(uint32_t bits, const blrc_row_input *in, int32_t border, uint32_t words,
                                           BLRC_TABLE(uint32_t) w, BLRC_TABLE(blrc_bit_threshold) thresholds)
{
    BLRC_TABLE(uint32_t) const alone = BLRC_SKIP(uint32_t, w, 4 * (words - 1));
    const uint32_t *const x = in->x, *const real = in->real;
    uint32_t bit;
    int32_t r = 0;

    for (bit = 1; bit < 16; bit <<= 1, ++r, w = BLRC_SKIP(uint32_t, w, 2)) {
        if ((bits & bit) == 0) {
            uint32_t pop = 0;

            if (words % 2 != 0) {
                pop = blrc_differ(x, real, border, (int32_t)words - 1, BLRC_READ(uint32_t, alone, r));
            }
            if (words == 9) {
                pop = blrc_count_nine(pop, x, real, border, w);
            } else {
                pop = border ? blrc_count_real(pop, words / 2, x, w, real) : blrc_count_all(pop, words / 2, x, w);
            }
            if (blrc_pass(pop, in->n, thresholds, r)) {
                bits |= bit;
            }
        }
    }
    return bits;
}

static BLRC_APART uint32_t blrc_nine_words(uint32_t bits, const blrc_row_input *in, BLRC_TABLE(uint32_t) w,
                                           BLRC_TABLE(blrc_bit_threshold) thresholds)
{
    return blrc_four_rows(bits, in, 0, 9, w, thresholds);
}

static BLRC_APART uint32_t blrc_nine_real(uint32_t bits, const blrc_row_input *in, BLRC_TABLE(uint32_t) w,
                                          BLRC_TABLE(blrc_bit_threshold) thresholds)
{
    return blrc_four_rows(bits, in, 1, 9, w, thresholds);
}

static BLRC_INLINE uint32_t blrc_block(uint32_t bits, const blrc_row_input *in, int32_t border, BLRC_TABLE(uint32_t) w,
                                       BLRC_TABLE(blrc_bit_threshold) thresholds)
{
    if (in->words == 9) {
        return border ? blrc_nine_real(bits, in, w, thresholds) : blrc_nine_words(bits, in, w, thresholds);
    }
    return blrc_four_rows(bits, in, border, in->words, w, thresholds);
}

#else

static BLRC_INLINE uint32_t blrc_block(uint32_t bits, const blrc_row_input *in, int32_t border, BLRC_TABLE(uint32_t) w,
                                       BLRC_TABLE(blrc_bit_threshold) thresholds)
{
    uint32_t acc[BLRC_ROWS] = {0, 0, 0, 0};

    if (border) {
        blrc_dot4_real(in->x, in->real, w, (int32_t)in->words, acc);
    } else {
        blrc_dot4_all(in->x, w, (int32_t)in->words, acc);
    }
    return bits | blrc_pass4(acc, in->n, thresholds);
}

#endif

/* y |= the bits of the channels first <= c < end. */
static BLRC_INLINE void blrc_rows(const blrc_row_input *in, int32_t border, int32_t first, int32_t end,
                                  BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    int32_t c;

    for (c = first; c < end; c += BLRC_ROWS, weights = BLRC_SKIP(uint32_t, weights, BLRC_ROWS * in->words)) {
        uint32_t *const to = y + (uint32_t)c / 32;
        const int32_t shift = c & 31;
        const uint32_t bits = (*to >> shift) & 15u;

        /* Pooling is an OR: four channels that are all 1 already need no further pixel. */
        if (bits != 15u) {
            *to |= blrc_block(bits, in, border, weights, BLRC_SKIP(blrc_bit_threshold, thresholds, c)) << shift;
        }
    }
}

#endif
