/* Bit-sliced 3x3 convolutions: what the one in words (blrc_conv_slices.c) and the one in quads (blrc_conv_quads.c)
 * share. They say how far apart the words of a table lie (BLRC_STEP). */
#ifndef BLRC_SLICES_H
#define BLRC_SLICES_H

#include "blrc_carry.h"
#include "blrc_window.h"

#define BLRC_PLANES 14 /* bits of n, which is below 2^14 */
#define BLRC_LOW_PLANES 5 /* that are kept in registers */

typedef struct blrc_slicing {
    int32_t log_pitch, rows; /* log2 of the lanes of a map row; map rows in a word */
    int32_t planes;
    int32_t eighths; /* words of weights for each kernel row */
    uint32_t columns[3]; /* lanes of a row whose taps of each kernel column lie inside the map */
} blrc_slicing;

/* Bit j of word i becomes bit i of word j: squares of half the size change places, again and again. */
static void blrc_transpose(uint32_t *words)
{
    uint32_t mask = 0x0000FFFFu;
    int32_t half, i;

    for (half = 16; half != 0; half >>= 1, mask ^= mask << half) {
        for (i = 0; i < 32; i = ((i | half) + 1) & ~half) {
            const uint32_t v = ((words[i] >> half) ^ words[i + half]) & mask;

            words[i] ^= v << half;
            words[i + half] ^= v;
        }
    }
}

/* Where the sum of two taps is a + 2 both: those of the patterns whose third weight is -1, and four further on +1. */
static BLRC_INLINE void blrc_third(uint32_t a, uint32_t both, uint32_t third, uint32_t real, uint32_t *to)
{
    to[0] = a ^ third;
    to[BLRC_STEP] = both | (a & third);
    to[8 * BLRC_STEP] = a ^ third ^ real;
    to[9 * BLRC_STEP] = both | (a & ~third & real);
}

/* The differences of a channel's bits x from the 8 patterns: bit k of a pattern is the weight of kernel column k. Two
 * words each, ones and twos. */
static BLRC_APART void blrc_patterns(uint32_t x, const uint32_t *real, uint32_t *to)
{
    const uint32_t right = (x >> 1) & real[2], other = x ^ real[1];
    uint32_t left = (x << 1) & real[0];
    int32_t i;

    for (i = 0; i < 2; ++i, left ^= real[0], to += 2 * BLRC_STEP) {
        blrc_third(left ^ x, left & x, right, real[2], to);
        blrc_third(left ^ other, left & other, right, real[2], to + 4 * BLRC_STEP);
    }
}

/* Tabulate the map rows from `top` on, as many as a word has. */
static void blrc_tabulate_rows(const blrc_conv *op, const blrc_slicing *in, const uint32_t *x, int32_t top,
                               uint32_t *to)
{
    const int32_t words = blrc_words(op->in_channels);
    uint32_t lanes[32], real[3] = {0, 0, 0};
    int32_t r, i, c;

    for (r = 0; r < in->rows; ++r) {
        if (top + r >= 0 && top + r < op->in_height) {
            for (i = 0; i < 3; ++i) {
                real[i] |= in->columns[i] << (r << in->log_pitch);
            }
        }
    }
    for (i = 0; i < words; ++i) {
        for (c = 0; c < 32; ++c) {
            lanes[c] = 0;
        }
        for (r = 0; r < in->rows; ++r) {
            if (top + r >= 0 && top + r < op->in_height) {
                const uint32_t *from = x + (top + r) * op->in_width * words + i;
                uint32_t *lane = lanes + (r << in->log_pitch);

                for (c = op->in_width; c > 0; --c, from += words) {
                    *lane++ = *from;
                }
            }
        }
        blrc_transpose(lanes);
        for (c = 0; c < 32 && 32 * i + c < op->in_channels; ++c, to += 16 * BLRC_STEP) {
            blrc_patterns(lanes[c], real, to);
        }
    }
}

/* Half of the bits that each lane lacks, in planes. */
static void blrc_lacking(const blrc_conv *op, const blrc_slicing *in, int32_t top, uint32_t *planes)
{
    const int32_t pitch = 1 << in->log_pitch;
    int32_t lane, i;

    for (i = 0; i < in->planes; ++i) {
        planes[i * BLRC_STEP] = 0;
    }
    for (lane = 0; lane < 32; ++lane) {
        const int32_t row = top + (lane >> in->log_pitch), column = lane & (pitch - 1);
        const int32_t down = 3 - (row == 0) - (row == op->in_height - 1);
        const int32_t across = 3 - (column == 0) - (column == op->in_width - 1);
        uint32_t half = (uint32_t)((9 - down * across) * op->in_channels / 2);

        for (i = 0; half != 0; ++i, half >>= 1) {
            planes[i * BLRC_STEP] |= (half & 1u) << lane;
        }
    }
}

/* Hides where a pointer comes from, so that one sum is computed and not two. */
#if defined(__GNUC__)
#define BLRC_OPAQUE(pointer) __asm__("" : "+r"(pointer))
#else
#define BLRC_OPAQUE(pointer) ((void)0)
#endif

static blrc_slicing blrc_slicing_of(const blrc_conv *op)
{
    const uint32_t all = 0xFFFFFFFFu >> (32 - op->in_width);
    blrc_slicing in = {3, 0, BLRC_LOW_PLANES, op->in_channels / 8, {0, 0, 0}};

    while (op->in_width > 1 << in.log_pitch) {
        ++in.log_pitch;
    }
    in.rows = 32 >> in.log_pitch;
    while ((9 * op->in_channels) >> in.planes != 0) {
        ++in.planes;
    }
    in.columns[0] = all & ~(uint32_t)1;
    in.columns[1] = all;
    in.columns[2] = all >> 1;
    return in;
}

#endif
