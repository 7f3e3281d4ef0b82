/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Ternary convolutions and dense layers, bits -> bits. */
#include "blrc_window.h"
#include "blrc_ternary.h"

/* y |= the bits of the channels first <= c < end. `other` is the same run with ones for absent taps, or null where none
 * is absent. */
static BLRC_APART void blrc_ternary_rows(uint32_t words, int32_t first, int32_t end, const uint32_t *x,
                                         const uint32_t *other, BLRC_TABLE(uint32_t) w,
                                         BLRC_TABLE(blrc_level_limit) limits, uint32_t *y)
{
    uint32_t bit = (uint32_t)1 << (first & 31), bits;
    int32_t c;

    y += first / 32;
    bits = *y;
    for (c = first; c < end; ++c, w = BLRC_SKIP(uint32_t, w, 2 * words)) {
        if ((bits & bit) == 0) { /* pooling is an OR: channels that are 1 already need no further pixel */
            uint32_t v = blrc_count_ternary(words, x, w);

            v += other == 0 ? v : blrc_count_ternary(words, other, w);
            if ((int32_t)v <= BLRC_READ(blrc_level_limit, limits, c)) {
                bits |= bit;
            }
        }
        bit = (bit << 1) & 0xFFFFFFFFu;
        if (bit == 0 || c + 1 == end) {
            *y = bits;
            if (c + 1 != end) {
                bits = *++y;
                bit = 1;
            }
        }
    }
}

void blrc_conv_ternary(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                       BLRC_TABLE(blrc_level_limit) limits, uint32_t *scratch, uint32_t *y)
{
    const blrc_window *pool = &op->pool;
    const int32_t outputs = op->out_channels / op->groups, of_pixel = blrc_words(op->out_channels);
    const int32_t words = blrc_words(op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups));
    uint32_t *const other = scratch + words;
    int32_t oy, ox, py, px, g, i;

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span down = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ++ox, y += of_pixel) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

            for (i = 0; i < of_pixel; ++i) {
                y[i] = 0;
            }
            for (py = down.first; py < down.end; ++py) {
                for (px = across.first; px < across.end; ++px) {
                    const int32_t my = top + py * pool->dilation_y, mx = left + px * pool->dilation_x;

                    for (g = 0; g < op->groups; ++g) {
                        const int32_t whole = blrc_collect_taps(op, 1, x, 0, g, my, mx, 0, scratch);

                        if (!whole) {
                            blrc_collect_taps(op, 1, x, 0, g, my, mx, 1, other);
                        }
                        blrc_ternary_rows((uint32_t)words, g * outputs, (g + 1) * outputs, scratch, whole ? 0 : other,
                                          BLRC_SKIP(uint32_t, weights, 2 * words * g * outputs), limits, y);
                    }
                }
            }
        }
    }
}
