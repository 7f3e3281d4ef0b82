/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Max pooling of codes. */
#include "blrc_levels.h"

/* Word i of all planes of the largest codes: a code of 32 channels is larger where it has a one, and the other a zero,
 * in the highest plane in which they differ. */
static void blrc_pool_planes(const blrc_pool *op, int32_t bits, const uint32_t *x, const blrc_pooled *at, int32_t i,
                             void *y)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->channels);
    uint32_t most[BLRC_MOST_PLANES] = {0, 0, 0, 0}, *const to = (uint32_t *)y;
    int32_t ky, kx, p;

    for (ky = at->down.first; ky < at->down.end; ++ky) {
        for (kx = at->across.first; kx < at->across.end; ++kx) {
            const int32_t row = at->top + ky * win->dilation_y, column = at->left + kx * win->dilation_x;
            const uint32_t *const code = x + (row * op->in_width + column) * bits * words + i;
            uint32_t larger = 0, equal = 0xFFFFFFFFu;

            for (p = bits - 1; p >= 0; --p) {
                larger |= equal & code[p * words] & ~most[p];
                equal &= ~(code[p * words] ^ most[p]);
            }
            for (p = 0; p < bits; ++p) {
                most[p] = (most[p] & ~larger) | (code[p * words] & larger);
            }
        }
    }
    for (p = 0; p < bits; ++p) {
        to[p * words + i] = most[p];
    }
}

static uint8_t blrc_pool_bytes(const blrc_pool *op, const uint8_t *x, const blrc_pooled *at, int32_t c)
{
    const blrc_window *win = &op->window;
    uint8_t most = 0;
    int32_t ky, kx;

    for (ky = at->down.first; ky < at->down.end; ++ky) {
        for (kx = at->across.first; kx < at->across.end; ++kx) {
            const int32_t row = at->top + ky * win->dilation_y, column = at->left + kx * win->dilation_x;
            const uint8_t code = x[(row * op->in_width + column) * op->channels + c];

            most = code > most ? code : most;
        }
    }
    return most;
}

void blrc_pool_levels(const blrc_pool *op, int32_t bits, const void *x, void *y)
{
    const blrc_window *win = &op->window;
    uint8_t *to = (uint8_t *)y;
    int32_t oy, ox, i;
    blrc_pooled at;

    for (oy = 0; oy < op->out_height; ++oy) {
        at.top = oy * win->stride_y - win->pad_y;
        at.down = blrc_inside(at.top, win->dilation_y, win->kernel_y, op->in_height);
        for (ox = 0; ox < op->out_width; ++ox, to += blrc_pixel_bytes(bits, op->channels)) {
            at.left = ox * win->stride_x - win->pad_x;
            at.across = blrc_inside(at.left, win->dilation_x, win->kernel_x, op->in_width);
            /* A word or byte is stored when all its inputs are read: without padding an output never lies behind its
             * first input, so y may be x. */
            for (i = 0; bits <= BLRC_MOST_PLANES && i < blrc_words(op->channels); ++i) {
                blrc_pool_planes(op, bits, (const uint32_t *)x, &at, i, to);
            }
            for (i = 0; bits > BLRC_MOST_PLANES && i < op->channels; ++i) {
                to[i] = blrc_pool_bytes(op, (const uint8_t *)x, &at, i);
            }
        }
    }
}
