/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Counting bits in quads, where the CPU has vectors: a quad is a word of each of four rows, or two words of two rows.
 *
 * Chosen at compile time; -DNAME_BLRC_VECTOR=0, NAME being the model's, leaves vectors alone. */
#ifndef BLRC_VECTOR_H
#define BLRC_VECTOR_H

#include "blrc_quad.h"

#if BLRC_VECTOR && !defined(__ARM_NEON) && !defined(__wasm_simd128__)

/* Helium and RISC-V's V count no bits, so carry-save adders do (blrc_carry.h), for four rows at once. */
static BLRC_INLINE blrc_quad blrc_quad_of_four(blrc_quad v)
{
    v -= (v >> 1) & 0x55555555u;
    return (v & 0x33333333u) + ((v >> 2) & 0x33333333u);
}

static BLRC_INLINE blrc_quad blrc_quad_of_eight(blrc_quad v)
{
    return (v & 0x0F0F0F0Fu) + ((v >> 4) & 0x0F0F0F0Fu);
}

/* Set bits of four planes: see blrc_planes. */
static BLRC_INLINE blrc_quad blrc_quad_planes(blrc_quad ones, blrc_quad twos, blrc_quad fours, blrc_quad eights)
{
    blrc_quad sum = blrc_quad_of_eight(blrc_quad_of_four(ones) + 2 * blrc_quad_of_four(twos));

    sum += 4 * blrc_quad_of_eight(blrc_quad_of_four(fours) + 2 * blrc_quad_of_four(eights));
    sum = (sum & 0x00FF00FFu) + ((sum >> 8) & 0x00FF00FFu);
    return (sum + (sum >> 16)) & 0xFFFFu;
}

static BLRC_INLINE blrc_quad blrc_quad_differ(blrc_quad w, const uint32_t *x, const uint32_t *real, int32_t border)
{
    w ^= blrc_quad_of(*x);
    return border ? w & blrc_quad_of(*real) : w;
}

/* Two words of each of four rows, apart. */
static BLRC_INLINE void blrc_quad_pairs(const uint32_t *w, blrc_quad *first, blrc_quad *second)
{
#if defined(__ARM_FEATURE_MVE)
    const uint32x4x2_t pair = vld2q_u32(w);

    *first = pair.val[0], *second = pair.val[1];
#else
    const blrc_quad low = blrc_quad_get(w), high = blrc_quad_get(w + 4);

    *first = __builtin_shufflevector(low, high, 0, 2, 4, 6);
    *second = __builtin_shufflevector(low, high, 1, 3, 5, 7);
#endif
}

/* low + the differing bits of a pair of words; the carries are returned. */
static BLRC_INLINE blrc_quad blrc_quad_add_pair(blrc_quad *low, const uint32_t *x, const uint32_t *real, int32_t border,
                                                const uint32_t *w)
{
    blrc_quad first, second;

    blrc_quad_pairs(w, &first, &second);
    first = blrc_quad_differ(first, x, real, border);
    return blrc_quad_add3(low, first, blrc_quad_differ(second, x + 1, real + 1, border));
}

static BLRC_INLINE blrc_quad blrc_quad_add_eight(blrc_quad *ones, blrc_quad *twos, blrc_quad *fours, const uint32_t *x,
                                                 const uint32_t *real, int32_t border, const uint32_t *w)
{
    blrc_quad two = blrc_quad_add_pair(ones, x, real, border, w), four;

    four = blrc_quad_add3(twos, two, blrc_quad_add_pair(ones, x + 2, real + 2, border, w + 8));
    two = blrc_quad_add_pair(ones, x + 4, real + 4, border, w + 16);
    two = blrc_quad_add3(twos, two, blrc_quad_add_pair(ones, x + 6, real + 6, border, w + 24));
    return blrc_quad_add3(fours, four, two);
}

/* acc[r] = differing bits of row r in `words` words. */
static BLRC_INLINE void blrc_quad_count(const uint32_t *x, const uint32_t *real, int32_t border, uint32_t words,
                                        const uint32_t *w, uint32_t *acc)
{
    blrc_quad ones = blrc_quad_of(0), twos = ones, fours = ones, eights = ones, sixteens = ones;
    uint32_t i;

    if (words % 2 != 0) {
        ones = blrc_quad_differ(blrc_quad_get(w + 4 * (words - 1)), x + words - 1, real + words - 1, border);
    }
    /* At most 1 + 3 * 2 = 7 at any position: no carry leaves the fours. */
    for (i = words / 2 % 4; i != 0; --i, x += 2, real += 2, w += 8) {
        const blrc_quad two = blrc_quad_add_pair(&ones, x, real, border, w);

        fours ^= twos & two;
        twos ^= two;
    }
    if ((words & 8) != 0) { /* at most 15 now */
        eights = blrc_quad_add_eight(&ones, &twos, &fours, x, real, border, w);
        x += 8, real += 8, w += 32;
    }
    for (i = words / 16; i != 0; --i, x += 16, real += 16, w += 64) {
        const blrc_quad eight = blrc_quad_add_eight(&ones, &twos, &fours, x, real, border, w);
        blrc_quad sum;

        sum = blrc_quad_add3(&eights, eight,
                             blrc_quad_add_eight(&ones, &twos, &fours, x + 8, real + 8, border, w + 32));
        sum = blrc_quad_of_eight(blrc_quad_of_four(sum));
        sixteens += (sum * 0x01010101u) >> 24;
    }
    blrc_quad_put(acc, 16 * sixteens + blrc_quad_planes(ones, twos, fours, eights));
}

#elif BLRC_VECTOR

#ifdef __ARM_NEON
typedef uint8x16_t blrc_bytes16;

/* A pair of words in both halves. */
static BLRC_INLINE blrc_quad blrc_quad_of_pair(const uint32_t *pair)
{
    return vcombine_u32(vld1_u32(pair), vld1_u32(pair));
}

/* Set bits of each byte. */
static BLRC_INLINE blrc_bytes16 blrc_bits16(blrc_quad v)
{
    return vcntq_u8(vreinterpretq_u8_u32(v));
}

/* Sum of the bytes of each word. */
static BLRC_INLINE blrc_quad blrc_quad_sums(blrc_bytes16 v)
{
    return vpaddlq_u16(vpaddlq_u8(v));
}

/* acc[r] = what the rows' words add up to: two places for each of rows 0 and 1, of 2 and 3, and one for each of all. */
static BLRC_INLINE void blrc_quad_store(blrc_quad low, blrc_quad high, blrc_quad all, uint32_t *acc)
{
    const uint32x2_t two = vpadd_u32(vget_low_u32(low), vget_high_u32(low));

    all = vaddq_u32(all, vcombine_u32(two, vpadd_u32(vget_low_u32(high), vget_high_u32(high))));
    blrc_quad_put(acc, all);
}

#else
#include <wasm_simd128.h>

typedef uint8_t blrc_bytes16 __attribute__((vector_size(16)));

static BLRC_INLINE blrc_quad blrc_quad_of_pair(const uint32_t *pair)
{
    return (blrc_quad)wasm_v128_load64_splat(pair);
}

static BLRC_INLINE blrc_bytes16 blrc_bits16(blrc_quad v)
{
    return (blrc_bytes16)wasm_i8x16_popcnt((v128_t)v);
}

static BLRC_INLINE blrc_quad blrc_quad_sums(blrc_bytes16 v)
{
    return (blrc_quad)wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16((v128_t)v));
}

static BLRC_INLINE void blrc_quad_store(blrc_quad low, blrc_quad high, blrc_quad all, uint32_t *acc)
{
    acc[0] = all[0] + low[0] + low[1];
    acc[1] = all[1] + low[2] + low[3];
    acc[2] = all[2] + high[0] + high[1];
    acc[3] = all[3] + high[2] + high[3];
}

#endif

/* acc[r] = differing bits of row r in `words` words. */
static BLRC_INLINE void blrc_quad_count(const uint32_t *x, const uint32_t *real, int32_t border, uint32_t words,
                                        const uint32_t *w, uint32_t *acc)
{
    blrc_quad low = blrc_quad_of(0), high = low, all = low;
    uint32_t pairs = words / 2;

    if (words % 2 != 0) {
        all = blrc_quad_of(x[words - 1]) ^ blrc_quad_get(w + 4 * (words - 1));
        all = blrc_quad_sums(blrc_bits16(border ? all & blrc_quad_of(real[words - 1]) : all));
    }
    while (pairs > 0) {
        /* 31 pairs of at most 8 a byte stay below 256; only then are bytes added up. */
        uint32_t chunk = pairs < 31 ? pairs : 31;
        blrc_bytes16 first = blrc_bits16(blrc_quad_of(0)), second = first;

        pairs -= chunk;
        for (; chunk > 0; --chunk, x += 2, real += 2, w += 8) {
            const blrc_quad pair = blrc_quad_of_pair(x);
            blrc_quad v0 = pair ^ blrc_quad_get(w), v1 = pair ^ blrc_quad_get(w + 4);

            if (border) {
                v0 &= blrc_quad_of_pair(real);
                v1 &= blrc_quad_of_pair(real);
            }
            first += blrc_bits16(v0);
            second += blrc_bits16(v1);
        }
        low += blrc_quad_sums(first);
        high += blrc_quad_sums(second);
    }
    blrc_quad_store(low, high, all, acc);
}

#endif

#endif
