/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums with weights of -1, 0 and +1, by counting bits.
 *
 * A row of weights is a row of bits s, 1 for +1, and one of bits r, 1 for what is not 0. For a run of bits x let
 * v = ones((x xor s) and r). Sums of codes are ones(s) - v for each plane of bits, and absent taps are zeros in x. Sums
 * of +-1 are ones(r) - 2 v. Where taps are absent there, v is counted once with zeros in their place and once with
 * ones: together that is 2 v of the real taps and the absent ones that are not 0, which ones(r) has too many.
 *
 * Words of a row come in pairs, two of s and two of r; the last of an odd number stands alone. */
#ifndef BLRC_TERNARY_H
#define BLRC_TERNARY_H

#include "blrc_dot.h"
#include "blrc_group.h"
#include "blrc_levels.h"

/* The bits of group g of plane p of the window at map pixel (my, mx), without gaps; those of absent taps are 0 or, with
 * `absent`, 1. `planes` are those of the map. Returns whether all taps are real. */
static BLRC_APART int32_t blrc_collect_taps(const blrc_conv *op, int32_t planes, const uint32_t *x, int32_t p,
                                            int32_t g, int32_t my, int32_t mx, uint32_t absent, uint32_t *to)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->in_channels), channels = op->in_channels / op->groups;
    const int32_t top = my * win->stride_y - win->pad_y, left = mx * win->stride_x - win->pad_x;
    int32_t t, s, c, whole = 1;
    blrc_bit_run run;

    run.to = to;
    run.word = 0;
    run.filled = 0;
    for (t = 0; t < win->kernel_y; ++t) {
        const int32_t row = top + t * win->dilation_y;

        for (s = 0; s < win->kernel_x; ++s) {
            const int32_t column = left + s * win->dilation_x;
            const int32_t real = row >= 0 && row < op->in_height && column >= 0 && column < op->in_width;
            const uint32_t *const pixel = real ? x + ((row * op->in_width + column) * planes + p) * words : x;

            whole &= real;
            if (channels % 32 == 0) { /* whole words, one behind the other */
                for (c = g * channels / 32; c < (g + 1) * channels / 32; ++c) {
                    *run.to++ = real ? pixel[c] : 0u - absent;
                }
                continue;
            }
            for (c = 0; c < channels; c += 32) {
                const int32_t count = channels - c < 32 ? channels - c : 32;
                uint32_t bits = (0u - absent) & (0xFFFFFFFFu >> (32 - count));

                if (real) {
                    blrc_group_words_here(pixel, words, g * channels, channels, c / 32, c / 32 + 1, &bits);
                }
                blrc_append_bits(&run, bits, count);
            }
        }
    }
    if (run.filled > 0) {
        *run.to = run.word;
    }
    return whole;
}

/* (x xor s) and r of the word that stands alone. */
static BLRC_INLINE uint32_t blrc_differ_alone(uint32_t x, BLRC_TABLE(uint32_t) w)
{
    return (x ^ BLRC_READ(uint32_t, w, 0)) & BLRC_READ(uint32_t, w, 1);
}

#if BLRC_HAS_POPCOUNT

static BLRC_INLINE uint32_t blrc_count_ternary(uint32_t words, const uint32_t *x, BLRC_TABLE(uint32_t) w)
{
    uint32_t count = 0, i;

    for (i = words / 2; i != 0; --i, x += 2, w = BLRC_SKIP(uint32_t, w, 4)) {
#if BLRC_UNIT_BITS == 64
        count += (uint32_t)__builtin_popcountll((blrc_load(x) ^ blrc_load(w)) & blrc_load(w + 2));
#else
        count += blrc_popcount_here((x[0] ^ BLRC_READ(uint32_t, w, 0)) & BLRC_READ(uint32_t, w, 2));
        count += blrc_popcount_here((x[1] ^ BLRC_READ(uint32_t, w, 1)) & BLRC_READ(uint32_t, w, 3));
#endif
    }
    return words % 2 != 0 ? count + blrc_popcount_here(blrc_differ_alone(*x, w)) : count;
}

#else

/* low + the differing bits of a pair of words; the carries are returned. */
static BLRC_INLINE uint32_t blrc_add_ternary(uint32_t *low, const uint32_t *x, BLRC_TABLE(uint32_t) w)
{
    const uint32_t first = (x[0] ^ BLRC_READ(uint32_t, w, 0)) & BLRC_READ(uint32_t, w, 2);

    return blrc_add3(low, first, (x[1] ^ BLRC_READ(uint32_t, w, 1)) & BLRC_READ(uint32_t, w, 3));
}

/* low + the differing bits of four pairs of words; the carries, which stand for eight, are returned. */
static BLRC_INLINE uint32_t blrc_add_four_pairs(uint32_t *ones, uint32_t *twos, uint32_t *fours, const uint32_t *x,
                                                BLRC_TABLE(uint32_t) w)
{
    uint32_t two = blrc_add_ternary(ones, x, w), four;

    four = blrc_add3(twos, two, blrc_add_ternary(ones, x + 2, BLRC_SKIP(uint32_t, w, 4)));
    two = blrc_add_ternary(ones, x + 4, BLRC_SKIP(uint32_t, w, 8));
    two = blrc_add3(twos, two, blrc_add_ternary(ones, x + 6, BLRC_SKIP(uint32_t, w, 12)));
    return blrc_add3(fours, four, two);
}

/* As blrc_count_nine (blrc_carry.h) does. */
static BLRC_APART uint32_t blrc_count_nine_ternary(const uint32_t *x, BLRC_TABLE(uint32_t) w)
{
    uint32_t ones = blrc_differ_alone(x[8], BLRC_SKIP(uint32_t, w, 16)), two, four;
    uint32_t twos = blrc_add_ternary(&ones, x, w), fours;

    two = blrc_add_ternary(&ones, x + 2, BLRC_SKIP(uint32_t, w, 4));
    fours = blrc_add3(&twos, two, blrc_add_ternary(&ones, x + 4, BLRC_SKIP(uint32_t, w, 8)));
    two = blrc_add_ternary(&ones, x + 6, BLRC_SKIP(uint32_t, w, 12));
    four = twos & two;
    return blrc_planes(ones, twos ^ two, fours ^ four, fours & four);
}

/* As blrc_count_pairs (blrc_carry.h) does, with the last word of an odd number first. */
static BLRC_APART uint32_t blrc_count_ternary(uint32_t words, const uint32_t *x, BLRC_TABLE(uint32_t) w)
{
    uint32_t ones = 0, twos = 0, fours = 0, eights = 0, sixteens = 0, i;

    if (words == 9) {
        return blrc_count_nine_ternary(x, w);
    }
    if (words % 2 != 0) {
        ones = blrc_differ_alone(x[words - 1], BLRC_SKIP(uint32_t, w, 2 * (words - 1)));
    }
    /* At most 1 + 3 * 2 = 7 at any position: no carry leaves the fours. */
    for (i = words / 2 % 4; i != 0; --i, x += 2, w = BLRC_SKIP(uint32_t, w, 4)) {
        const uint32_t two = blrc_add_ternary(&ones, x, w);

        fours ^= twos & two;
        twos ^= two;
    }
    if ((words & 8) != 0) { /* at most 15 now */
        eights = blrc_add_four_pairs(&ones, &twos, &fours, x, w);
        x += 8;
        w = BLRC_SKIP(uint32_t, w, 16);
    }
    for (i = words / 16; i != 0; --i, x += 16, w = BLRC_SKIP(uint32_t, w, 32)) {
        uint32_t eight = blrc_add_four_pairs(&ones, &twos, &fours, x, w);

        eight = blrc_add3(&eights, eight,
                          blrc_add_four_pairs(&ones, &twos, &fours, x + 8, BLRC_SKIP(uint32_t, w, 16)));
        sixteens += blrc_of_all(blrc_of_eight(blrc_of_four(eight)));
    }
    return 16 * sixteens + blrc_planes(ones, twos, fours, eights);
}

#endif

#endif
