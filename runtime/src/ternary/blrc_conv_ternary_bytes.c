/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Ternary convolutions of codes that are bytes, to bits or codes.
 *
 * The 27 sums of every three codes are tabulated, and looked up by three weights at a time. Those of two windows are in
 * the halves of a word. The tables of so many codes serve all rows before those of the next codes are made. */
#include "blrc_levels.h"
#include "blrc_threes.h"

/* What a layer reads: bytes that a table turns into codes; int8_t where there is no table, and uint8_t where it has no
 * rows. */
typedef struct blrc_three_input {
    const uint8_t *x;
    BLRC_TABLE(int8_t) table;
    int32_t table_rows;
} blrc_three_input;

static BLRC_INLINE int32_t blrc_three_code(const blrc_three_input *in, int32_t at, int32_t channel)
{
    if (in->table_rows == 0) {
        return in->x[at];
    }
    if (in->table == 0) {
        return (int32_t)(in->x[at] ^ 0x80u) - 0x80; /* int8_t */
    }
    return BLRC_READ(int8_t, in->table, (in->table_rows == 1 ? 0 : 256 * channel) + in->x[at]);
}

/* sums[f] += times codes first <= f < end of group g of a window, in the order (ky, kx, channel); those outside the map
 * are 0. */
static BLRC_APART void blrc_collect_threes(const blrc_conv *op, const blrc_three_input *in, int32_t g, int32_t my,
                                           int32_t mx, int32_t first, int32_t end, uint32_t times, uint32_t *sums)
{
    const blrc_window *win = &op->window;
    const int32_t channels = op->in_channels / op->groups;
    const int32_t top = my * win->stride_y - win->pad_y, left = mx * win->stride_x - win->pad_x;
    int32_t f = first, tap = first / channels, c = first % channels;
    int32_t ky = tap / win->kernel_x, kx = tap % win->kernel_x;

    for (; f < end; c = 0) {
        const int32_t row = top + ky * win->dilation_y, column = left + kx * win->dilation_x;
        const int32_t last = channels - c < end - f ? channels : c + end - f;

        if (row >= 0 && row < op->in_height && column >= 0 && column < op->in_width) {
            const int32_t at = (row * op->in_width + column) * op->in_channels + g * channels;

            for (; c < last; ++c, ++f) {
                /* The caller has set all of them to 0 or to the codes of the other window.
                 * NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign) */
                *sums++ += (uint32_t)blrc_three_code(in, at + c, g * channels + c) * times;
            }
        } else {
            sums += last - c;
            f += last - c;
        }
        ++kx;
        if (kx == win->kernel_x) {
            kx = 0;
            ++ky;
        }
    }
}

static inline void blrc_subtract_pair(uint32_t z, int32_t *v, int32_t *other)
{
    const int32_t low = (int32_t)((z & 0xFFFFu) ^ 0x8000u) - 0x8000;

    *v -= low;
    *other -= (int32_t)(((z - (uint32_t)low) >> 16) ^ 0x8000u) - 0x8000;
}

/* v[r] and other[r] -= the sums of six rows, whose threes share a word, in the two windows. */
static BLRC_APART void blrc_subtract_six(BLRC_TABLE(uint32_t) weights, const uint32_t *sums, int32_t threes, int32_t *v,
                                         int32_t *other)
{
    BLRC_TABLE(uint32_t) const end = BLRC_SKIP(uint32_t, weights, threes);
    uint32_t z0 = 0, z1 = 0, z2 = 0, z3 = 0, z4 = 0, z5 = 0;

    for (; weights != end; sums += BLRC_SUMS_OF_THREE) {
        const uint32_t w = BLRC_NEXT(uint32_t, weights);

        z0 += sums[w & 31u];
        z1 += sums[(w >> 5) & 31u];
        z2 += sums[(w >> 10) & 31u];
        z3 += sums[(w >> 15) & 31u];
        z4 += sums[(w >> 20) & 31u];
        z5 += sums[(w >> 25) & 31u];
    }
    blrc_subtract_pair(z0, v, other);
    blrc_subtract_pair(z1, v + 1, other + 1);
    blrc_subtract_pair(z2, v + 2, other + 2);
    blrc_subtract_pair(z3, v + 3, other + 3);
    blrc_subtract_pair(z4, v + 4, other + 4);
    blrc_subtract_pair(z5, v + 5, other + 5);
}

/* v of all rows of a group, negative sums, of the windows at two map pixels, one behind the other; of one where both
 * are the same. */
static void blrc_windows_of_threes(const blrc_conv *op, const blrc_three_input *in, int32_t g, const int32_t *my,
                                   const int32_t *mx, int32_t rows, BLRC_TABLE(uint32_t) weights, int32_t *v)
{
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    uint32_t sums[BLRC_THREES * BLRC_SUMS_OF_THREE];
    int32_t first, r;

    for (r = 0; r < 2 * rows; ++r) {
        v[r] = 0;
    }
    for (first = 0; first < fan_in; first += 3 * BLRC_THREES) {
        const int32_t end = fan_in - first < 3 * BLRC_THREES ? fan_in : first + 3 * BLRC_THREES;
        const int32_t threes = (end - first + 2) / 3;

        for (r = 0; r < 3 * threes; ++r) {
            sums[r] = 0;
        }
        blrc_collect_threes(op, in, g, my[0], mx[0], first, end, 1, sums);
        if (my[0] != my[1] || mx[0] != mx[1]) {
            blrc_collect_threes(op, in, g, my[1], mx[1], first, end, 65536, sums);
        }
        blrc_tabulate_threes(threes, sums);
        for (r = 0; r < rows; r += BLRC_ROWS_OF_THREES, weights = BLRC_SKIP(uint32_t, weights, threes)) {
            blrc_subtract_six(weights, sums, threes, v + r, v + rows + r);
        }
    }
}

void blrc_conv_ternary_bytes(const blrc_conv *op, int32_t bits, const void *x, BLRC_TABLE(int8_t) table,
                             int32_t table_rows, BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits,
                             BLRC_TABLE(int32_t) scales, uint32_t *scratch, void *y)
{
    const blrc_level_rule rule = {bits, limits, scales};
    const blrc_three_input in = {(const uint8_t *)x, table, table_rows};
    const blrc_window *pool = &op->pool;
    const int32_t outputs = op->out_channels / op->groups;
    const int32_t rows = (outputs + BLRC_ROWS_OF_THREES - 1) / BLRC_ROWS_OF_THREES * BLRC_ROWS_OF_THREES;
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    const int32_t of_plane = blrc_words(op->out_channels), bytes = blrc_pixel_bytes(bits, op->out_channels);
    int32_t *const v = (int32_t *)scratch, *const least = v + 2 * rows;
    uint8_t *to = (uint8_t *)y;
    int32_t oy, ox, py, px, g, r, pixels, i, my[2], mx[2];

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span down = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ox += pixels, to += pixels * bytes) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);
            const int32_t count = (down.end - down.first) * (across.end - across.first);

            /* Without pooling, the two windows are those of two pixels of the output. */
            pixels = pool->kernel_y == 1 && pool->kernel_x == 1 && ox + 1 < op->out_width ? 2 : 1;
            if (blrc_zero_if_empty(&down, &across, bits, op->out_channels, to)) {
                continue;
            }
            for (i = 0; i < pixels; ++i) {
                blrc_clear_pixel(bits, op->out_channels, to + i * bytes);
            }
            for (g = 0; g < op->groups; ++g) {
                BLRC_TABLE(uint32_t) const w =
                    BLRC_SKIP(uint32_t, weights, g * (rows / BLRC_ROWS_OF_THREES) * ((fan_in + 2) / 3));
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
                        if (waiting == 1) { /* the last of an odd number, or that of the next pixel */
                            my[1] = my[0];
                            mx[1] = mx[0] + (pixels - 1) * pool->stride_x;
                        }
                        blrc_windows_of_threes(op, &in, g, my, mx, rows, w, v);
                        for (r = 0; count > 1 && r < outputs; ++r) {
                            const int32_t less = waiting == 2 && v[rows + r] < v[r] ? v[rows + r] : v[r];

                            least[r] = done > 2 && least[r] < less ? least[r] : less;
                        }
                        waiting = 0;
                    }
                }
                for (i = 0; i < pixels; ++i) {
                    const int32_t *const found = count > 1 ? least : v + i * rows;

                    for (r = 0; r < outputs; ++r) {
                        const int32_t c = g * outputs + r;

                        blrc_put_code(bits, of_plane, blrc_code_of(&rule, found[r], c), c, to + i * bytes);
                    }
                }
            }
        }
    }
}
