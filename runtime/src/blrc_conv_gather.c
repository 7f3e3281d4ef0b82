/* Binary convolution for small kernels, of any dilation and grouping: the words of all taps are collected once for a
 * pixel, then every output channel reads them as one run. */
#include "blrc_conv_walk.h"
#include "blrc_dot.h"
#include "blrc_group.h"
#include "blrc_run.h"
#include "blrc_run_taps.h"

/* y |= bits of the channels first <= c < end from plain rows, inside and at borders: for groups whose outputs do not
 * come in fours. */
static void blrc_gather_single(const blrc_taps *taps, int32_t first, int32_t end, BLRC_TABLE(uint32_t) w,
                               BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    int32_t c, t;

    for (c = first; c < end; ++c, w = BLRC_SKIP(uint32_t, w, taps->total)) {
        uint32_t pop = 0;

        for (t = taps->top; t < taps->bottom; ++t) {
            const int32_t start = t * taps->line + taps->before;

            pop += blrc_dot1(taps->run + start, BLRC_SKIP(uint32_t, w, start), taps->after - taps->before);
        }
        y[c / 32] |= blrc_pass(pop, taps->n, thresholds, c) << (c % 32);
    }
}

static void blrc_conv_gather_pixel(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->in_channels);
    const int32_t channels = in->channels;
    const int32_t tap = blrc_words(channels);
    const int32_t top = my * win->stride_y - win->pad_y;
    const int32_t left = mx * win->stride_x - win->pad_x;
    const blrc_span ky = blrc_inside(top, win->dilation_y, win->kernel_y, op->in_height);
    const blrc_span kx = blrc_inside(left, win->dilation_x, win->kernel_x, op->in_width);
    const int32_t real = (ky.end - ky.first) * (kx.end - kx.first);
    BLRC_TABLE(uint32_t) w = in->weights;
    const int32_t whole_words = op->groups == 1 || channels % 32 == 0;
    blrc_taps taps;
    int32_t g, t, s, i;

    taps.line = win->kernel_x * tap;
    taps.total = win->kernel_y * taps.line;
    taps.n = real * channels;
    taps.before = kx.first * tap;
    taps.after = kx.end * tap;
    taps.top = ky.first;
    taps.bottom = ky.end;

    for (g = 0; g < op->groups; ++g, w = BLRC_SKIP(uint32_t, w, in->outputs * taps.total)) {
        const int32_t first = g * in->outputs;

        for (t = taps.top; t < taps.bottom; ++t) {
            uint32_t *to = taps.run + t * taps.line + taps.before;

            for (s = kx.first; s < kx.end; ++s, to += tap) {
                const int32_t at = (top + t * win->dilation_y) * op->in_width + left + s * win->dilation_x;
                const uint32_t *const pixel = (const uint32_t *)in->x + at * words;

                if (whole_words) {
                    for (i = 0; i < tap; ++i) {
                        to[i] = pixel[g * tap + i];
                    }
                } else {
                    blrc_group_words(pixel, words, g * channels, channels, 0, tap, to);
                }
            }
        }
        if (op->rows != BLRC_ROWS) {
            blrc_gather_single(&taps, first, first + in->outputs, w, in->thresholds, y);
        } else if (real == win->kernel_y * win->kernel_x) {
            blrc_run(taps.n, taps.total, first, first + in->outputs, taps.run, w, in->thresholds, y);
        } else {
            blrc_run_taps(&taps, first, first + in->outputs, w, in->thresholds, y);
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
