/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of 8-bit products in portable C. */
#include "blrc_dots.h"

/* Numbers of four pixels in one: 16 bits each, the first lowest. */
#define BLRC_FOUR(v) ((uint64_t)(v) * 0x0001000100010001u)
#define BLRC_FOUR_QUADS 16 /* that fit 15 bits: at most 4 * 510 each */

/* The code of each pixel at `at`; 0 where there is no weight for it. */
static inline uint64_t blrc_four_codes(const uint8_t *const *x, int32_t at, int8_t weight)
{
    return weight == 0 ? 0
                       : (uint64_t)x[0][at] | (uint64_t)x[1][at] << 16 | (uint64_t)x[2][at] << 32 |
                             (uint64_t)x[3][at] << 48;
}

/* sums[bits] = 1020 + sum over j < 4 of (bit j ? -1 : 1) code j, of the quad at `at` and weights like those at w. All
 * rows but missing ones lack the same weights. */
static inline void blrc_four_sums(const uint8_t *const *x, int32_t at, const int8_t *w, uint64_t *sums)
{
    const uint64_t a = blrc_four_codes(x, at, w[0]), b = blrc_four_codes(x, at + 1, w[1]);
    const uint64_t c = blrc_four_codes(x, at + 2, w[2]), d = blrc_four_codes(x, at + 3, w[3]);
    const uint64_t most = BLRC_FOUR(510);
    const uint64_t low[4] = {most + a + b, most - a + b, most + a - b, most - a - b};
    const uint64_t high[4] = {most + c + d, most - c + d, most + c - d, most - c - d};
    int32_t i;

    for (i = 0; i < 16; ++i) {
        sums[i] = high[i / 4] + low[i % 4];
    }
}

/* The signs of the 4 weights at w, the first lowest. (Compilers read the four at once.) */
static inline uint32_t blrc_quad_signs(const int8_t *w)
{
    const uint32_t four = (uint32_t)(uint8_t)w[0] | (uint32_t)(uint8_t)w[1] << 8 | (uint32_t)(uint8_t)w[2] << 16 |
                          (uint32_t)(uint8_t)w[3] << 24;

    return ((four & 0x80808080u) >> 7) * 0x10204080u >> 28;
}

/* sums[row] = 1020 for each quad + the sums over quads first <= q < end. Missing rows get some sum, too. */
static inline void blrc_four_rows(const blrc_dots *in, int32_t first, int32_t end, const uint8_t *const *x,
                                  const int8_t *w, uint64_t *sums)
{
    uint64_t of_four[16];
    int32_t q, row;

    for (row = 0; row < BLRC_DOTS_ROWS; ++row) {
        sums[row] = 0;
    }
    for (q = first; q < end; ++q) {
        blrc_four_sums(x, in->offsets[q], w, of_four);
        for (row = 0; row < BLRC_DOTS_ROWS; ++row, w += 4) {
            sums[row] += of_four[blrc_quad_signs(w)];
        }
    }
}

/* One block of four pixels, all of whose quads fit 15 bits: the 16th says whether a row passes. */
static void blrc_dots_block(const blrc_dots *in, int32_t block, const uint8_t *const *x, uint32_t *bits)
{
    const int8_t *const w = in->weights + 4 * BLRC_DOTS_ROWS * in->quads * block;
    const int32_t *const thresholds = in->thresholds + BLRC_DOTS_ROWS * block;
    const int32_t least = -1020 * in->quads;
    uint64_t sums[BLRC_DOTS_ROWS], half[2] = {0, 0};
    int32_t row, p;

    blrc_four_rows(in, 0, in->quads, x, w, sums);
    for (row = 0; row < BLRC_DOTS_ROWS; ++row) {
        const int32_t threshold = thresholds[row] > 32767 + least ? 32768 : thresholds[row] - least;
        const uint64_t passes = sums[row] + BLRC_FOUR(32768 - (threshold < 0 ? 0 : threshold));

        half[row / 16] |= (passes >> 15 & BLRC_FOUR(1)) << row % 16;
    }
    for (p = 0; p < BLRC_DOTS_PIXELS; ++p) {
        bits[p] = (uint32_t)(half[0] >> (16 * p) & 0xFFFFu) | (uint32_t)(half[1] >> (16 * p) & 0xFFFFu) << 16;
    }
}

/* One block of four pixels, however many quads there are. */
static void blrc_dots_wide(const blrc_dots *in, int32_t block, const uint8_t *const *x, uint32_t *bits)
{
    const int8_t *const w = in->weights + 4 * BLRC_DOTS_ROWS * in->quads * block;
    const int32_t *const thresholds = in->thresholds + BLRC_DOTS_ROWS * block;
    int32_t z[BLRC_DOTS_PIXELS][BLRC_DOTS_ROWS];
    uint64_t sums[BLRC_DOTS_ROWS];
    int32_t first, p, row;

    memset(z, 0, sizeof z);
    for (first = 0; first < in->quads; first += BLRC_FOUR_QUADS) {
        const int32_t end = in->quads - first < BLRC_FOUR_QUADS ? in->quads : first + BLRC_FOUR_QUADS;

        blrc_four_rows(in, first, end, x, w + 4 * BLRC_DOTS_ROWS * first, sums);
        for (p = 0; p < BLRC_DOTS_PIXELS; ++p) {
            for (row = 0; row < BLRC_DOTS_ROWS; ++row) {
                z[p][row] += (int32_t)(sums[row] >> (16 * p) & 0xFFFFu) - 1020 * (end - first);
            }
        }
    }
    for (p = 0; p < BLRC_DOTS_PIXELS; ++p) {
        bits[p] = 0;
        for (row = 0; row < BLRC_DOTS_ROWS; ++row) {
            bits[p] |= (uint32_t)(z[p][row] >= thresholds[row]) << row;
        }
    }
}

static void blrc_dots_four(const blrc_dots *in, int32_t block, const uint8_t *const *x, uint32_t *bits)
{
    if (in->quads <= BLRC_FOUR_QUADS) {
        blrc_dots_block(in, block, x, bits);
    } else {
        blrc_dots_wide(in, block, x, bits);
    }
}

void blrc_dots_portable(const blrc_dots *in, const blrc_dots_batch *batch)
{
    uint32_t bits[BLRC_DOTS_PIXELS];
    int32_t p, block;

    for (block = 0; block < in->blocks; ++block) {
        if (batch->count == 1) {
            const uint8_t *const x[BLRC_DOTS_PIXELS] = {batch->x[0], batch->x[0], batch->x[0], batch->x[0]};

            blrc_dots_four(in, block, x, bits);
            batch->y[0][block] |= bits[0];
        }
        for (p = 0; p + BLRC_DOTS_PIXELS <= batch->count; p += BLRC_DOTS_PIXELS) {
            blrc_dots_four(in, block, batch->x + p, bits);
            if (batch->together) {
                batch->y[p][block] |= bits[0] | bits[1] | bits[2] | bits[3];
            } else {
                batch->y[p][block] |= bits[0];
                batch->y[p + 1][block] |= bits[1];
                batch->y[p + 2][block] |= bits[2];
                batch->y[p + 3][block] |= bits[3];
            }
        }
    }
}

void blrc_sums_portable(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    int32_t k, i, bit;

    for (k = 0; k < classes; ++k) {
        int32_t sum = 0;

        for (i = 0; i < words; ++i, weights += 32) {
            const uint32_t word = x[i];

            for (bit = 0; bit < 32; ++bit) {
                sum += weights[bit] & -(int32_t)(word >> bit & 1u);
            }
        }
        y[k] = sum;
    }
}
