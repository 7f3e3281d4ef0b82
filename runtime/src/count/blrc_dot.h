/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Which implementation of the dot product this CPU gets, chosen at compile time. Another instruction set is one more
 * file blrc_dot_<isa>.h with the three functions of the portable one, and one more line here. */
#ifndef BLRC_DOT_H
#define BLRC_DOT_H

#include "blrc_dot_portable.h"

/* Where word i of row r lies in a block of `rows` rows. */
static inline int32_t blrc_word_at(int32_t rows, int32_t words, int32_t r, int32_t i)
{
    if (rows == 1) {
        return i;
    }
    return i == words - 1 && words % 2 != 0 ? 4 * i + r : 8 * (i / 2) + 2 * r + i % 2;
}

/* acc[row] += popcount(x xor w[row]) over the words first <= i < end of a row of `total` words.
 *
 * x points to the activation of word `first`, w to the whole block. An odd `first` is the second word of its pair, and
 * the last word of an odd row stands alone. */
static BLRC_INLINE void blrc_dot4_range(const uint32_t *x, BLRC_TABLE(uint32_t) w, int32_t first, int32_t end,
                                        int32_t total, uint32_t *acc)
{
    if (first >= end) {
        return;
    }
    if (first % 2 != 0) {
        blrc_dot4_word(*x, BLRC_SKIP(uint32_t, w, 4 * (first - 1) + 1), 2, acc);
        ++x;
        ++first;
    }
    blrc_dot4(x, BLRC_SKIP(uint32_t, w, 4 * first), (end - first) / 2, acc);
    if ((end - first) % 2 != 0) {
        blrc_dot4_word(x[end - first - 1], BLRC_SKIP(uint32_t, w, 4 * (end - 1)), end == total ? 1 : 2, acc);
    }
}

/* The same over the whole row. */
static BLRC_INLINE void blrc_dot4_all(const uint32_t *x, BLRC_TABLE(uint32_t) w, int32_t total, uint32_t *acc)
{
    blrc_dot4(x, w, total / 2, acc);
    if (total % 2 != 0) {
        blrc_dot4_word(x[total - 1], BLRC_SKIP(uint32_t, w, 4 * (total - 1)), 1, acc);
    }
}

/* The same where only the bits in `real` count. */
static BLRC_INLINE void blrc_dot4_real(const uint32_t *x, const uint32_t *real, BLRC_TABLE(uint32_t) w, int32_t total,
                                       uint32_t *acc)
{
    int32_t i, r;

    for (i = 0; i < total; ++i) {
        for (r = 0; r < BLRC_ROWS; ++r) {
            /* Every word of x was collected before.
             * NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
            acc[r] += blrc_popcount((x[i] ^ BLRC_READ(uint32_t, w, blrc_word_at(BLRC_ROWS, total, r, i))) & real[i]);
        }
    }
}

/* 1 where row r passes, else 0: z >= threshold[r].
 *
 *   z = n - 2 pop;     z >= t  <=>  2 pop <= n - t  (that is, pop <= floor((n - t) / 2))
 *
 * Neither side overflows: the exporter proves 2 n < 2^31, and -n <= t <= n + 1 or t is "never", the type's largest. */
static BLRC_INLINE uint32_t blrc_pass(uint32_t pop, int32_t n, BLRC_TABLE(blrc_bit_threshold) thresholds, int32_t r)
{
    return (int32_t)(2 * pop) <= n - BLRC_READ(blrc_bit_threshold, thresholds, r);
}

/* Bit r is that of row r, for 4 rows. */
static BLRC_INLINE uint32_t blrc_pass4(const uint32_t *acc, int32_t n, BLRC_TABLE(blrc_bit_threshold) thresholds)
{
    const uint32_t b0 = blrc_pass(acc[0], n, thresholds, 0);
    const uint32_t b1 = blrc_pass(acc[1], n, thresholds, 1);
    const uint32_t b2 = blrc_pass(acc[2], n, thresholds, 2);
    const uint32_t b3 = blrc_pass(acc[3], n, thresholds, 3);

    return b0 | b1 << 1 | b2 << 2 | b3 << 3;
}

/* y |= bits of `outputs` channels from `first` on, from plain rows: for groups whose outputs do not come in
 * fours. Only the bits in `real` count. */
static BLRC_INLINE void blrc_single_rows(int32_t n, int32_t words, int32_t first, int32_t outputs, const uint32_t *run,
                                         const uint32_t *real, BLRC_TABLE(uint32_t) w,
                                         BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    int32_t c, i;

    for (c = first; c < first + outputs; ++c) {
        uint32_t pop = 0;

        for (i = 0; i < words; ++i) {
            /* All words of the kernel have been collected, but that is a product too much for the analyzer.
             * NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
            pop += blrc_popcount_here((run[i] ^ BLRC_NEXT(uint32_t, w)) & real[i]);
        }
        y[c / 32] |= blrc_pass(pop, n, thresholds, c) << (c % 32);
    }
}

#endif
