/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Ternary convolution of 8-bit codes, to bits, for first layers whose sums are small: two pixels of a row at once
 * (blrc_pairs.h), whose sums of three codes are looked up. */
#include "blrc_pairs.h"
#include "blrc_threes.h"

/* Bits of six rows, whose threes share a word: from bit 10 on those of one pixel, from bit 26 on those of the other. */
static BLRC_APART uint32_t blrc_six_rows(BLRC_TABLE(uint32_t) weights, const uint32_t *sums, int32_t threes,
                                         BLRC_TABLE(uint32_t) starts)
{
    BLRC_TABLE(uint32_t) const end = BLRC_SKIP(uint32_t, weights, threes);
    uint32_t z0 = BLRC_READ(uint32_t, starts, 0), z1 = BLRC_READ(uint32_t, starts, 1);
    uint32_t z2 = BLRC_READ(uint32_t, starts, 2), z3 = BLRC_READ(uint32_t, starts, 3);
    uint32_t z4 = BLRC_READ(uint32_t, starts, 4), z5 = BLRC_READ(uint32_t, starts, 5);

    for (; weights != end; sums += BLRC_SUMS_OF_THREE) {
        const uint32_t w = BLRC_NEXT(uint32_t, weights);

        z0 += sums[w & 31u];
        z1 += sums[(w >> 5) & 31u];
        z2 += sums[(w >> 10) & 31u];
        z3 += sums[(w >> 15) & 31u];
        z4 += sums[(w >> 20) & 31u];
        z5 += sums[w >> 25];
    }
    z0 = (z0 & 0x80008000u) >> 1 | (z1 & 0x80008000u);
    z0 = z0 >> 1 | (z2 & 0x80008000u);
    z0 = z0 >> 1 | (z3 & 0x80008000u);
    z0 = z0 >> 1 | (z4 & 0x80008000u);
    return z0 >> 1 | (z5 & 0x80008000u);
}

/* y |= six bits from channel c on. Those of missing rows are 0. */
static inline void blrc_put_six(uint32_t bits, int32_t c, int32_t words, uint32_t *y)
{
    const int32_t shift = c % 32;

    y[c / 32] |= (bits << shift) & 0xFFFFFFFFu;
    if (shift > 26 && c / 32 + 1 < words) {
        y[c / 32 + 1] |= bits >> (32 - shift);
    }
}

/* OR the bits of two map pixels of row my into y[0] and y[1]. */
static void blrc_ternary_pair(const blrc_conv *op, const blrc_pair_input *in, int32_t my, const int32_t *mx,
                              uint32_t *const *y, BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts)
{
    const blrc_window *win = &op->window;
    const int32_t line = win->kernel_x * op->in_channels, words = blrc_words(op->out_channels);
    const int32_t threes = (win->kernel_y * line + 2) / 3;
    const int32_t column = mx[0] * win->stride_x - win->pad_x, further = (mx[1] - mx[0]) * win->stride_x;
    uint32_t sums[BLRC_THREES * BLRC_SUMS_OF_THREE];
    int32_t t, c;

    for (t = 0; t < win->kernel_y; ++t) {
        blrc_row_codes(op, in, my * win->stride_y - win->pad_y + t * win->dilation_y, column, further, sums + t * line);
    }
    for (c = win->kernel_y * line; c < 3 * threes; ++c) {
        sums[c] = 0;
    }
    blrc_tabulate_threes(threes, sums);
    for (c = 0; c < op->out_channels; c += BLRC_ROWS_OF_THREES, weights = BLRC_SKIP(uint32_t, weights, threes)) {
        const uint32_t bits = blrc_six_rows(weights, sums, threes, BLRC_SKIP(uint32_t, starts, c));

        blrc_put_six((bits >> 10) & 63u, c, words, y[0]);
        blrc_put_six(bits >> 26, c, words, y[1]);
    }
}

void blrc_conv_ternary_pairs(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
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
                        blrc_ternary_pair(op, &in, top + py * pool->dilation_y, mx, to, weights, starts);
                    }
                }
            }
            if (waiting != 0) { /* the last of an odd number, twice */
                mx[1] = mx[0];
                to[1] = to[0];
                blrc_ternary_pair(op, &in, top + py * pool->dilation_y, mx, to, weights, starts);
            }
        }
    }
}
