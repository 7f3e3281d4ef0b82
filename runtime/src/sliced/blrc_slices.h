/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Bit-sliced 3x3 convolutions: the lanes of a step (blrc_planes.h) are pixels, up to 32 in a word (blrc_conv_slices.c),
 * or in each of four words, of rows one below the other (blrc_conv_quads.c).
 *
 * Here the map becomes lanes and taps, and lanes become the map of results; between them outputs are added up in groups
 * (blrc_shared_taps.h). */
#ifndef BLRC_SLICES_H
#define BLRC_SLICES_H

#include "blrc_shared_taps.h"
#include "blrc_window.h"

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

static blrc_slicing blrc_slicing_of(const blrc_conv *op, uint32_t *scratch)
{
    blrc_slicing in;
    const uint32_t all = 0xFFFFFFFFu >> (32 - op->in_width), last = (uint32_t)1 << (op->in_width - 1);
    int32_t lane;

    for (in.log_pitch = 3; op->in_width > (int32_t)1 << in.log_pitch;) {
        ++in.log_pitch;
    }
    in.rows = 32 >> in.log_pitch;
    for (in.planes = 2; (9 * op->in_channels) >> (in.planes - 1) != 0;) {
        ++in.planes;
    }
    in.columns[0] = 1;
    in.columns[2] = last & ~(uint32_t)1;
    in.columns[1] = all & ~last & ~(uint32_t)1;
    in.has_left = in.has_right = 0;
    for (lane = 0; lane < 32; lane += (int32_t)1 << in.log_pitch) {
        in.has_left |= (all & ~(uint32_t)1) << lane;
        in.has_right |= (all >> 1) << lane;
    }
    in.lanes = scratch;
    in.edges = in.lanes + 32 * BLRC_STEP;
    in.counts = in.edges + 3 * BLRC_EDGES * BLRC_STEP;
    in.sums = in.counts + BLRC_PLANES * BLRC_STEP;
    in.words = in.sums + BLRC_SHARING * BLRC_PLANES * BLRC_STEP;
    in.table = in.words + (BLRC_STEP + 2) * op->in_channels;
    return in;
}

/* The bits of all channels, of the map rows from `top` on, as many as a word has; zeros outside the map. */
static void blrc_read_word(const blrc_conv *op, const blrc_slicing *in, const uint32_t *x, int32_t top, uint32_t *to)
{
    const int32_t words = blrc_words(op->in_channels);
    uint32_t lanes[32];
    int32_t r, i, c;

    for (i = 0; i < words; ++i) {
        for (c = 0; c < 32; ++c) {
            lanes[c] = 0;
        }
        for (r = 0; r < in->rows && top + r < op->in_height; ++r) {
            const uint32_t *from = x + (top + r) * op->in_width * words + i;
            uint32_t *lane = lanes + (r << in->log_pitch);

            for (c = op->in_width; c > 0; --c, from += words) {
                *lane++ = *from;
            }
        }
        blrc_transpose(lanes);
        for (c = 0; c < 32 && 32 * i + c < op->in_channels; ++c) {
            *to++ = lanes[c];
        }
    }
}

/* The taps of a channel's kernel row. */
static BLRC_INLINE void blrc_taps(const blrc_slicing *in, uint32_t here, uint32_t *to)
{
    const uint32_t left = (here << 1) & in->has_left, right = (here >> 1) & in->has_right;

    to[0] = left;
    to[BLRC_STEP] = ~left;
    to[2 * BLRC_STEP] = here;
    to[3 * BLRC_STEP] = ~here;
    to[4 * BLRC_STEP] = right;
    to[5 * BLRC_STEP] = ~right;
}

/* Which lanes are in which kind of place, of the word whose first row is `top`. */
static void blrc_edges_of(const blrc_conv *op, const blrc_slicing *in, int32_t top, uint32_t *edges)
{
    int32_t i, r, column;

    for (i = 0; i < 3 * BLRC_EDGES; ++i) {
        edges[i * BLRC_STEP] = 0;
    }
    for (r = 0; r < in->rows; ++r) {
        const int32_t inner = top + r == op->in_height - 1 ? 2 : 1;
        const int32_t kind = top + r == 0 ? 0 : inner;

        for (i = 0; i < BLRC_EDGES; ++i) {
            for (column = 0; column < 3; ++column) {
                if (((i >> column) & 1) != 0) {
                    edges[(kind * BLRC_EDGES + i) * BLRC_STEP] |= in->columns[column] << (r << in->log_pitch);
                }
            }
        }
    }
}

/* The tables of the step whose first row is `top`, out of the words of that step and those around it. */
static void blrc_tabulate(const blrc_conv *op, const blrc_slicing *in, const uint32_t *x, int32_t top)
{
    const int32_t channels = op->in_channels, row = 6 * channels * BLRC_STEP, pitch = (int32_t)1 << in->log_pitch;
    uint32_t *const words = in->words;
    int32_t c, j;

    for (c = 0; c < 2 * channels && top != 0; ++c) {
        words[c] = words[BLRC_STEP * channels + c];
    }
    for (c = 0; c < channels && top == 0; ++c) {
        words[c] = 0;
    }
    for (j = top == 0 ? 0 : 1; j <= BLRC_STEP; ++j) {
        blrc_read_word(op, in, x, top + j * in->rows, words + (1 + j) * channels);
    }
    for (j = 0; j < BLRC_STEP; ++j) {
        const uint32_t *word = words + j * channels;
        uint32_t *to = in->table + BLRC_STEP + j;

        in->table[j] = 0;
        for (c = 0; c < channels; ++c, ++word, to += 6 * BLRC_STEP) {
            uint32_t above = word[0], below = word[2 * channels];
            const uint32_t here = word[channels];

            if (pitch != 32) {
                above = here << pitch | above >> (32 - pitch);
                below = here >> pitch | below << (32 - pitch);
            }
            blrc_taps(in, above, to);
            blrc_taps(in, here, to + row);
            blrc_taps(in, below, to + 2 * row);
        }
        blrc_edges_of(op, in, top + j * in->rows, in->edges + j);
    }
}

/* The outputs of up to 32 channels, of the pixels in a word of lanes, whose first row before pooling is `first`; their
 * word of the map's first pixel is y. The lanes are transposed in place. */
static void blrc_put_word(const blrc_conv *op, const blrc_slicing *in, int32_t first, uint32_t *lanes, uint32_t *y)
{
    const int32_t words = blrc_words(op->out_channels), pool = op->pool.kernel_x, height = op->out_height * pool;
    const uint32_t kept = first % pool != 0 ? 0xFFFFFFFFu : 0; /* what the row above has set of the same pixels */
    int32_t r, c;

    blrc_transpose(lanes);
    for (r = 0; r < in->rows && first + r < height; r += pool) {
        uint32_t *to = y + (first + r) / pool * op->out_width * words;
        const uint32_t *lane = lanes + (r << in->log_pitch);

        for (c = op->out_width; c > 0; --c, to += words, lane += pool) {
            *to = *lane | (*to & kept);
        }
    }
}

/* Keeps what passes of output c, in the step whose first row is `top`; after 32 outputs, or the last, they are
 * written. */
static void blrc_put_found(const blrc_conv *op, const blrc_slicing *in, int32_t top, int32_t c, const uint32_t *found,
                           uint32_t *y)
{
    int32_t i, j;

    for (j = 0; j < BLRC_STEP; ++j) {
        uint32_t *const lanes = in->lanes + 32 * j;
        uint32_t passing = found[j];

        if (op->pool.kernel_x == 2) { /* into the upper left pixel of each square */
            passing |= passing >> 1;
            passing |= in->rows > 1 ? passing >> (1 << in->log_pitch) : 0;
        }
        lanes[c % 32] = passing;
        if (c == op->out_channels - 1) {
            for (i = c % 32 + 1; i < 32; ++i) {
                lanes[i] = 0;
            }
        }
        if (c % 32 == 31 || c == op->out_channels - 1) {
            blrc_put_word(op, in, top + j * in->rows, lanes, y + c / 32);
        }
    }
}

static void blrc_slice(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint16_t) lists, BLRC_TABLE(uint16_t) limits,
                       uint32_t *scratch, uint32_t *y)
{
    const blrc_slicing in = blrc_slicing_of(op, scratch);
    const int32_t rows = BLRC_STEP * in.rows;
    uint32_t found[BLRC_STEP];
    int32_t top, c, o;

    for (top = 0; top < op->out_height * op->pool.kernel_x; top += rows) {
        const int32_t inner = top != 0 && top + rows < op->in_height;
        BLRC_TABLE(uint16_t) list = lists;
        BLRC_TABLE(uint16_t) limit = limits;

        blrc_tabulate(op, &in, x, top);
        for (c = 0; c < op->out_channels; c += op->rows) {
            const int32_t outputs = op->out_channels - c < op->rows ? op->out_channels - c : op->rows;

            limit = blrc_start(&in, limit, outputs * in.planes, inner);
            list = blrc_sum(&in, list, outputs);
            for (o = 0; o < outputs; ++o) {
                /* The last output of several ends with the opposite sign. */
                blrc_passing(in.sums + o * in.planes * BLRC_STEP, in.counts, in.planes,
                             o != 0 && o == outputs - 1 ? 0 : ~(uint32_t)0, found);
                blrc_put_found(op, &in, top, c + o, found, y);
            }
        }
    }
}

#endif
