/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* The dot product of +-1 vectors in portable C: popcount(x xor w), for one row or for four rows at once.
 *
 * Four rows are interleaved so that one activation serves four weights, and words come in pairs of the same row so that
 * a 64-bit CPU takes both at once: in which half either lies does not matter to a popcount, so one table serves both
 * byte orders. */
#ifndef BLRC_DOT_PORTABLE_H
#define BLRC_DOT_PORTABLE_H

#include "blrc_vector.h"

/* Both choices may be given to the compiler instead (-D): tests walk every path so. */
#ifndef BLRC_HAS_POPCOUNT
#if defined(__POPCNT__) || defined(__riscv_zbb) || defined(__wasm__)
#define BLRC_HAS_POPCOUNT 1
#else
/* __builtin_popcount would be a libgcc call on most CPUs without the instruction: slower than the sums below. */
#define BLRC_HAS_POPCOUNT 0
#endif
#endif

#ifndef BLRC_UNIT_BITS
#if UINTPTR_MAX > 0xFFFFFFFFu || defined(__wasm__)
#define BLRC_UNIT_BITS 64
#else
#define BLRC_UNIT_BITS 32
#endif
#endif

#define BLRC_CARRY_SAVE (!BLRC_VECTOR && !BLRC_HAS_POPCOUNT && BLRC_UNIT_BITS == 32)

static BLRC_INLINE uint32_t blrc_popcount_here(uint32_t v)
{
#if BLRC_HAS_POPCOUNT
    return (uint32_t)__builtin_popcountl((unsigned long)v);
#else
    return blrc_of_all(blrc_of_eight(blrc_of_four(v)));
#endif
}

/* The same, compiled once where compilers prefer that. */
static inline uint32_t blrc_popcount(uint32_t v)
{
    return blrc_popcount_here(v);
}

#if BLRC_UNIT_BITS == 64
/* Compilers make one load of this on little-endian CPUs; it needs no alignment beyond that of the words. */
static inline uint64_t blrc_load(const uint32_t *pair)
{
    return (uint64_t)pair[0] | (uint64_t)pair[1] << 32;
}
#endif

/* acc[r] += popcount(x xor w[r * step]): one word of four rows. */
static inline void blrc_dot4_word(uint32_t x, BLRC_TABLE(uint32_t) w, int32_t step, uint32_t *acc)
{
    acc[0] += blrc_popcount(x ^ BLRC_READ(uint32_t, w, 0));
    acc[1] += blrc_popcount(x ^ BLRC_READ(uint32_t, w, step));
    acc[2] += blrc_popcount(x ^ BLRC_READ(uint32_t, w, 2 * step));
    acc[3] += blrc_popcount(x ^ BLRC_READ(uint32_t, w, 3 * step));
}

#if BLRC_VECTOR

static BLRC_INLINE void blrc_dot4(const uint32_t *x, BLRC_TABLE(uint32_t) w, int32_t pairs, uint32_t *acc)
{
    uint32_t more[4];

    blrc_quad_count(x, x, 0, 2 * (uint32_t)pairs, w, more);
    acc[0] += more[0], acc[1] += more[1], acc[2] += more[2], acc[3] += more[3];
}

#elif BLRC_HAS_POPCOUNT && BLRC_UNIT_BITS == 64

static BLRC_INLINE void blrc_dot4(const uint32_t *x, BLRC_TABLE(uint32_t) w, int32_t pairs, uint32_t *acc)
{
    const uint32_t *const end = x + 2 * pairs;
    uint32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];

    for (; x != end; x += 2, w += 8) {
        const uint64_t v = blrc_load(x);

        a0 += (uint32_t)__builtin_popcountll(v ^ blrc_load(w));
        a1 += (uint32_t)__builtin_popcountll(v ^ blrc_load(w + 2));
        a2 += (uint32_t)__builtin_popcountll(v ^ blrc_load(w + 4));
        a3 += (uint32_t)__builtin_popcountll(v ^ blrc_load(w + 6));
    }
    acc[0] = a0, acc[1] = a1, acc[2] = a2, acc[3] = a3;
}

#elif BLRC_HAS_POPCOUNT

static BLRC_INLINE void blrc_dot4(const uint32_t *x, BLRC_TABLE(uint32_t) w, int32_t pairs, uint32_t *acc)
{
    for (; pairs > 0; --pairs, x += 2, w = BLRC_SKIP(uint32_t, w, 8)) {
        blrc_dot4_word(x[0], w, 2, acc);
        blrc_dot4_word(x[1], BLRC_SKIP(uint32_t, w, 1), 2, acc);
    }
}

#elif BLRC_CARRY_SAVE

static BLRC_INLINE void blrc_dot4(const uint32_t *x, BLRC_TABLE(uint32_t) w, int32_t pairs, uint32_t *acc)
{
    int32_t r;

    for (r = 0; r < 4; ++r, w = BLRC_SKIP(uint32_t, w, 2)) {
        acc[r] += blrc_count((uint32_t)pairs, x, w);
    }
}

#else

/* Bits of a pair that differ, counted in bytes: each byte of the result is at most 16. 2-bit fields first hold 0..2,
 * then 4-bit fields 0..4 (SWAR, "Hacker's Delight" 5-1): 2a + b - a = a + b for each pair of bits ab. */
static inline uint64_t blrc_bytes(const uint32_t *x, const uint32_t *w)
{
    const uint64_t fives = (uint64_t)-1 / 3, threes = (uint64_t)-1 / 5, low = (uint64_t)-1 / 17;
    uint64_t v = blrc_load(x) ^ blrc_load(w);

    v -= (v >> 1) & fives;
    v = (v & threes) + ((v >> 2) & threes);
    return (v & low) + ((v >> 4) & low);
}

/* Sum of the bytes, each below 256. Their sum may pass 255, so it is taken in 16-bit fields. */
static inline uint32_t blrc_sum_bytes(uint64_t v)
{
    const uint64_t even = (uint64_t)-1 / 257, ones = (uint64_t)-1 / 65535;

    v = (v & even) + ((v >> 8) & even);
    return (uint32_t)((v * ones) >> 48);
}

static BLRC_INLINE void blrc_dot4(const uint32_t *x, BLRC_TABLE(uint32_t) w, int32_t pairs, uint32_t *acc)
{
    while (pairs > 0) {
        /* 15 pairs of at most 16 keep a byte below 256; only then are bytes added up. */
        int32_t chunk = pairs < 15 ? pairs : 15;
        uint64_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;

        pairs -= chunk;
        for (; chunk > 0; --chunk, x += 2, w = BLRC_SKIP(uint32_t, w, 8)) {
            a0 += blrc_bytes(x, w);
            a1 += blrc_bytes(x, BLRC_SKIP(uint32_t, w, 2));
            a2 += blrc_bytes(x, BLRC_SKIP(uint32_t, w, 4));
            a3 += blrc_bytes(x, BLRC_SKIP(uint32_t, w, 6));
        }
        acc[0] += blrc_sum_bytes(a0);
        acc[1] += blrc_sum_bytes(a1);
        acc[2] += blrc_sum_bytes(a2);
        acc[3] += blrc_sum_bytes(a3);
    }
}

#endif

/* One row of `count` words. */
static BLRC_INLINE uint32_t blrc_dot1(const uint32_t *x, BLRC_TABLE(uint32_t) w, int32_t count)
{
    uint32_t pop = 0;

    for (; count > 0; --count) {
        pop += blrc_popcount(*x++ ^ BLRC_NEXT(uint32_t, w));
    }
    return pop;
}

#endif
