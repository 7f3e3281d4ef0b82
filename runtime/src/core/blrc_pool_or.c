/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Max pooling of +-1 maps. */
#include "blrc_window.h"

void blrc_pool_or(const blrc_pool *op, const uint32_t *x, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->channels);
    int32_t oy, ox, ky, kx, i;

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * win->stride_y - win->pad_y;
        const blrc_span down = blrc_inside(top, win->dilation_y, win->kernel_y, op->in_height);

        for (ox = 0; ox < op->out_width; ++ox) {
            const int32_t left = ox * win->stride_x - win->pad_x;
            const blrc_span across = blrc_inside(left, win->dilation_x, win->kernel_x, op->in_width);

            /* Word after word, each stored when all its inputs are read: without padding an output never lies behind
             * its first input, so y may be x. */
            for (i = 0; i < words; ++i) {
                uint32_t any = 0;

                for (ky = down.first; ky < down.end; ++ky) {
                    for (kx = across.first; kx < across.end; ++kx) {
                        const int32_t at = (top + ky * win->dilation_y) * op->in_width + left + kx * win->dilation_x;

                        any |= x[at * words + i];
                    }
                }
                *y++ = any;
            }
        }
    }
}
