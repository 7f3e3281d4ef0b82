/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary convolution, the fast path for kernels with many channels: the taps of a kernel row are one run of words. */
#include "blrc_conv_walk.h"
#include "blrc_dot.h"

static void blrc_conv_rows_pixel(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->in_channels);
    const int32_t line = win->kernel_x * words;
    const int32_t total = win->kernel_y * line;
    const int32_t top = my * win->stride_y - win->pad_y;
    const int32_t left = mx * win->stride_x - win->pad_x;
    const blrc_span ky = blrc_inside(top, win->dilation_y, win->kernel_y, op->in_height);
    const blrc_span kx = blrc_inside(left, 1, win->kernel_x, op->in_width);
    /* Where no column is inside, no row is looked at: the run's address would lie outside the map. */
    const int32_t bottom = kx.first == kx.end ? ky.first : ky.end;
    const int32_t n = (ky.end - ky.first) * (kx.end - kx.first) * op->in_channels;
    BLRC_TABLE(uint32_t) w = in->weights;
    int32_t c, t;

    for (c = 0; c < op->out_channels; c += BLRC_ROWS, w = BLRC_SKIP(uint32_t, w, BLRC_ROWS * total)) {
        uint32_t acc[BLRC_ROWS] = {0, 0, 0, 0};

        /* Pooling is an OR: four channels that are all 1 already need no further pixel. */
        if (((y[c / 32] >> (c % 32)) & 15u) == 15u) {
            continue;
        }
        for (t = ky.first; t < bottom; ++t) {
            const int32_t row = (top + t * win->dilation_y) * op->in_width + left + kx.first;

            blrc_dot4_range((const uint32_t *)in->x + row * words, w, t * line + kx.first * words,
                            t * line + kx.end * words, total, acc);
        }
        y[c / 32] |= blrc_pass4(acc, n, BLRC_SKIP(blrc_bit_threshold, in->thresholds, c)) << (c % 32);
    }
}

void blrc_conv_rows(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                    BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    const blrc_operands in = {x, weights, thresholds, 0, 0, 0, op->in_channels, op->out_channels};

    blrc_conv_walk(op, &in, blrc_conv_rows_pixel, y);
}
