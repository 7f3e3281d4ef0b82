/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of 8-bit codes with +-1 weights, for first layers.
 *
 * For every four codes a, b, c, d of a pixel the 16 sums +-a +-b +-c +-d are tabulated once; a row of weights then
 * takes one look-up for four of its bits. Codes of absent taps are 0 and so add nothing, as zero padding wants it. */
#include "blrc_conv_walk.h"

/* Position of a window: the pixel under its first tap, and the taps inside the map. */
typedef struct blrc_place {
    int32_t top, left;
    blrc_span ky, kx;
} blrc_place;

/* Codes of `count` elements of the input from `at` on; they are of group g, the first is of its channel c. */
static inline void blrc_read(const blrc_operands *in, int32_t at, int32_t g, int32_t c, int32_t count, int8_t *codes)
{
    int32_t i;

    if (in->table == 0) {
        const int8_t *const x = (const int8_t *)in->x + at;

        for (i = 0; i < count; ++i) {
            codes[i] = x[i];
        }
    } else {
        const uint8_t *const x = (const uint8_t *)in->x + at;

        if (in->table_rows == 1) {
            for (i = 0; i < count; ++i) {
                codes[i] = BLRC_READ(int8_t, in->table, x[i]);
            }
        } else {
            BLRC_TABLE(int8_t) const table = BLRC_SKIP(int8_t, in->table, 256 * g * in->channels);

            for (i = 0; i < count; ++i) {
                codes[i] = BLRC_READ(int8_t, table, 256 * c + x[i]);
                c = c + 1 == in->channels ? 0 : c + 1;
            }
        }
    }
}

/* Codes first <= f < first + count of group g in the order (ky, kx, channel), 0 outside the map; then zeros up to a
 * whole number of nibbles. They are read in runs that lie together in the map: kernel rows, or taps where the kernel
 * is dilated or sees a part of the channels. */
static void blrc_collect(const blrc_conv *op, const blrc_operands *in, const blrc_place *place, int32_t g,
                         int32_t first, int32_t count, int8_t *codes)
{
    const blrc_window *win = &op->window;
    const int32_t run = op->groups == 1 && win->dilation_x == 1 ? place->kx.end - place->kx.first : 1; /* taps */
    int32_t t, s, f;

    for (f = 0; f < (count + 3) / 4 * 4; ++f) {
        codes[f] = 0;
    }
    for (t = place->ky.first; t < place->ky.end; ++t) {
        const int32_t row = (place->top + t * win->dilation_y) * op->in_width + place->left;

        for (s = place->kx.first; s < place->kx.end; s += run) {
            const int32_t start = (t * win->kernel_x + s) * in->channels - first;
            const int32_t end = start + run * in->channels < count ? start + run * in->channels : count;

            f = start < 0 ? 0 : start;
            if (f < end) {
                const int32_t at = (row + s * win->dilation_x) * op->in_channels + g * in->channels + f - start;

                blrc_read(in, at, g, in->table_rows == 1 ? 0 : (first + f) % in->channels, end - f, codes + f);
            }
        }
    }
}

/* sums[k][bits] = sum over j < 4 of (bit j ? +1 : -1) codes[4 k + j], as a sum of two sums of two. */
static void blrc_tabulate_codes(const int8_t *codes, int32_t nibbles, int16_t *sums)
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

/* z[r] += sums of 8 rows, whose nibbles share a word. Eight independent chains, each a shift, a mask and a load. */
static inline void blrc_add_rows(BLRC_TABLE(uint32_t) weights, const int16_t *sums, int32_t nibbles, int32_t *z)
{
    BLRC_TABLE(uint32_t) const end = BLRC_SKIP(uint32_t, weights, nibbles);
    int32_t z0 = z[0], z1 = z[1], z2 = z[2], z3 = z[3], z4 = z[4], z5 = z[5], z6 = z[6], z7 = z[7];

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
    z[0] = z0, z[1] = z1, z[2] = z2, z[3] = z3, z[4] = z4, z[5] = z5, z[6] = z6, z[7] = z7;
}

/* y |= bits of 8 rows from channel c on. Groups need not start at a multiple of 8: the bits may straddle two words. */
static inline void blrc_pass8(const int32_t *z, BLRC_TABLE(blrc_code_threshold) thresholds, int32_t c, uint32_t *y)
{
    const uint32_t b0 = z[0] >= BLRC_READ(blrc_code_threshold, thresholds, 0);
    const uint32_t b1 = z[1] >= BLRC_READ(blrc_code_threshold, thresholds, 1);
    const uint32_t b2 = z[2] >= BLRC_READ(blrc_code_threshold, thresholds, 2);
    const uint32_t b3 = z[3] >= BLRC_READ(blrc_code_threshold, thresholds, 3);
    const uint32_t b4 = z[4] >= BLRC_READ(blrc_code_threshold, thresholds, 4);
    const uint32_t b5 = z[5] >= BLRC_READ(blrc_code_threshold, thresholds, 5);
    const uint32_t b6 = z[6] >= BLRC_READ(blrc_code_threshold, thresholds, 6);
    const uint32_t b7 = z[7] >= BLRC_READ(blrc_code_threshold, thresholds, 7);
    const uint32_t bits = b0 | b1 << 1 | b2 << 2 | b3 << 3 | b4 << 4 | b5 << 5 | b6 << 6 | b7 << 7;

    y[c / 32] |= bits << (c % 32);
    if (c % 32 > 24 && bits >> (32 - c % 32) != 0) {
        y[c / 32 + 1] |= bits >> (32 - c % 32);
    }
}

static void blrc_conv_codes_pixel(const blrc_conv *op, const blrc_operands *in, int32_t my, int32_t mx, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t fan_in = win->kernel_y * win->kernel_x * in->channels;
    BLRC_TABLE(uint32_t) w = in->weights;
    BLRC_TABLE(blrc_code_threshold) thresholds = in->code_thresholds;
    int8_t codes[BLRC_CODES];
    int16_t sums[BLRC_CODES / 4 * 16];
    int32_t z[BLRC_CODE_ROWS];
    int32_t g, c, first, r;
    blrc_place place;

    place.top = my * win->stride_y - win->pad_y;
    place.left = mx * win->stride_x - win->pad_x;
    place.ky = blrc_inside(place.top, win->dilation_y, win->kernel_y, op->in_height);
    place.kx = blrc_inside(place.left, win->dilation_x, win->kernel_x, op->in_width);

    for (g = 0; g < op->groups; ++g) {
        for (c = 0; c < in->outputs; c += BLRC_CODE_ROWS) {
            const int32_t rows = in->outputs - c < BLRC_CODE_ROWS ? in->outputs - c : BLRC_CODE_ROWS;

            for (r = 0; r < BLRC_CODE_ROWS; ++r) {
                z[r] = 0;
            }
            for (first = 0; first < fan_in; first += BLRC_CODES) {
                const int32_t count = fan_in - first < BLRC_CODES ? fan_in - first : BLRC_CODES;
                const int32_t nibbles = (count + 3) / 4;

                /* Where all codes fit, the tables of the first block of rows serve the others too. */
                if (fan_in > BLRC_CODES || c == 0) {
                    blrc_collect(op, in, &place, g, first, count, codes);
                    blrc_tabulate_codes(codes, nibbles, sums);
                }
                for (r = 0; r < rows; r += 8, w = BLRC_SKIP(uint32_t, w, nibbles)) {
                    blrc_add_rows(w, sums, nibbles, z + r);
                }
            }
            for (r = 0; r < rows; r += 8, thresholds = BLRC_SKIP(blrc_code_threshold, thresholds, 8)) {
                blrc_pass8(z + r, thresholds, g * in->outputs + c + r, y);
            }
        }
    }
}

void blrc_conv_codes(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                     BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_code_threshold) thresholds, uint32_t *y)
{
    const blrc_operands in = {x, weights, 0, thresholds, table, table_rows, op->in_channels / op->groups,
                              op->out_channels / op->groups};

    blrc_conv_walk(op, &in, blrc_conv_codes_pixel, y);
}
