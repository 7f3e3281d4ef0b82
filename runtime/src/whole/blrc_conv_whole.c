/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution with weights of 8 bits, to bits or codes.
 *
 * The numbers of a window are collected, and multiplied with four rows of weights at a time. Rows and windows have
 * zeros behind them up to a multiple of four, which a Cortex-M with DSP instructions multiplies in two steps. */
#include "blrc_whole.h"

/* Compilers before GCC 10 do not know these instructions by name. */
#if defined(__ARM_FEATURE_SIMD32) && !defined(__ARM_BIG_ENDIAN) && defined(__GNUC__) && \
    (defined(__clang__) || __GNUC__ >= 10)
#include <arm_acle.h>
#define BLRC_WHOLE_PAIRS 1
#else
#define BLRC_WHOLE_PAIRS 0
#endif

/* Numbers of group g in a window, in the order (ky, kx, channel); those outside the map, and what is too much up to a
 * multiple of four, are 0. */
static BLRC_APART void blrc_collect_numbers(const blrc_conv *op, const blrc_whole_input *in, int32_t g, int32_t my,
                                            int32_t mx, int16_t *to)
{
    const blrc_window *const win = &op->window;
    const int32_t channels = op->in_channels / op->groups, taps = win->kernel_y * win->kernel_x;
    const int32_t padded = (taps * channels + 3) / 4 * 4, first = g * channels;
    const int32_t top = my * win->stride_y - win->pad_y, left = mx * win->stride_x - win->pad_x;
    const blrc_span down = blrc_inside(top, win->dilation_y, win->kernel_y, op->in_height);
    const blrc_span across = blrc_inside(left, win->dilation_x, win->kernel_x, op->in_width);
    /* Bytes of neighbours lie side by side. */
    const int32_t bytes = in->bits == 0 || blrc_whole_bytes(in);
    const int32_t joined = bytes && op->groups == 1 && win->dilation_x == 1 && in->table_rows <= 1;
    int32_t ky, kx, i;

    if (down.end - down.first < win->kernel_y || across.end - across.first < win->kernel_x ||
        padded != taps * channels) {
        for (i = 0; i < padded; ++i) {
            to[i] = 0;
        }
    }
    for (ky = down.first; ky < down.end; ++ky) {
        const int32_t row = (top + ky * win->dilation_y) * op->in_width + left;
        const int32_t step = joined ? across.end - across.first : 1;

        for (kx = across.first; kx < across.end; kx += step) {
            blrc_whole_numbers(in, row + kx * win->dilation_x, first, first + step * channels,
                               to + (ky * win->kernel_x + kx) * channels);
        }
    }
#if BLRC_WHOLE_PAIRS
    for (i = 0; i < padded; i += 4) { /* in the order in which sxtb16 widens bytes */
        const int16_t second = to[i + 1];

        to[i + 1] = to[i + 2];
        to[i + 2] = second;
    }
#endif
}

#if BLRC_WHOLE_PAIRS

/* z + the products of four weights and four numbers. */
static BLRC_INLINE int32_t blrc_add_four_whole(int32_t z, const int8_t *weights, int16x2_t even, int16x2_t odd)
{
    uint32_t four;

    __builtin_memcpy(&four, weights, sizeof four);
    z = __smlad(even, __sxtb16((int8x4_t)four), z);
    return __smlad(odd, __sxtb16((int8x4_t)(four >> 8)), z);
}

/* v[r] = the opposite of the sum of row r of four, each of `count` weights, a multiple of four. */
static BLRC_APART void blrc_four_whole_rows(const int16_t *numbers, int32_t count, BLRC_TABLE(int8_t) weights,
                                            int32_t *v)
{
    const int8_t *a = weights, *b = a + count, *c = b + count, *d = c + count;
    const int16_t *const end = numbers + count;
    int32_t za = 0, zb = 0, zc = 0, zd = 0;

    for (; numbers != end; numbers += 4, a += 4, b += 4, c += 4, d += 4) {
        int16x2_t even, odd;

        __builtin_memcpy(&even, numbers, sizeof even);
        __builtin_memcpy(&odd, numbers + 2, sizeof odd);
        za = blrc_add_four_whole(za, a, even, odd);
        zb = blrc_add_four_whole(zb, b, even, odd);
        zc = blrc_add_four_whole(zc, c, even, odd);
        zd = blrc_add_four_whole(zd, d, even, odd);
    }
    v[0] = -za;
    v[1] = -zb;
    v[2] = -zc;
    v[3] = -zd;
}

/* The opposite of the sum of one row. */
static BLRC_APART int32_t blrc_one_whole_row(const int16_t *numbers, int32_t count, BLRC_TABLE(int8_t) weights)
{
    const int16_t *const end = numbers + count;
    int32_t z = 0;

    for (; numbers != end; numbers += 4, weights += 4) {
        int16x2_t even, odd;

        __builtin_memcpy(&even, numbers, sizeof even);
        __builtin_memcpy(&odd, numbers + 2, sizeof odd);
        z = blrc_add_four_whole(z, weights, even, odd);
    }
    return -z;
}

#else

/* v[r] = the opposite of the sum of row r of four, each of `count` weights. */
static BLRC_APART void blrc_four_whole_rows(const int16_t *numbers, int32_t count, BLRC_TABLE(int8_t) weights,
                                            int32_t *v)
{
    BLRC_TABLE(int8_t) const second = BLRC_SKIP(int8_t, weights, count);
    BLRC_TABLE(int8_t) const third = BLRC_SKIP(int8_t, second, count);
    BLRC_TABLE(int8_t) const fourth = BLRC_SKIP(int8_t, third, count);
    int32_t za = 0, zb = 0, zc = 0, zd = 0, i;

    for (i = 0; i < count; ++i) {
        const int32_t x = numbers[i];

        za += x * BLRC_READ(int8_t, weights, i);
        zb += x * BLRC_READ(int8_t, second, i);
        zc += x * BLRC_READ(int8_t, third, i);
        zd += x * BLRC_READ(int8_t, fourth, i);
    }
    v[0] = -za;
    v[1] = -zb;
    v[2] = -zc;
    v[3] = -zd;
}

/* The opposite of the sum of one row. */
static BLRC_APART int32_t blrc_one_whole_row(const int16_t *numbers, int32_t count, BLRC_TABLE(int8_t) weights)
{
    int32_t z = 0, i;

    for (i = 0; i < count; ++i) {
        z -= (int32_t)numbers[i] * BLRC_READ(int8_t, weights, i);
    }
    return z;
}

#endif

static BLRC_INLINE void blrc_window_of_rows(const blrc_conv *op, const blrc_whole_input *in, BLRC_TABLE(int8_t) weights,
                                            int32_t my, int32_t mx, int16_t *numbers, int32_t *v)
{
    const int32_t outputs = op->out_channels / op->groups;
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    const int32_t count = (fan_in + 3) / 4 * 4;
    int32_t g, r;

    for (g = 0; g < op->groups; ++g) {
        blrc_collect_numbers(op, in, g, my, mx, numbers);
        for (r = 0; r + 4 <= outputs; r += 4, v += 4, weights = BLRC_SKIP(int8_t, weights, 4 * count)) {
            blrc_four_whole_rows(numbers, count, weights, v);
        }
        for (; r < outputs; ++r, ++v, weights = BLRC_SKIP(int8_t, weights, count)) {
            *v = blrc_one_whole_row(numbers, count, weights);
        }
    }
}

void blrc_conv_whole(const blrc_conv *op, int32_t x_bits, int32_t bits, const void *x, BLRC_TABLE(int8_t) table,
                     int32_t table_rows, BLRC_TABLE(int8_t) weights, BLRC_TABLE(blrc_level_limit) limits,
                     BLRC_TABLE(int32_t) scales, uint32_t *scratch, void *y)
{
    const blrc_level_rule rule = {bits, limits, scales};
    const blrc_whole_input in = {x_bits, op->in_channels, x, table, table_rows};

    blrc_whole_walk(op, &in, weights, &rule, blrc_window_of_rows, scratch, y);
}
