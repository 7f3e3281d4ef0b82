/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary convolution for small kernels, of any dilation and grouping: the words of all taps are collected once for a
 * pixel, then every output channel reads them as one run. */
#include "blrc_conv_walk.h"
#include "blrc_dot.h"
#include "blrc_group.h"
#include "blrc_run.h"
#include "blrc_run_real.h"

/* What a pixel sees, and where its words go. */
typedef struct blrc_gathered {
    int32_t top, left; /* the pixel under the first tap */
    int32_t whole;     /* all taps lie inside the map, and `real` is not read */
    blrc_span ky, kx;
    BLRC_ALIGNED(4) uint32_t run[BLRC_GATHER_WORDS];
    BLRC_ALIGNED(4) uint32_t real[BLRC_GATHER_WORDS];
} blrc_gathered;

/* Collect the words of group g. Where a tap lies outside, both are 0. */
static BLRC_APART void blrc_gather_words(const blrc_conv *op, const blrc_operands *in, int32_t g, blrc_gathered *taps)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->in_channels);
    const int32_t tap = blrc_words(in->channels);
    const int32_t whole_words = op->groups == 1 || in->channels % 32 == 0;
    const int32_t in_runs = taps->whole && op->groups == 1 && win->dilation_x == 1;
    uint32_t *to = taps->run, *real = taps->real;
    int32_t t, s, i;

    for (t = 0; t < win->kernel_y; ++t) {
        const int32_t row = (taps->top + t * win->dilation_y) * op->in_width + taps->left;

        if (in_runs) {
            const uint32_t *from = (const uint32_t *)in->x + row * words;

            for (i = win->kernel_x * words; i > 0; --i) {
                *to++ = *from++;
            }
            continue;
        }
        for (s = 0; s < win->kernel_x; ++s, to += tap, real += tap) {
            const uint32_t inside = t >= taps->ky.first && t < taps->ky.end && s >= taps->kx.first && s < taps->kx.end;
            const int32_t at = (row + s * win->dilation_x) * words;

            if (!taps->whole) {
                for (i = 0; i < tap; ++i) {
                    to[i] = 0;
                    real[i] = 0u - inside;
                }
            }
            if (inside) {
                if (whole_words) {
                    for (i = 0; i < tap; ++i) {
                        to[i] = ((const uint32_t *)in->x)[at + g * tap + i];
                    }
                } else {
                    blrc_group_words((const uint32_t *)in->x + at, words, g * in->channels, in->channels, 0, tap, to);
                }
            }
        }
    }
}

static void blrc_conv_gather_pixel(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t kernel = win->kernel_y * win->kernel_x;
    const int32_t total = kernel * blrc_words(in->channels);
    BLRC_TABLE(uint32_t) w = in->weights;
    blrc_gathered taps;
    int32_t g, n;

    taps.top = my * win->stride_y - win->pad_y;
    taps.left = mx * win->stride_x - win->pad_x;
    taps.ky = blrc_inside(taps.top, win->dilation_y, win->kernel_y, op->in_height);
    taps.kx = blrc_inside(taps.left, win->dilation_x, win->kernel_x, op->in_width);
    n = (taps.ky.end - taps.ky.first) * (taps.kx.end - taps.kx.first);
    taps.whole = n == kernel && op->rows == BLRC_ROWS;
    n *= in->channels;
    for (g = 0; g < op->groups; ++g, w = BLRC_SKIP(uint32_t, w, in->outputs * total)) {
        const int32_t first = g * in->outputs, end = first + in->outputs;

        blrc_gather_words(op, in, g, &taps);
        if (op->rows != BLRC_ROWS) {
            blrc_single_rows(n, total, first, in->outputs, taps.run, taps.real, w, in->thresholds, y);
        } else if (taps.whole) {
            blrc_run(n, total, first, end, taps.run, w, in->thresholds, y);
        } else {
            blrc_run_real(n, total, first, end, taps.run, taps.real, w, in->thresholds, y);
        }
    }
}

void blrc_conv_gather(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
                      BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    const blrc_operands in = {x, weights, thresholds, 0, 0, 0, op->in_channels / op->groups,
                              op->out_channels / op->groups};

    blrc_conv_walk(op, &in, blrc_conv_gather_pixel, y);
}
