/* Binary convolution for small kernels, of any dilation and grouping: the words of all taps are collected once for a
 * pixel, then every output channel reads them as one run. */
#include "blrc_conv_walk.h"
#include "blrc_dot.h"
#include "blrc_group.h"

static void blrc_conv_gather_pixel(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->in_channels);
    const int32_t channels = op->in_channels / op->groups;
    const int32_t outputs = op->out_channels / op->groups;
    const int32_t tap = blrc_words(channels);
    const int32_t line = win->kernel_x * tap;
    const int32_t total = win->kernel_y * line;
    const int32_t top = my * win->stride_y - win->pad_y;
    const int32_t left = mx * win->stride_x - win->pad_x;
    const blrc_span ky = blrc_inside(top, win->dilation_y, win->kernel_y, op->in_height);
    const blrc_span kx = blrc_inside(left, win->dilation_x, win->kernel_x, op->in_width);
    const int32_t taps = (ky.end - ky.first) * (kx.end - kx.first);
    const int32_t whole = taps == win->kernel_y * win->kernel_x;
    const uint32_t *w = in->weights;
    uint32_t run[BLRC_GATHER_WORDS];
    int32_t g, c, r, t, s;

    for (g = 0; g < op->groups; ++g) {
        const int32_t end = (g + 1) * outputs;

        for (t = ky.first; t < ky.end; ++t) {
            for (s = kx.first; s < kx.end; ++s) {
                const int32_t row = (top + t * win->dilation_y) * op->in_width + left + s * win->dilation_x;

                blrc_group_words((const uint32_t *)in->x + row * words, words, g * channels, channels, 0, tap,
                                 run + t * line + s * tap);
            }
        }
        for (c = g * outputs; c < end; c += op->rows, w += op->rows * total) {
            uint32_t acc[BLRC_ROWS] = {0, 0, 0, 0};

            if (op->rows == BLRC_ROWS) {
                /* Pooling is an OR: four channels that are all 1 already need no further pixel. */
                if (((y[c / 32] >> (c % 32)) & 15u) == 15u) {
                    continue;
                }
                if (whole) {
                    blrc_dot4_range(run, w, 0, total, total, acc);
                } else {
                    for (t = ky.first; t < ky.end; ++t) {
                        const int32_t first = t * line + kx.first * tap;

                        blrc_dot4_range(run + first, w, first, t * line + kx.end * tap, total, acc);
                    }
                }
                y[c / 32] |= blrc_pass4(acc, taps * channels, in->thresholds + c) << (c % 32);
            } else {
                for (t = ky.first; t < ky.end; ++t) {
                    const int32_t first = t * line + kx.first * tap;

                    acc[0] += blrc_dot1(run + first, w + first, (kx.end - kx.first) * tap);
                }
                r = (int32_t)(2 * acc[0]) <= taps * channels - in->thresholds[c];
                y[c / 32] |= (uint32_t)r << (c % 32);
            }
        }
    }
}

void blrc_conv_gather(const blrc_conv *op, const uint32_t *x, const uint32_t *weights, const int32_t *thresholds,
                      uint32_t *y)
{
    const blrc_operands in = {x, weights, thresholds, 0, 0};

    blrc_conv_walk(op, &in, blrc_conv_gather_pixel, y);
}
