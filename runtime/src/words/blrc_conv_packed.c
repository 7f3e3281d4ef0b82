/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary convolution where a tap does not fill its words: few channels, depthwise, groups. The bits of all taps are put
 * together without gaps, so that a 3x3 kernel on one channel is 9 bits of one word and not 9 words. */
#include "blrc_conv_walk.h"
#include "blrc_dot.h"
#include "blrc_group.h"
#include "blrc_run.h"
#include "blrc_run_real.h"

/* Put the low `count` <= 32 bits of v at bit `at` of `to`; nothing but zeros is there yet. */
static inline void blrc_put_bits(uint32_t v, int32_t count, int32_t at, uint32_t *to)
{
    const int32_t shift = at % 32;

    /* All words of the kernel are zeros before, but that is a product too much for the analyzer.
     * NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign) */
    to[at / 32] |= v << shift;
    if (shift + count > 32) {
        to[at / 32 + 1] |= v >> (32 - shift);
    }
}

static void blrc_conv_packed_pixel(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->in_channels);
    const int32_t channels = in->channels;
    const int32_t kernel = win->kernel_y * win->kernel_x;
    const int32_t total = blrc_words(kernel * channels);
    const int32_t top = my * win->stride_y - win->pad_y;
    const int32_t left = mx * win->stride_x - win->pad_x;
    const blrc_span ky = blrc_inside(top, win->dilation_y, win->kernel_y, op->in_height);
    const blrc_span kx = blrc_inside(left, win->dilation_x, win->kernel_x, op->in_width);
    const int32_t taps = (ky.end - ky.first) * (kx.end - kx.first);
    BLRC_TABLE(uint32_t) w = in->weights;
    uint32_t run[BLRC_GATHER_WORDS], real[BLRC_GATHER_WORDS];
    int32_t g, t, s, i, c;

    for (g = 0; g < op->groups; ++g, w = BLRC_SKIP(uint32_t, w, in->outputs * total)) {
        const int32_t first = g * in->outputs;

        for (i = 0; i < total; ++i) {
            run[i] = real[i] = 0;
        }
        for (t = ky.first; t < ky.end; ++t) {
            for (s = kx.first; s < kx.end; ++s) {
                const int32_t row = (top + t * win->dilation_y) * op->in_width + left + s * win->dilation_x;
                const uint32_t *const pixel = (const uint32_t *)in->x + row * words;
                const int32_t at = (t * win->kernel_x + s) * channels;

                for (c = 0; c < channels; c += 32) {
                    const int32_t count = channels - c < 32 ? channels - c : 32;
                    uint32_t v;

                    blrc_group_words_here(pixel, words, g * channels, channels, c / 32, c / 32 + 1, &v);
                    blrc_put_bits(v, count, at + c, run);
                    blrc_put_bits(0xFFFFFFFFu >> (32 - count), count, at + c, real);
                }
            }
        }
        if (op->rows != BLRC_ROWS) {
            blrc_single_rows(taps * channels, total, first, in->outputs, run, real, w, in->thresholds, y);
        } else if (taps == kernel) {
            blrc_run(taps * channels, total, first, first + in->outputs, run, w, in->thresholds, y);
        } else {
            blrc_run_real(taps * channels, total, first, first + in->outputs, run, real, w, in->thresholds, y);
        }
    }
}

void blrc_conv_packed(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                      BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    const blrc_operands in = {x, weights, thresholds, 0, 0, 0, op->in_channels / op->groups,
                              op->out_channels / op->groups};

    blrc_conv_walk(op, &in, blrc_conv_packed_pixel, y);
}
