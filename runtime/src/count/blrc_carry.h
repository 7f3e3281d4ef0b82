/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Counting differing bits with carry-save adders, where there is no popcount instruction.
 *
 * Bit i of three words is added up as one bit of a sum and one of a carry, in five operations for all 32 positions at
 * once. Eight words so leave one word of carries that stand for eight, and only that one is counted at once; the planes
 * of ones, twos and fours wait for the end of the row (Harley and Seal; Warren, "Hacker's Delight", 5-1).
 *
 * The functions that count are compiled for themselves (BLRC_APART), whatever compilers think of their size, since they
 * need all registers of a small CPU; what they are made of is put in (BLRC_INLINE). */
#ifndef BLRC_CARRY_H
#define BLRC_CARRY_H

#include "blrc.h"

/* low + a + b: the sum's bits stay in `low`, the carries are returned. */
static BLRC_INLINE uint32_t blrc_add3(uint32_t *low, uint32_t a, uint32_t b)
{
    const uint32_t u = *low ^ a, carry = (*low & a) | (u & b);

    *low = u ^ b;
    return carry;
}

/* Set bits of every four, at most 4. */
static BLRC_INLINE uint32_t blrc_of_four(uint32_t v)
{
    v -= (v >> 1) & 0x55555555u;
    return (v & 0x33333333u) + ((v >> 2) & 0x33333333u);
}

/* The two numbers of every byte added. */
static BLRC_INLINE uint32_t blrc_of_eight(uint32_t v)
{
    return (v & 0x0F0F0F0Fu) + ((v >> 4) & 0x0F0F0F0Fu);
}

/* Sum of the bytes where it is below 256. */
static BLRC_INLINE uint32_t blrc_of_all(uint32_t v)
{
#if SIZE_MAX > 0xFFFF
    return ((v * 0x01010101u) & 0xFFFFFFFFu) >> 24;
#else
    /* No multiplication of 32 bits there, but bytes are what it computes with. */
    return (uint8_t)((uint8_t)v + (uint8_t)(v >> 8) + (uint8_t)(v >> 16) + (uint8_t)(v >> 24));
#endif
}

/* Bits of word i that differ; at a border only those in `real` count. Callers give `border` as a constant. */
static BLRC_INLINE uint32_t blrc_differ(const uint32_t *x, const uint32_t *real, int32_t border, int32_t i, uint32_t w)
{
    return border ? (x[i] ^ w) & real[i] : x[i] ^ w;
}

/* low + the differing bits of a pair of words; the carries are returned. */
static BLRC_INLINE uint32_t blrc_add_pair(uint32_t *low, const uint32_t *x, const uint32_t *real, int32_t border,
                                          int32_t i, BLRC_TABLE(uint32_t) w)
{
    const uint32_t first = blrc_differ(x, real, border, i, BLRC_READ(uint32_t, w, 0));

    return blrc_add3(low, first, blrc_differ(x, real, border, i + 1, BLRC_READ(uint32_t, w, 1)));
}

/* low + the differing bits of four pairs of words; the carries, which stand for eight, are returned. */
static BLRC_INLINE uint32_t blrc_add_eight(uint32_t *ones, uint32_t *twos, uint32_t *fours, const uint32_t *x,
                                           const uint32_t *real, int32_t border, BLRC_TABLE(uint32_t) w)
{
    uint32_t two = blrc_add_pair(ones, x, real, border, 0, w), four;

    four = blrc_add3(twos, two, blrc_add_pair(ones, x, real, border, 2, BLRC_SKIP(uint32_t, w, 8)));
    two = blrc_add_pair(ones, x, real, border, 4, BLRC_SKIP(uint32_t, w, 16));
    two = blrc_add3(twos, two, blrc_add_pair(ones, x, real, border, 6, BLRC_SKIP(uint32_t, w, 24)));
    return blrc_add3(fours, four, two);
}

/* Set bits of four planes. A nibble is at most 4 + 2 * 4, and a byte twice that; their sum may pass 255. */
static BLRC_INLINE uint32_t blrc_planes(uint32_t ones, uint32_t twos, uint32_t fours, uint32_t eights)
{
    uint32_t sum = blrc_of_eight(blrc_of_four(ones) + 2 * blrc_of_four(twos));

    sum += 4 * blrc_of_eight(blrc_of_four(fours) + 2 * blrc_of_four(eights));
    sum = (sum & 0x00FF00FFu) + ((sum >> 8) & 0x00FF00FFu);
    return (sum + (sum >> 16)) & 0xFFFFu;
}

/* Bits in `ones`, and those that differ in so many pairs of words of one row of a blocked table, from x and w on. */
static BLRC_INLINE uint32_t blrc_count_pairs(uint32_t ones, uint32_t pairs, const uint32_t *x, const uint32_t *real,
                                             int32_t border, BLRC_TABLE(uint32_t) w)
{
    uint32_t twos = 0, fours = 0, eights = 0, sixteens = 0, i;

    /* At most 1 + 3 * 2 = 7 at any position: no carry leaves the fours. */
    for (i = pairs % 4; i != 0; --i) {
        const uint32_t two = blrc_add_pair(&ones, x, real, border, 0, w);

        fours ^= twos & two;
        twos ^= two;
        x += 2;
        real += 2;
        w = BLRC_SKIP(uint32_t, w, 8);
    }
    if ((pairs & 4) != 0) { /* at most 15 now */
        eights = blrc_add_eight(&ones, &twos, &fours, x, real, border, w);
        x += 8;
        real += 8;
        w = BLRC_SKIP(uint32_t, w, 32);
    }
    for (i = pairs / 8; i != 0; --i) {
        uint32_t eight = blrc_add_eight(&ones, &twos, &fours, x, real, border, w);

        x += 8;
        real += 8;
        eight = blrc_add3(&eights, eight,
                          blrc_add_eight(&ones, &twos, &fours, x, real, border, BLRC_SKIP(uint32_t, w, 32)));
        sixteens += blrc_of_all(blrc_of_eight(blrc_of_four(eight)));
        x += 8;
        real += 8;
        w = BLRC_SKIP(uint32_t, w, 64);
    }
    return 16 * sixteens + blrc_planes(ones, twos, fours, eights);
}

/* The same for nine words, a 3x3 kernel's on 32 channels: three levels of adders and one count. `ones` is the ninth. */
static BLRC_INLINE uint32_t blrc_count_nine(uint32_t ones, const uint32_t *x, const uint32_t *real, int32_t border,
                                            BLRC_TABLE(uint32_t) w)
{
    uint32_t twos = blrc_add_pair(&ones, x, real, border, 0, w), fours, two, four;

    two = blrc_add_pair(&ones, x, real, border, 2, BLRC_SKIP(uint32_t, w, 8));
    fours = blrc_add3(&twos, two, blrc_add_pair(&ones, x, real, border, 4, BLRC_SKIP(uint32_t, w, 16)));
    two = blrc_add_pair(&ones, x, real, border, 6, BLRC_SKIP(uint32_t, w, 24));
    four = twos & two;
    return blrc_planes(ones, twos ^ two, fours ^ four, fours & four);
}

/* Pairs of words of one row. */
static BLRC_APART uint32_t blrc_count(uint32_t pairs, const uint32_t *x, BLRC_TABLE(uint32_t) w)
{
    return blrc_count_pairs(0, pairs, x, x, 0, w);
}

#endif
