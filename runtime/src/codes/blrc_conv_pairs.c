/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of 8-bit codes with +-1 weights, for first layers whose sums are small: two pixels of a row at once
 * (blrc_pairs.h).
 *
 * As in conv_codes the 16 sums of every four codes are tabulated once and looked up by nibbles of weights. */
#include "blrc_pairs.h"

/* sums[16 k + bits] = sum over j < 4 of (bit j ? +1 : -1) sums[4 k + j]: from the last nibble on, so that no code is
 * overwritten before it is read. */
static void blrc_tabulate_pairs(int32_t nibbles, uint32_t *sums)
{
    while (--nibbles >= 0) {
        const uint32_t *const codes = sums + 4 * nibbles;

        blrc_tabulate_four(codes[0], codes[1], codes[2], codes[3], sums + 16 * nibbles);
    }
}

/* OR the bits of two map pixels of row my into y[0] and y[1]. */
static void blrc_pair_of_row(const blrc_conv *op, const blrc_pair_input *in, int32_t my, const int32_t *mx,
                             uint32_t *const *y, BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts)
{
    const blrc_window *win = &op->window;
    const int32_t line = win->kernel_x * op->in_channels;
    const int32_t nibbles = (win->kernel_y * line + 3) / 4;
    const int32_t column = mx[0] * win->stride_x - win->pad_x, further = (mx[1] - mx[0]) * win->stride_x;
    uint32_t sums[BLRC_CODES / 4 * 16];
    int32_t t, c;

    for (t = 0; t < win->kernel_y; ++t) {
        blrc_row_codes(op, in, my * win->stride_y - win->pad_y + t * win->dilation_y, column, further, sums + t * line);
    }
    for (c = win->kernel_y * line; c % 4 != 0; ++c) {
        sums[c] = 0;
    }
    blrc_tabulate_pairs(nibbles, sums);
    for (c = 0; c < op->out_channels; c += 8) {
        const uint32_t bits = blrc_eight_rows(weights, sums, sums, nibbles, BLRC_SKIP(uint32_t, starts, c));

        y[0][c / 32] |= ((bits >> 8) & 0xFFu) << (c % 32);
        y[1][c / 32] |= (bits >> 24) << (c % 32);
        weights = BLRC_SKIP(uint32_t, weights, nibbles);
    }
}

void blrc_conv_pairs(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                     BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts, uint32_t *y)
{
    const blrc_window *pool = &op->pool;
    const blrc_pair_input in = {x, table, table_rows == 1 ? 0 : 256};
    const int32_t words = blrc_words(op->out_channels);
    int32_t oy, ox, py, px, i;

    for (oy = 0; oy < op->out_height; ++oy, y += op->out_width * words) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span vertical = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (i = 0; i < op->out_width * words; ++i) {
            y[i] = 0;
        }
        for (py = vertical.first; py < vertical.end; ++py) {
            uint32_t *to[2];
            int32_t mx[2], waiting = 0;

            /* Pixels in the order in which the row's windows see them, two and two. */
            for (ox = 0; ox < op->out_width; ++ox) {
                const int32_t left = ox * pool->stride_x - pool->pad_x;
                const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

                for (px = across.first; px < across.end; ++px) {
                    mx[waiting] = left + px * pool->dilation_x;
                    to[waiting] = y + ox * words;
                    waiting ^= 1;
                    if (waiting == 0) {
                        blrc_pair_of_row(op, &in, top + py * pool->dilation_y, mx, to, weights, starts);
                    }
                }
            }
            if (waiting != 0) { /* the last of an odd number, twice */
                mx[1] = mx[0];
                to[1] = to[0];
                blrc_pair_of_row(op, &in, top + py * pool->dilation_y, mx, to, weights, starts);
            }
        }
    }
}
