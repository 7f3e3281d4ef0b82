/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* The loop that all convolutions share: over the output pixels and, for each, over the pooling window.
 *
 * Pooling is fused: the bits of every map pixel in the window are OR-ed into the output, so the unpooled map is never
 * stored. (Max commutes with the threshold because the norm comes before the pool and is increasing after the flip.) */
#ifndef BLRC_CONV_WALK_H
#define BLRC_CONV_WALK_H

#include "blrc_window.h"

/* What a pixel function reads besides the geometry, and quotients that it need not compute again. */
typedef struct blrc_operands {
    const void *x;
    BLRC_TABLE(uint32_t) weights;
    BLRC_TABLE(blrc_bit_threshold) thresholds;
    BLRC_TABLE(blrc_code_threshold) code_thresholds; /* of conv_codes, which reads them instead */
    BLRC_TABLE(int8_t) table;
    int32_t table_rows;
    int32_t channels, outputs; /* of one group */
} blrc_operands;

/* OR the bits of map pixel (my, mx) into y. */
typedef void (*blrc_pixel)(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y);

static BLRC_INLINE void blrc_conv_walk(const blrc_conv *op, const blrc_operands *in, blrc_pixel pixel, uint32_t *y)
{
    const blrc_window *pool = &op->pool;
    const int32_t words = blrc_words(op->out_channels);
    int32_t oy, ox, py, px, i;

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span vertical = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ++ox) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

            for (i = 0; i < words; ++i) {
                y[i] = 0;
            }
            for (py = vertical.first; py < vertical.end; ++py) {
                for (px = across.first; px < across.end; ++px) {
                    pixel(op, in, top + py * pool->dilation_y, left + px * pool->dilation_x, y);
                }
            }
            y += words;
        }
    }
}

#endif
