/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary convolution, the general path: large kernels with groups or horizontal dilation. Tap after tap, in pieces of a
 * bounded number of words. */
#include "blrc_conv_walk.h"
#include "blrc_dot.h"
#include "blrc_group.h"

static void blrc_conv_taps_pixel(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->in_channels);
    const int32_t channels = in->channels;
    const int32_t tap = blrc_words(channels);
    const int32_t total = win->kernel_y * win->kernel_x * tap;
    const int32_t top = my * win->stride_y - win->pad_y;
    const int32_t left = mx * win->stride_x - win->pad_x;
    const blrc_span ky = blrc_inside(top, win->dilation_y, win->kernel_y, op->in_height);
    const blrc_span kx = blrc_inside(left, win->dilation_x, win->kernel_x, op->in_width);
    const int32_t n = (ky.end - ky.first) * (kx.end - kx.first) * channels;
    BLRC_TABLE(uint32_t) w = in->weights;
    uint32_t run[BLRC_GATHER_WORDS];
    int32_t c, t, s, i;

    for (c = 0; c < op->out_channels; c += op->rows, w = BLRC_SKIP(uint32_t, w, op->rows * total)) {
        const int32_t bit = c / in->outputs * channels;
        uint32_t acc[BLRC_ROWS] = {0, 0, 0, 0};

        for (t = ky.first; t < ky.end; ++t) {
            for (s = kx.first; s < kx.end; ++s) {
                const int32_t row = (top + t * win->dilation_y) * op->in_width + left + s * win->dilation_x;
                const int32_t first = (t * win->kernel_x + s) * tap;

                for (i = 0; i < tap; i += BLRC_GATHER_WORDS) {
                    const int32_t end = tap - i < BLRC_GATHER_WORDS ? tap : i + BLRC_GATHER_WORDS;

                    blrc_group_words_here((const uint32_t *)in->x + row * words, words, bit, channels, i, end, run);
                    if (op->rows == BLRC_ROWS) {
                        blrc_dot4_range(run, w, first + i, first + end, total, acc);
                    } else {
                        acc[0] += blrc_dot1(run, BLRC_SKIP(uint32_t, w, first + i), end - i);
                    }
                }
            }
        }
        if (op->rows == BLRC_ROWS) {
            y[c / 32] |= blrc_pass4(acc, n, BLRC_SKIP(blrc_bit_threshold, in->thresholds, c)) << (c % 32);
        } else {
            y[c / 32] |= blrc_pass(acc[0], n, in->thresholds, c) << (c % 32);
        }
    }
}

void blrc_conv_taps(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                    BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    const blrc_operands in = {x, weights, thresholds, 0, 0, 0, op->in_channels / op->groups,
                              op->out_channels / op->groups};

    blrc_conv_walk(op, &in, blrc_conv_taps_pixel, y);
}
