/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of codes that are bytes with +-1 weights, to codes.
 *
 * As in conv_codes the 16 sums of every four codes are tabulated and looked up by nibbles of weights. Here the tables of
 * BLRC_CODES codes of a window serve all rows before those of the next codes are made, and sums wait in memory. */
#include "blrc_levels.h"

/* What a layer reads: bytes that a table turns into codes; int8_t where there is no table, and uint8_t where it has no
 * rows. */
typedef struct blrc_byte_input {
    const void *x;
    BLRC_TABLE(int8_t) table;
    int32_t table_rows;
} blrc_byte_input;

static BLRC_INLINE int32_t blrc_byte_code(const blrc_byte_input *in, int32_t at, int32_t channel)
{
    const int32_t raw = ((const uint8_t *)in->x)[at];

    if (in->table_rows == 0) {
        return raw;
    }
    if (in->table == 0) {
        return ((const int8_t *)in->x)[at];
    }
    return BLRC_READ(int8_t, in->table, (in->table_rows == 1 ? 0 : 256 * channel) + raw);
}

/* Codes first <= f < first + count of group g of a window, in the order (ky, kx, channel), 0 outside the map; then zeros
 * up to a whole number of nibbles. */
static void blrc_collect_bytes(const blrc_conv *op, const blrc_byte_input *in, int32_t g, int32_t my, int32_t mx,
                               int32_t first, int32_t count, int16_t *codes)
{
    const blrc_window *win = &op->window;
    const int32_t channels = op->in_channels / op->groups;
    int32_t f = 0, tap = first / channels, c = first % channels;

    for (; f < count; ++tap, c = 0) {
        const int32_t row = my * win->stride_y - win->pad_y + tap / win->kernel_x * win->dilation_y;
        const int32_t column = mx * win->stride_x - win->pad_x + tap % win->kernel_x * win->dilation_x;
        const int32_t real = row >= 0 && row < op->in_height && column >= 0 && column < op->in_width;
        const int32_t at = (row * op->in_width + column) * op->in_channels + g * channels;

        for (; c < channels && f < count; ++c, ++f) {
            codes[f] = (int16_t)(real ? blrc_byte_code(in, at + c, g * channels + c) : 0);
        }
    }
    for (; f % 4 != 0; ++f) {
        codes[f] = 0;
    }
}

/* sums[k][bits] = sum over j < 4 of (bit j ? +1 : -1) codes[4 k + j]. */
static void blrc_tabulate_bytes(const int16_t *codes, int32_t nibbles, int16_t *sums)
{
    int32_t k, i;

    for (k = 0; k < nibbles; ++k, codes += 4, sums += 16) {
        const int32_t a = codes[0], b = codes[1], c = codes[2], d = codes[3];

        for (i = 0; i < 16; i += 4) {
            const int32_t high = (i & 4 ? c : -c) + (i & 8 ? d : -d);

            sums[i] = (int16_t)(high - a - b);
            sums[i + 1] = (int16_t)(high + a - b);
            sums[i + 2] = (int16_t)(high - a + b);
            sums[i + 3] = (int16_t)(high + a + b);
        }
    }
}

/* v[r] -= sums of 8 rows, whose nibbles share a word. */
static BLRC_APART void blrc_subtract_rows(BLRC_TABLE(uint32_t) weights, const int16_t *sums, int32_t nibbles, int32_t *v)
{
    BLRC_TABLE(uint32_t) const end = BLRC_SKIP(uint32_t, weights, nibbles);
    int32_t v0 = v[0], v1 = v[1], v2 = v[2], v3 = v[3], v4 = v[4], v5 = v[5], v6 = v[6], v7 = v[7];

    for (; weights != end; sums += 16) {
        const uint32_t w = BLRC_NEXT(uint32_t, weights);

        v0 -= sums[w & 15u];
        v1 -= sums[(w >> 4) & 15u];
        v2 -= sums[(w >> 8) & 15u];
        v3 -= sums[(w >> 12) & 15u];
        v4 -= sums[(w >> 16) & 15u];
        v5 -= sums[(w >> 20) & 15u];
        v6 -= sums[(w >> 24) & 15u];
        v7 -= sums[w >> 28];
    }
    v[0] = v0, v[1] = v1, v[2] = v2, v[3] = v3, v[4] = v4, v[5] = v5, v[6] = v6, v[7] = v7;
}

/* v of all rows of a group in one window, negative sums. */
static void blrc_window_of_bytes(const blrc_conv *op, const blrc_byte_input *in, int32_t g, int32_t my, int32_t mx,
                                 int32_t rows, BLRC_TABLE(uint32_t) weights, int32_t *v)
{
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    int16_t codes[BLRC_CODES], sums[BLRC_CODES / 4 * 16];
    int32_t first, r;

    for (r = 0; r < rows; ++r) {
        v[r] = 0;
    }
    for (first = 0; first < fan_in; first += BLRC_CODES) {
        const int32_t count = fan_in - first < BLRC_CODES ? fan_in - first : BLRC_CODES;
        const int32_t nibbles = (count + 3) / 4;

        blrc_collect_bytes(op, in, g, my, mx, first, count, codes);
        blrc_tabulate_bytes(codes, nibbles, sums);
        for (r = 0; r < rows; r += 8, weights = BLRC_SKIP(uint32_t, weights, nibbles)) {
            blrc_subtract_rows(weights, sums, nibbles, v + r);
        }
    }
}

void blrc_conv_bytes(const blrc_conv *op, int32_t bits, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                     BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits, uint32_t *scratch, void *y)
{
    const blrc_byte_input in = {x, table, table_rows};
    const blrc_window *pool = &op->pool;
    const int32_t outputs = op->out_channels / op->groups, rows = (outputs + 7) / 8 * 8;
    const int32_t fan_in = op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups);
    const int32_t each = ((int32_t)1 << bits) - 1, of_plane = blrc_words(op->out_channels);
    int32_t *const least = (int32_t *)scratch, *const v = least + rows;
    uint8_t *to = (uint8_t *)y;
    int32_t oy, ox, py, px, g, r;

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span down = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ++ox, to += blrc_pixel_bytes(bits, op->out_channels)) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

            blrc_clear_pixel(bits, op->out_channels, to);
            for (g = 0; g < op->groups; ++g) {
                BLRC_TABLE(uint32_t) const w = BLRC_SKIP(uint32_t, weights, g * (rows / 8) * ((fan_in + 3) / 4));
                BLRC_TABLE(blrc_level_limit) limit = BLRC_SKIP(blrc_level_limit, limits, g * outputs * each);
                int32_t *first = least; /* of the first window; others are compared with it */

                for (py = down.first; py < down.end; ++py) {
                    for (px = across.first; px < across.end; ++px, first = v) {
                        blrc_window_of_bytes(op, &in, g, top + py * pool->dilation_y, left + px * pool->dilation_x,
                                             rows, w, first);
                        for (r = 0; first == v && r < outputs; ++r) {
                            least[r] = v[r] < least[r] ? v[r] : least[r];
                        }
                    }
                }
                for (r = 0; r < outputs; ++r, limit = BLRC_SKIP(blrc_level_limit, limit, each)) {
                    blrc_put_code(bits, of_plane, blrc_code_of(bits, least[r], limit), g * outputs + r, to);
                }
            }
        }
    }
}
