/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of bits or of codes under a window, which stand for their averages. */
#include "blrc_levels.h"

/* Bits of the longest sum. */
#define BLRC_MOST_SUM_BITS 8

/* Add up word i of all planes, the codes of 32 channels at once: bit p of each channel's sum is in sum[p]. */
static void blrc_pool_sum_planes(const blrc_pool *op, int32_t bits, const uint32_t *x, const blrc_pooled *at, int32_t i,
                                 uint32_t *sum)
{
    const int32_t words = blrc_words(op->channels);
    int32_t ky, kx, p;

    for (p = 0; p < BLRC_MOST_SUM_BITS; ++p) {
        sum[p] = 0;
    }
    for (ky = at->down.first; ky < at->down.end; ++ky) {
        for (kx = at->across.first; kx < at->across.end; ++kx) {
            const uint32_t *const code = x + ((at->top + ky) * op->in_width + at->left + kx) * bits * words + i;
            uint32_t carry = 0;

            for (p = 0; p < BLRC_MOST_SUM_BITS && (p < bits || carry != 0); ++p) {
                const uint32_t one = p < bits ? code[p * words] : 0, other = sum[p];

                sum[p] = other ^ one ^ carry;
                carry = (other & one) | ((other ^ one) & carry);
            }
        }
    }
}

/* Write the sums of 32 channels, or of those that there are, as codes of `bits` bits. */
static void blrc_pool_put_sums(const uint32_t *sum, int32_t bits, int32_t channels, int32_t i, void *y)
{
    const int32_t first = 32 * i, count = channels - first < 32 ? channels - first : 32;
    int32_t c, p;

    if (bits <= BLRC_MOST_PLANES) {
        for (p = 0; p < bits; ++p) {
            ((uint32_t *)y)[p * blrc_words(channels) + i] = sum[p];
        }
        return;
    }
    for (c = 0; c < count; ++c) {
        uint32_t code = 0;

        for (p = 0; p < bits; ++p) {
            code |= ((sum[p] >> c) & 1u) << p;
        }
        ((uint8_t *)y)[first + c] = (uint8_t)code;
    }
}

static uint8_t blrc_pool_sum_bytes(const blrc_pool *op, const uint8_t *x, const blrc_pooled *at, int32_t c)
{
    uint32_t sum = 0;
    int32_t ky, kx;

    for (ky = at->down.first; ky < at->down.end; ++ky) {
        for (kx = at->across.first; kx < at->across.end; ++kx) {
            sum += x[((at->top + ky) * op->in_width + at->left + kx) * op->channels + c];
        }
    }
    return (uint8_t)sum;
}

void blrc_pool_sums(const blrc_pool *op, int32_t x_bits, int32_t bits, const void *x, void *y)
{
    const blrc_window *win = &op->window;
    uint8_t *to = (uint8_t *)y;
    uint32_t sum[BLRC_MOST_SUM_BITS];
    int32_t oy, ox, i;
    blrc_pooled at;

    for (oy = 0; oy < op->out_height; ++oy) {
        at.top = oy * win->stride_y - win->pad_y;
        at.down = blrc_inside(at.top, 1, win->kernel_y, op->in_height);
        for (ox = 0; ox < op->out_width; ++ox, to += blrc_pixel_bytes(bits, op->channels)) {
            at.left = ox * win->stride_x - win->pad_x;
            at.across = blrc_inside(at.left, 1, win->kernel_x, op->in_width);
            for (i = 0; x_bits <= BLRC_MOST_PLANES && i < blrc_words(op->channels); ++i) {
                blrc_pool_sum_planes(op, x_bits, (const uint32_t *)x, &at, i, sum);
                blrc_pool_put_sums(sum, bits, op->channels, i, to);
            }
            for (i = 0; x_bits > BLRC_MOST_PLANES && i < op->channels; ++i) {
                to[i] = blrc_pool_sum_bytes(op, (const uint8_t *)x, &at, i);
            }
        }
    }
}
