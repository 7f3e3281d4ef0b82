/* Convolution of 8-bit codes with +-1 weights, for first layers whose sums are small: two pixels of a row at once, in
 * the halves of a word.
 *
 * As in conv_codes the 16 sums of every four codes are tabulated once and looked up by nibbles of weights, but a code
 * is that of the one pixel plus 65536 times that of the other. A row's sum starts at 32768 - threshold in both halves,
 * so that at the end it lies between 0 and 65535 in each, nothing was borrowed between them, and the half's highest bit
 * says whether it passes. */
#include "blrc_window.h"

typedef struct blrc_pair_input {
    const void *x;
    BLRC_TABLE(int8_t) table; /* null where x holds codes */
    int32_t row;              /* elements of the table for each channel; 0 where all channels share it */
    int32_t fan_in;
} blrc_pair_input;

static inline uint32_t blrc_code(const blrc_pair_input *in, int32_t at, int32_t channel)
{
    if (in->table == 0) {
        return (uint32_t)((const int8_t *)in->x)[at];
    }
    return (uint32_t)BLRC_READ(int8_t, in->table, in->row * channel + ((const uint8_t *)in->x)[at]);
}

/* Codes of a kernel row that lies inside the map under both windows: `count` from x on, and from x + other on. */
static void blrc_inner_codes(BLRC_TABLE(int8_t) table, const uint8_t *x, int32_t other, int32_t count, uint32_t *to)
{
    const uint32_t *const end = to + count;

    for (; to != end; ++to, ++x) {
        const int8_t first = BLRC_READ(int8_t, table, *x), second = BLRC_READ(int8_t, table, x[other]);

        *to = (uint32_t)first + ((uint32_t)second << 16);
    }
}

/* The same anywhere: a code outside the map is 0. Windows start at `column` and so many columns further on. */
static void blrc_outer_codes(const blrc_conv *op, const blrc_pair_input *in, int32_t row, int32_t column,
                             int32_t further, uint32_t *to)
{
    const int32_t channels = op->in_channels;
    int32_t s, c;

    for (s = 0; s < op->window.kernel_x; ++s, column += op->window.dilation_x) {
        const int32_t other = column + further;

        for (c = 0; c < channels; ++c, ++to) {
            *to = 0;
            if (column >= 0 && column < op->in_width) {
                *to = blrc_code(in, (row + column) * channels + c, c);
            }
            if (other >= 0 && other < op->in_width) {
                *to += blrc_code(in, (row + other) * channels + c, c) << 16;
            }
        }
    }
}

/* The codes under the windows of two map pixels (my, mx[0]) and (my, mx[1]); zeros up to a whole number of nibbles. */
static void blrc_collect_pairs(const blrc_conv *op, const blrc_pair_input *in, int32_t my, const int32_t *mx,
                               uint32_t *to)
{
    const blrc_window *win = &op->window;
    const int32_t line = win->kernel_x * op->in_channels;
    const int32_t column = mx[0] * win->stride_x - win->pad_x, further = (mx[1] - mx[0]) * win->stride_x;
    const int32_t inner = in->table != 0 && in->row == 0 && win->dilation_x == 1 && column >= 0 && further >= 0 &&
                          column + further + win->kernel_x <= op->in_width;
    int32_t y = my * win->stride_y - win->pad_y;
    int32_t t, i;

    for (t = 0; t < win->kernel_y; ++t, y += win->dilation_y, to += line) {
        const int32_t row = y * op->in_width;

        if (y < 0 || y >= op->in_height) {
            for (i = 0; i < line; ++i) {
                to[i] = 0;
            }
        } else if (inner) {
            const uint8_t *const x = (const uint8_t *)in->x + (row + column) * op->in_channels;

            blrc_inner_codes(in->table, x, further * op->in_channels, line, to);
        } else {
            blrc_outer_codes(op, in, row, column, further, to);
        }
    }
    for (i = in->fan_in; i % 4 != 0; ++i) {
        *to++ = 0;
    }
}

static inline void blrc_four_sums(uint32_t *sums, uint32_t high, uint32_t both, uint32_t other)
{
    sums[0] = high - both;
    sums[1] = high + other;
    sums[2] = high - other;
    sums[3] = high + both;
}

/* sums[16 k + bits] = sum over j < 4 of (bit j ? +1 : -1) sums[4 k + j]: from the last nibble on, so that no code is
 * overwritten before it is read. */
static void blrc_tabulate_pairs(int32_t nibbles, uint32_t *sums)
{
    while (--nibbles >= 0) {
        const uint32_t *const codes = sums + 4 * nibbles;
        const uint32_t both = codes[0] + codes[1], other = codes[0] - codes[1];
        const uint32_t high = codes[2] + codes[3], differ = codes[2] - codes[3];
        uint32_t *const to = sums + 16 * nibbles;

        blrc_four_sums(to, 0 - high, both, other);
        blrc_four_sums(to + 4, differ, both, other);
        blrc_four_sums(to + 8, 0 - differ, both, other);
        blrc_four_sums(to + 12, high, both, other);
    }
}

/* Bits of 8 rows, whose nibbles share a word: from bit 8 on those of one pixel, from bit 24 on those of the other. */
static uint32_t blrc_eight_rows(BLRC_TABLE(uint32_t) weights, int32_t nibbles, const uint32_t *sums,
                                BLRC_TABLE(uint32_t) starts)
{
    BLRC_TABLE(uint32_t) const end = BLRC_SKIP(uint32_t, weights, nibbles);
    uint32_t z0 = BLRC_READ(uint32_t, starts, 0), z1 = BLRC_READ(uint32_t, starts, 1);
    uint32_t z2 = BLRC_READ(uint32_t, starts, 2), z3 = BLRC_READ(uint32_t, starts, 3);
    uint32_t z4 = BLRC_READ(uint32_t, starts, 4), z5 = BLRC_READ(uint32_t, starts, 5);
    uint32_t z6 = BLRC_READ(uint32_t, starts, 6), z7 = BLRC_READ(uint32_t, starts, 7);

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
    z0 = (z0 & 0x80008000u) >> 1 | (z1 & 0x80008000u);
    z0 = z0 >> 1 | (z2 & 0x80008000u);
    z0 = z0 >> 1 | (z3 & 0x80008000u);
    z0 = z0 >> 1 | (z4 & 0x80008000u);
    z0 = z0 >> 1 | (z5 & 0x80008000u);
    z0 = z0 >> 1 | (z6 & 0x80008000u);
    return z0 >> 1 | (z7 & 0x80008000u);
}

/* OR the bits of two map pixels of row my into y[0] and y[1]. */
static void blrc_two_pixels(const blrc_conv *op, const blrc_pair_input *in, int32_t my, const int32_t *mx,
                            uint32_t *const *y, BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts)
{
    const int32_t nibbles = (in->fan_in + 3) / 4;
    uint32_t sums[BLRC_CODES / 4 * 16];
    int32_t c;

    blrc_collect_pairs(op, in, my, mx, sums);
    blrc_tabulate_pairs(nibbles, sums);
    for (c = 0; c < op->out_channels; c += 8) {
        const uint32_t bits = blrc_eight_rows(weights, nibbles, sums, BLRC_SKIP(uint32_t, starts, c));

        y[0][c / 32] |= ((bits >> 8) & 0xFFu) << (c % 32);
        y[1][c / 32] |= (bits >> 24) << (c % 32);
        weights = BLRC_SKIP(uint32_t, weights, nibbles);
    }
}

void blrc_conv_pairs(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                     BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts, uint32_t *y)
{
    const blrc_window *pool = &op->pool;
    const blrc_pair_input in = {x, table, table_rows == 1 ? 0 : 256,
                                op->window.kernel_y * op->window.kernel_x * op->in_channels};
    const int32_t words = blrc_words(op->out_channels);
    int32_t oy, ox, py, px, i;

    for (oy = 0; oy < op->out_height; ++oy, y += op->out_width * words) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span vertical = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (i = 0; i < op->out_width * words; ++i) {
            y[i] = 0;
        }
        for (py = vertical.first; py < vertical.end; ++py) {
            uint32_t *to[2];
            int32_t mx[2], waiting = 0;

            /* Pixels in the order in which the row's windows see them, two and two. */
            for (ox = 0; ox < op->out_width; ++ox) {
                const int32_t left = ox * pool->stride_x - pool->pad_x;
                const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

                for (px = across.first; px < across.end; ++px) {
                    mx[waiting] = left + px * pool->dilation_x;
                    to[waiting] = y + ox * words;
                    waiting ^= 1;
                    if (waiting == 0) {
                        blrc_two_pixels(op, &in, top + py * pool->dilation_y, mx, to, weights, starts);
                    }
                }
            }
            if (waiting != 0) { /* the last of an odd number, twice */
                mx[1] = mx[0];
                to[1] = to[0];
                blrc_two_pixels(op, &in, top + py * pool->dilation_y, mx, to, weights, starts);
            }
        }
    }
}
