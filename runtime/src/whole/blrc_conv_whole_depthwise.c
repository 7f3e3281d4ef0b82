/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Depthwise convolution with weights of 8 bits, to bits or codes: each output sees the channel of its own number.
 *
 * Each tap inside the map adds its products to the sums of all channels. */
#include "blrc_whole.h"

/* v[c] -= the products of a tap. */
static BLRC_APART void blrc_add_whole_numbers(int32_t channels, const int16_t *x, BLRC_TABLE(int8_t) weights,
                                              int32_t *v)
{
    int32_t *const end = v + channels;

    while (v != end) {
        *v++ -= (int32_t)*x++ * BLRC_NEXT(int8_t, weights);
    }
}

/* The same of uint8_t, as they lie in the map. */
static BLRC_APART void blrc_add_whole_bytes(int32_t channels, const uint8_t *x, BLRC_TABLE(int8_t) weights, int32_t *v)
{
    int32_t *const end = v + channels;

    while (v != end) {
        *v++ -= (int32_t)*x++ * BLRC_NEXT(int8_t, weights);
    }
}

static BLRC_INLINE void blrc_window_of_channels(const blrc_conv *op, const blrc_whole_input *in,
                                                BLRC_TABLE(int8_t) weights, int32_t my, int32_t mx, int16_t *numbers,
                                                int32_t *v)
{
    const blrc_window *const win = &op->window;
    const int32_t channels = op->in_channels;
    const int32_t top = my * win->stride_y - win->pad_y, left = mx * win->stride_x - win->pad_x;
    const blrc_span down = blrc_inside(top, win->dilation_y, win->kernel_y, op->in_height);
    const blrc_span across = blrc_inside(left, win->dilation_x, win->kernel_x, op->in_width);
    int32_t ky, kx, c;

    for (c = 0; c < channels; ++c) {
        v[c] = 0;
    }
    for (ky = down.first; ky < down.end; ++ky) {
        for (kx = across.first; kx < across.end; ++kx) {
            const int32_t pixel =
                (top + ky * win->dilation_y) * op->in_width + left + kx * win->dilation_x;
            BLRC_TABLE(int8_t) const tap = BLRC_SKIP(int8_t, weights, (ky * win->kernel_x + kx) * channels);

            if (blrc_whole_bytes(in)) {
                blrc_add_whole_bytes(channels, (const uint8_t *)in->x + pixel * channels, tap, v);
            } else {
                blrc_whole_numbers(in, pixel, 0, channels, numbers);
                blrc_add_whole_numbers(channels, numbers, tap, v);
            }
        }
    }
}

void blrc_conv_whole_depthwise(const blrc_conv *op, int32_t x_bits, int32_t bits, const void *x,
                               BLRC_TABLE(int8_t) table, int32_t table_rows, BLRC_TABLE(int8_t) weights,
                               BLRC_TABLE(blrc_level_limit) limits, BLRC_TABLE(int32_t) scales, uint32_t *scratch,
                               void *y)
{
    const blrc_level_rule rule = {bits, limits, scales};
    const blrc_whole_input in = {x_bits, op->in_channels, x, table, table_rows};

    blrc_whole_walk(op, &in, weights, &rule, blrc_window_of_channels, scratch, y);
}
