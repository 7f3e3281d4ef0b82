/* Convolution of 8-bit codes with +-1 weights, for first layers.
 *
 * For every four codes a, b, c, d of a pixel the 16 sums +-a +-b +-c +-d are tabulated once; a row of weights then takes
 * one look-up for four of its bits. Codes of absent taps are 0 and so add nothing, as zero padding wants it. */
#include "blrc_conv_walk.h"

#define BLRC_CODES 32   /* that one word of weights covers */
#define BLRC_NIBBLES 8  /* tables for them */

/* Position of a window: the pixel under its first tap, and the taps inside the map. */
typedef struct blrc_place {
    int32_t top, left;
    blrc_span ky, kx;
} blrc_place;

static inline int8_t blrc_code(const blrc_operands *in, int32_t at, int32_t channel)
{
    if (in->table != 0) {
        const int32_t row = in->table_rows == 1 ? 0 : channel;

        return in->table[row * 256 + (int32_t)((const uint8_t *)in->x)[at]];
    }
    return ((const int8_t *)in->x)[at];
}

/* Codes first <= f < first + BLRC_CODES of group g in the order (ky, kx, channel); 0 outside map and kernel. */
static void blrc_collect(const blrc_conv *op, const blrc_operands *in, const blrc_place *place, int32_t g,
                         int32_t first, int8_t *codes)
{
    const blrc_window *win = &op->window;
    const int32_t channels = op->in_channels / op->groups;
    int32_t c = first % channels;
    int32_t s = first / channels % win->kernel_x;
    int32_t t = first / channels / win->kernel_x;
    int32_t f = 0;

    while (f < BLRC_CODES) {
        const int32_t run = channels - c < BLRC_CODES - f ? channels - c : BLRC_CODES - f;
        const int32_t inside = t >= place->ky.first && t < place->ky.end && s >= place->kx.first && s < place->kx.end;
        int32_t i;

        if (inside) {
            const int32_t row = (place->top + t * win->dilation_y) * op->in_width + place->left + s * win->dilation_x;
            const int32_t channel = g * channels + c;

            for (i = 0; i < run; ++i) {
                codes[f + i] = blrc_code(in, row * op->in_channels + channel + i, channel + i);
            }
        } else {
            for (i = 0; i < run; ++i) {
                codes[f + i] = 0;
            }
        }
        f += run;
        c = 0;
        if (++s == win->kernel_x) {
            s = 0;
            ++t;
        }
    }
}

/* sums[k][bits] = sum over j < 4 of (bit j ? +1 : -1) codes[4 k + j]. Turning bit j on adds twice the code. */
static void blrc_tabulate(const int8_t *codes, int32_t nibbles, int16_t *sums)
{
    int32_t k, j, bits;

    for (k = 0; k < nibbles; ++k, codes += 4, sums += 16) {
        sums[0] = (int16_t)-(codes[0] + codes[1] + codes[2] + codes[3]);
        for (j = 0; j < 4; ++j) {
            for (bits = 0; bits < 1 << j; ++bits) {
                sums[bits + (1 << j)] = (int16_t)(sums[bits] + 2 * codes[j]);
            }
        }
    }
}

static inline int32_t blrc_sum_codes(uint32_t weights, const int16_t *sums, int32_t nibbles)
{
    int32_t z = 0;

    for (; nibbles > 0; --nibbles, sums += 16, weights >>= 4) {
        z += sums[weights & 15u];
    }
    return z;
}

static void blrc_conv_codes_pixel(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t outputs = op->out_channels / op->groups;
    const int32_t fan_in = win->kernel_y * win->kernel_x * (op->in_channels / op->groups);
    const uint32_t *w = in->weights;
    int8_t codes[BLRC_CODES];
    int16_t sums[BLRC_NIBBLES * 16];
    int32_t z[BLRC_CODE_ROWS];
    int32_t g, c, first, r;
    blrc_place place;

    place.top = my * win->stride_y - win->pad_y;
    place.left = mx * win->stride_x - win->pad_x;
    place.ky = blrc_inside(place.top, win->dilation_y, win->kernel_y, op->in_height);
    place.kx = blrc_inside(place.left, win->dilation_x, win->kernel_x, op->in_width);

    for (g = 0; g < op->groups; ++g) {
        const int32_t end = (g + 1) * outputs;

        if (fan_in <= BLRC_CODES) { /* one word a row: one set of tables serves all rows */
            const int32_t nibbles = (fan_in + 3) / 4;

            blrc_collect(op, in, &place, g, 0, codes);
            blrc_tabulate(codes, nibbles, sums);
            for (c = g * outputs; c < end; ++c) {
                const uint32_t bit = blrc_sum_codes(*w++, sums, nibbles) >= in->thresholds[c];

                y[c / 32] |= bit << (c % 32);
            }
            continue;
        }
        for (c = g * outputs; c < end; c += BLRC_CODE_ROWS) { /* a block of rows shares the tables of each word */
            const int32_t rows = end - c < BLRC_CODE_ROWS ? end - c : BLRC_CODE_ROWS;

            for (r = 0; r < rows; ++r) {
                z[r] = 0;
            }
            for (first = 0; first < fan_in; first += BLRC_CODES) {
                blrc_collect(op, in, &place, g, first, codes);
                blrc_tabulate(codes, BLRC_NIBBLES, sums);
                for (r = 0; r < rows; ++r) {
                    z[r] += blrc_sum_codes(*w++, sums, BLRC_NIBBLES);
                }
            }
            for (r = 0; r < rows; ++r) {
                y[(c + r) / 32] |= (uint32_t)(z[r] >= in->thresholds[c + r]) << ((c + r) % 32);
            }
        }
    }
}

void blrc_conv_codes(const blrc_conv *op, const void *x, const int8_t *table, int32_t table_rows,
                     const uint32_t *weights, const int32_t *thresholds, uint32_t *y)
{
    const blrc_operands in = {x, weights, thresholds, table, table_rows};

    blrc_conv_walk(op, &in, blrc_conv_codes_pixel, y);
}
