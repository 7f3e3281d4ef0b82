/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Scores by a ternary last layer, of +-1 or of codes. */
#include "blrc_ternary.h"

/* Word i of a pixel that lies in planes. */
static BLRC_INLINE uint32_t blrc_plane_word(const void *pixel, int32_t i)
{
    return ((const uint32_t *)pixel)[i];
}

void blrc_scores_ternary(int32_t pixels, int32_t channels, int32_t classes, int32_t bits, const void *x,
                         BLRC_TABLE(uint32_t) weights, BLRC_TABLE(int32_t) multiplier, BLRC_TABLE(int32_t) bias,
                         int32_t *y)
{
    const int32_t words = blrc_words(channels), of_bits = bits == 0 ? 1 : bits;
    const int32_t planes = bits > BLRC_MOST_PLANES ? 0 : of_bits;
    const int32_t of_pixel = planes == 0 ? channels : 4 * planes * words;
    int32_t k, i, j, p, c;

    for (k = 0; k < classes; ++k) {
        const uint8_t *pixel = (const uint8_t *)x;
        int32_t z = 0;

        for (i = 0; i < pixels; ++i, pixel += of_pixel, weights = BLRC_SKIP(uint32_t, weights, 2 * words)) {
            for (j = 0; j < words; ++j) {
                uint32_t s = BLRC_READ(uint32_t, weights, j), r = BLRC_READ(uint32_t, weights, words + j);

                for (p = 0; p < planes; ++p) {
                    const uint32_t word = blrc_plane_word(pixel, p * words + j);
                    const int32_t differ = (int32_t)blrc_popcount((word ^ s) & r);

                    z += bits == 0 ? (int32_t)blrc_popcount(r) - 2 * differ
                                   : ((int32_t)blrc_popcount(s) - differ) * ((int32_t)1 << p);
                }
                for (c = 32 * j; planes == 0 && c < channels && c < 32 * j + 32; ++c, s >>= 1, r >>= 1) {
                    if ((r & 1u) != 0) {
                        z += (s & 1u) != 0 ? (int32_t)pixel[c] : -(int32_t)pixel[c];
                    }
                }
            }
        }
        y[k] = BLRC_READ(int32_t, multiplier, k) * z + BLRC_READ(int32_t, bias, k);
    }
}
