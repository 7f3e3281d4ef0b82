/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of codes in planes, or of +-1, with +-1 weights, to codes.
 *
 * With ones(v) for the number of ones in a run of bits, a plane x of a window and a row w of weights,
 *
 *   sum of +-x = 2 ones(x and w) - ones(x) = ones(w) - ones(x xor w),
 *
 * which holds where absent taps are zeros in x as well: code 0 adds nothing. So z is a constant of the row less
 * v = sum of 2^p ones(x_p xor w), and the limits on v take up the constant. +-1 are b = 2 x - r, where r has a one for
 * each real tap: v = 2 ones(x xor w) - ones(r xor w). Pooling takes the largest z, which is the smallest v. */
#include "blrc_dot.h"
#include "blrc_group.h"
#include "blrc_levels.h"

/* The bits of group g of plane p of the window at map pixel (my, mx), without gaps; the ones of real taps where there
 * is no such plane. `planes` are those of the map. */
static BLRC_APART void blrc_collect_plane(const blrc_conv *op, int32_t planes, const uint32_t *x, int32_t p, int32_t g,
                                          int32_t my, int32_t mx, uint32_t *to)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->in_channels), channels = op->in_channels / op->groups;
    const int32_t top = my * win->stride_y - win->pad_y, left = mx * win->stride_x - win->pad_x;
    blrc_bit_run run;
    int32_t t, s, c;

    run.to = to;
    run.word = 0;
    run.filled = 0;
    for (t = 0; t < win->kernel_y; ++t) {
        const int32_t row = top + t * win->dilation_y;

        for (s = 0; s < win->kernel_x; ++s) {
            const int32_t column = left + s * win->dilation_x;
            const int32_t real = row >= 0 && row < op->in_height && column >= 0 && column < op->in_width;
            const uint32_t *const pixel = real ? x + ((row * op->in_width + column) * planes + p) * words : x;

            if (channels % 32 == 0 && p < planes) { /* whole words, one behind the other */
                for (c = g * channels / 32; c < (g + 1) * channels / 32; ++c) {
                    *run.to++ = real ? pixel[c] : 0;
                }
                continue;
            }
            for (c = 0; c < channels; c += 32) {
                const int32_t count = channels - c < 32 ? channels - c : 32;
                uint32_t bits = real ? 0xFFFFFFFFu >> (32 - count) : 0;

                if (real && p < planes) {
                    blrc_group_words_here(pixel, words, g * channels, channels, c / 32, c / 32 + 1, &bits);
                }
                blrc_append_bits(&run, bits, count);
            }
        }
    }
    if (run.filled > 0) {
        *run.to = run.word;
    }
}

#if BLRC_CARRY_SAVE

static BLRC_APART uint32_t blrc_plane_pairs(uint32_t ones, uint32_t pairs, const uint32_t *x, BLRC_TABLE(uint32_t) w)
{
    return blrc_count_pairs(ones, pairs, x, x, 0, w);
}

static BLRC_APART uint32_t blrc_plane_nine(uint32_t ones, const uint32_t *x, BLRC_TABLE(uint32_t) w)
{
    return blrc_count_nine(ones, x, x, 0, w);
}

#endif

/* v[r] += times the bits of a run that differ from row r of a block of four. */
static BLRC_INLINE void blrc_count_block(const uint32_t *x, int32_t words, BLRC_TABLE(uint32_t) w, int32_t times,
                                         int32_t *v)
{
#if BLRC_CARRY_SAVE
    BLRC_TABLE(uint32_t) alone = BLRC_SKIP(uint32_t, w, 4 * (words - 1));
    const uint32_t last = x[words - 1];
    int32_t *const end = v + BLRC_ROWS;

    for (; v != end; ++v, w = BLRC_SKIP(uint32_t, w, 2)) {
        const uint32_t ones = words % 2 != 0 ? last ^ BLRC_NEXT(uint32_t, alone) : 0;

        *v += times * (int32_t)(words == 9 ? blrc_plane_nine(ones, x, w)
                                           : blrc_plane_pairs(ones, (uint32_t)words / 2, x, w));
    }
#else
    uint32_t counts[BLRC_ROWS] = {0, 0, 0, 0};
    int32_t r;

    blrc_dot4_all(x, w, words, counts);
    for (r = 0; r < BLRC_ROWS; ++r) {
        v[r] += times * (int32_t)counts[r];
    }
#endif
}

/* v of the rows of a block in one window, whose planes lie one behind the other. */
static BLRC_APART void blrc_block_of_planes(int32_t planes, int32_t rows, const uint32_t *run, int32_t words,
                                            BLRC_TABLE(uint32_t) w, int32_t *v)
{
    int32_t p;

    v[0] = v[1] = v[2] = v[3] = 0;
    for (p = 0; p < (planes == 0 ? 2 : planes); ++p, run += words) {
        const int32_t times = planes == 0 ? 2 - 3 * p : (int32_t)1 << p;

        if (rows == BLRC_ROWS) {
            blrc_count_block(run, words, w, times, v);
        } else {
            v[0] += times * (int32_t)blrc_dot1(run, w, words);
        }
    }
}

/* The codes of one group of an output pixel, from `count` windows. */
static void blrc_group_of_planes(const blrc_conv *op, int32_t planes, const blrc_level_rule *rule, int32_t g,
                                 const uint32_t *windows, int32_t count, BLRC_TABLE(uint32_t) w, void *y)
{
    const int32_t outputs = op->out_channels / op->groups, first = g * outputs;
    const int32_t words = blrc_words(op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups));
    const int32_t window = (planes == 0 ? 2 : planes) * words, of_plane = blrc_words(op->out_channels);
    int32_t c, i, r;

    for (c = 0; c < outputs; c += op->rows, w = BLRC_SKIP(uint32_t, w, op->rows * words)) {
        int32_t least[BLRC_ROWS], v[BLRC_ROWS];

        blrc_block_of_planes(planes, op->rows, windows, words, w, least);
        for (i = 1; i < count; ++i) {
            blrc_block_of_planes(planes, op->rows, windows + i * window, words, w, v);
            for (r = 0; r < op->rows; ++r) {
                least[r] = v[r] < least[r] ? v[r] : least[r];
            }
        }
        for (r = 0; r < op->rows && c + r < outputs; ++r) {
            const uint32_t code = blrc_code_of(rule, least[r], first + c + r);

            blrc_put_code(rule->bits, of_plane, code, first + c + r, y);
        }
    }
}

void blrc_conv_planes(const blrc_conv *op, int32_t planes, int32_t bits, const uint32_t *x,
                      BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits, BLRC_TABLE(int32_t) scales,
                      uint32_t *scratch, void *y)
{
    const blrc_level_rule rule = {bits, limits, scales};
    const blrc_window *pool = &op->pool;
    const int32_t outputs = op->out_channels / op->groups;
    const int32_t words = blrc_words(op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups));
    const int32_t rows = (outputs + op->rows - 1) / op->rows * op->rows;
    uint8_t *to = (uint8_t *)y;
    int32_t oy, ox, py, px, g, p;

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span down = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ++ox, to += blrc_pixel_bytes(bits, op->out_channels)) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

            if (blrc_zero_if_empty(&down, &across, bits, op->out_channels, to)) {
                continue;
            }
            blrc_clear_pixel(bits, op->out_channels, to);
            for (g = 0; g < op->groups; ++g) {
                uint32_t *run = scratch;
                int32_t count = 0;

                for (py = down.first; py < down.end; ++py) {
                    for (px = across.first; px < across.end; ++px, ++count) {
                        const int32_t my = top + py * pool->dilation_y, mx = left + px * pool->dilation_x;

                        for (p = 0; p < (planes == 0 ? 2 : planes); ++p, run += words) {
                            blrc_collect_plane(op, planes == 0 ? 1 : planes, x, p, g, my, mx, run);
                        }
                    }
                }
                blrc_group_of_planes(op, planes, &rule, g, scratch, count,
                                     BLRC_SKIP(uint32_t, weights, g * rows * words), to);
            }
        }
    }
}
