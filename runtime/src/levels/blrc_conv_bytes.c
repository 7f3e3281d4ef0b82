/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of codes that are bytes with +-1 weights, to codes.
 *
 * As in conv_codes the 16 sums of every four codes are tabulated and looked up by nibbles of weights, and as in
 * conv_pairs those of two windows are in the halves of a word: a sum of BLRC_CODES codes fits. The tables of so many
 * codes serve all rows before those of the next codes are made, and sums wait in memory. */
#include "blrc_levels.h"
#include "blrc_pairs.h"

/* What a layer reads: bytes that a table turns into codes; int8_t where there is no table, and uint8_t where it has no
 * rows. */
typedef struct blrc_byte_input {
    const void *x;
    BLRC_TABLE(int8_t) table;
    int32_t table_rows;
} blrc_byte_input;

static BLRC_INLINE int32_t blrc_byte_code(const blrc_byte_input *in, const uint8_t *x, int32_t channel)
{
    if (in->table == 0) {
        return (int32_t)(*x ^ 0x80u) - 0x80; /* int8_t */
    }
    return BLRC_READ(int8_t, in->table, (in->table_rows == 1 ? 0 : 256 * channel) + *x);
}

/* sums[f] += times codes first <= f < first + count of group g of a window, in the order (ky, kx, channel); those outside
 * the map are 0. They are read in runs that lie together in the map: kernel rows, or taps where the kernel is dilated or
 * sees a part of the channels. */
static BLRC_APART void blrc_collect_bytes(const blrc_conv *op, const blrc_byte_input *in, int32_t g, int32_t my,
                                          int32_t mx, int32_t first, int32_t count, uint32_t times, uint32_t *sums)
{
    const blrc_window *win = &op->window;
    const int32_t channels = op->in_channels / op->groups;
    const int32_t taps = op->groups == 1 && win->dilation_x == 1 ? win->kernel_x : 1, run = taps * channels;
    int32_t f = 0, tap = first / run * taps, from = first % run;

    for (; f < count; tap += taps, from = 0) {
        const int32_t row = my * win->stride_y - win->pad_y + tap / win->kernel_x * win->dilation_y;
        const int32_t column = mx * win->stride_x - win->pad_x + tap % win->kernel_x * win->dilation_x;
        const int32_t end = run - from < count - f ? run : from + count - f;
        const int32_t last = (op->in_width - column) * channels < end ? (op->in_width - column) * channels : end;
        const int32_t start = -column * channels > from ? -column * channels : from;

        if (row >= 0 && row < op->in_height && start < last) {
            const int32_t at = (row * op->in_width + column) * op->in_channels + g * channels + start;
            const uint8_t *x = (const uint8_t *)in->x + at;
            uint32_t *to = sums + f + start - from, *const stop = sums + f + last - from;
            int32_t c = start % channels;

            if (in->table_rows == 0) {
                for (; to != stop; ++to) {
                    *to += *x++ * times;
                }
            } else {
                for (; to != stop; ++to) {
                    *to += (uint32_t)blrc_byte_code(in, x++, g * channels + c) * times;
                    c = c + 1 == channels ? 0 : c + 1;
                }
            }
        }
        f += end - from;
    }
}

/* sums[16 k + bits] = sum over j < 4 of (bit j ? +1 : -1) sums[4 k + j]: from the last nibble on, so that no code is
 * overwritten before it is read. */
static void blrc_tabulate_bytes(int32_t nibbles, uint32_t *sums)
{
    while (--nibbles >= 0) {
        const uint32_t *const codes = sums + 4 * nibbles;

        blrc_tabulate_four(codes[0], codes[1], codes[2], codes[3], sums + 16 * nibbles);
    }
}

static inline void blrc_subtract_halves(uint32_t z, int32_t *v, int32_t *other)
{
    const int32_t low = (int32_t)((z & 0xFFFFu) ^ 0x8000u) - 0x8000;

    *v -= low;
    *other -= (int32_t)(((z - (uint32_t)low) >> 16) ^ 0x8000u) - 0x8000;
}

/* v[r] and other[r] -= the sums of 8 rows, whose nibbles share a word, in the two windows. */
static BLRC_APART void blrc_subtract_rows(BLRC_TABLE(uint32_t) weights, const uint32_t *sums, int32_t nibbles, int32_t *v,
                                          int32_t *other)
{
    BLRC_TABLE(uint32_t) const end = BLRC_SKIP(uint32_t, weights, nibbles);
    uint32_t z0 = 0, z1 = 0, z2 = 0, z3 = 0, z4 = 0, z5 = 0, z6 = 0, z7 = 0;

    for (; weights != end; sums += 16) {
        const uint32_t w = BLRC_NEXT(uint32_t, weights);

        z0 += sums[w & 15u];
        z1 += sums[(w >> 4) & 15u];
        z2 += sums[(w >> 8) & 15u];
        z3 += sums[(w >> 12) & 15u];
        z4 += sums[(w >> 16) & 15u];
        z5 += sums[(w >> 20) & 15u];
        z6 += sums[(w >> 24) & 15u];
        z7 += sums[w >> 28];
    }
    blrc_subtract_halves(z0, v, other);
    blrc_subtract_halves(z1, v + 1, other + 1);
    blrc_subtract_halves(z2, v + 2, other + 2);
    blrc_subtract_halves(z3, v + 3, other + 3);
    blrc_subtract_halves(z4, v + 4, other + 4);
    blrc_subtract_halves(z5, v + 5, other + 5);
    blrc_subtract_halves(z6, v + 6, other + 6);
    blrc_subtract_halves(z7, v + 7, other + 7);
}

/* v of all rows of a group, negative sums, of the windows at two map pixels, one behind the other; of one where my or mx
 * repeat. */
static void blrc_windows_of_bytes(const blrc_conv *op, const blrc_byte_input *in, int32_t g, const int32_t *my,
                                  const int32_t *mx, int32_t rows, BLRC_TABLE(uint32_t) weights, int32_t *v)
{
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    uint32_t sums[BLRC_CODES / 4 * 16];
    int32_t first, r;

    for (r = 0; r < 2 * rows; ++r) {
        v[r] = 0;
    }
    for (first = 0; first < fan_in; first += BLRC_CODES) {
        const int32_t count = fan_in - first < BLRC_CODES ? fan_in - first : BLRC_CODES;
        const int32_t nibbles = (count + 3) / 4;

        for (r = 0; r < 4 * nibbles; ++r) {
            sums[r] = 0;
        }
        blrc_collect_bytes(op, in, g, my[0], mx[0], first, count, 1, sums);
        if (my[0] != my[1] || mx[0] != mx[1]) {
            blrc_collect_bytes(op, in, g, my[1], mx[1], first, count, 65536, sums);
        }
        blrc_tabulate_bytes(nibbles, sums);
        for (r = 0; r < rows; r += 8, weights = BLRC_SKIP(uint32_t, weights, nibbles)) {
            blrc_subtract_rows(weights, sums, nibbles, v + r, v + rows + r);
        }
    }
}

void blrc_conv_bytes(const blrc_conv *op, int32_t bits, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                     BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits, BLRC_TABLE(int32_t) scales,
                      uint32_t *scratch, void *y)
{
    const blrc_level_rule rule = {bits, limits, scales};
    const blrc_byte_input in = {x, table, table_rows};
    const blrc_window *pool = &op->pool;
    const int32_t outputs = op->out_channels / op->groups, rows = (outputs + 7) / 8 * 8;
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    const int32_t of_plane = blrc_words(op->out_channels);
    int32_t *const v = (int32_t *)scratch, *const least = v + 2 * rows;
    uint8_t *to = (uint8_t *)y;
    int32_t oy, ox, py, px, g, r, my[2], mx[2];

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span down = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ++ox, to += blrc_pixel_bytes(bits, op->out_channels)) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

            blrc_clear_pixel(bits, op->out_channels, to);
            for (g = 0; g < op->groups; ++g) {
                BLRC_TABLE(uint32_t) const w = BLRC_SKIP(uint32_t, weights, g * (rows / 8) * ((fan_in + 3) / 4));
                const int32_t count = (down.end - down.first) * (across.end - across.first);
                int32_t waiting = 0, done = 0;

                for (py = down.first; py < down.end; ++py) {
                    for (px = across.first; px < across.end; ++px) {
                        my[waiting] = top + py * pool->dilation_y;
                        mx[waiting] = left + px * pool->dilation_x;
                        ++waiting;
                        ++done;
                        if (waiting == 1 && done < count) {
                            continue;
                        }
                        if (waiting == 1) { /* the last of an odd number */
                            my[1] = my[0];
                            mx[1] = mx[0];
                        }
                        blrc_windows_of_bytes(op, &in, g, my, mx, rows, w, v);
                        for (r = 0; count > 1 && r < outputs; ++r) {
                            const int32_t less = waiting == 2 && v[rows + r] < v[r] ? v[rows + r] : v[r];

                            least[r] = done > 2 && least[r] < less ? least[r] : less;
                        }
                        waiting = 0;
                    }
                }
                for (r = 0; r < outputs; ++r) {
                    const uint32_t code = blrc_code_of(&rule, count > 1 ? least[r] : v[r], g * outputs + r);

                    blrc_put_code(bits, of_plane, code, g * outputs + r, to);
                }
            }
        }
    }
}
