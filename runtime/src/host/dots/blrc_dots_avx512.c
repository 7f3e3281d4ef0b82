/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of 8-bit products with AVX-512 VNNI: a lane is a row, and each instruction adds four products to its sum. */
#include "blrc_dots.h"

#if BLRC_X86
#include <immintrin.h>

#define BLRC_LOAD(at) _mm512_loadu_si512((const void *)(at))

#define BLRC_DOTS_DECLARE(p) \
    const uint8_t *const x##p = x[p]; \
    __m512i a##p##0 = zero, a##p##1 = zero;

#define BLRC_DOTS_QUAD(p) \
    { \
        const __m512i v = _mm512_set1_epi32(blrc_quad_at(x##p + at)); \
\
        a##p##0 = _mm512_dpbusd_epi32(a##p##0, v, w0); \
        a##p##1 = _mm512_dpbusd_epi32(a##p##1, v, w1); \
    }

#define BLRC_DOTS_BITS(low, high) \
    ((uint32_t)_mm512_cmpge_epi32_mask(low, BLRC_LOAD(thresholds)) | \
     (uint32_t)_mm512_cmpge_epi32_mask(high, BLRC_LOAD(thresholds + 16)) << 16)

#define BLRC_MAX(a, b) _mm512_maskz_max_epi32(0xFFFF, a, b)
#define BLRC_DOTS_MAX(half) BLRC_MAX(BLRC_MAX(a0##half, a1##half), BLRC_MAX(a2##half, a3##half))

BLRC_TARGET_AVX512 static void blrc_dots_avx512_4(const blrc_dots *in, int32_t together, const uint8_t *const *x,
                                                  uint32_t *const *y)
{
    const __m512i zero = _mm512_setzero_si512();
    const int32_t *thresholds = in->thresholds;
    const int8_t *w = in->weights;
    int32_t block, q;

    for (block = 0; block < in->blocks; ++block, thresholds += BLRC_DOTS_ROWS) {
        BLRC_DOTS_DECLARE(0)
        BLRC_DOTS_DECLARE(1)
        BLRC_DOTS_DECLARE(2)
        BLRC_DOTS_DECLARE(3)

        for (q = 0; q < in->quads; ++q, w += 4 * BLRC_DOTS_ROWS) {
            const int32_t at = in->offsets[q];
            const __m512i w0 = BLRC_LOAD(w), w1 = BLRC_LOAD(w + 64);

            BLRC_DOTS_QUAD(0)
            BLRC_DOTS_QUAD(1)
            BLRC_DOTS_QUAD(2)
            BLRC_DOTS_QUAD(3)
        }
        if (together) {
            y[0][block] |= BLRC_DOTS_BITS(BLRC_DOTS_MAX(0), BLRC_DOTS_MAX(1));
        } else {
            y[0][block] |= BLRC_DOTS_BITS(a00, a01);
            y[1][block] |= BLRC_DOTS_BITS(a10, a11);
            y[2][block] |= BLRC_DOTS_BITS(a20, a21);
            y[3][block] |= BLRC_DOTS_BITS(a30, a31);
        }
    }
}

BLRC_TARGET_AVX512 static void blrc_dots_avx512_1(const blrc_dots *in, const uint8_t *const *x, uint32_t *const *y)
{
    const __m512i zero = _mm512_setzero_si512();
    const int32_t *thresholds = in->thresholds;
    const int8_t *w = in->weights;
    int32_t block, q;

    for (block = 0; block < in->blocks; ++block, thresholds += BLRC_DOTS_ROWS) {
        BLRC_DOTS_DECLARE(0)

        for (q = 0; q < in->quads; ++q, w += 4 * BLRC_DOTS_ROWS) {
            const int32_t at = in->offsets[q];
            const __m512i w0 = BLRC_LOAD(w), w1 = BLRC_LOAD(w + 64);

            BLRC_DOTS_QUAD(0)
        }
        y[0][block] |= BLRC_DOTS_BITS(a00, a01);
    }
}

void blrc_dots_avx512(const blrc_dots *in, const blrc_dots_batch *batch)
{
    int32_t p;

    if (batch->count == 1) {
        blrc_dots_avx512_1(in, batch->x, batch->y);
    }
    for (p = 0; p + BLRC_DOTS_PIXELS <= batch->count; p += BLRC_DOTS_PIXELS) {
        blrc_dots_avx512_4(in, batch->together, batch->x + p, batch->y + p);
    }
}

BLRC_TARGET_AVX512 static void blrc_sums_avx512_inner(int32_t words, int32_t classes, const uint32_t *x,
                                                      const int8_t *weights, int32_t *y)
{
    const __m256i ones = _mm256_set1_epi8(1);
    int32_t k, i;

    for (k = 0; k < classes; ++k) {
        __m256i sums = _mm256_setzero_si256();
        __m128i sum;

        for (i = 0; i < words; ++i, weights += 32) {
            const __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)weights);

            sums = _mm256_dpbusd_epi32(sums, ones, _mm256_maskz_mov_epi8(x[i], w));
        }
        sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
        y[k] = _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
    }
}

void blrc_sums_avx512(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    blrc_sums_avx512_inner(words, classes, x, weights, y);
}
#else
void blrc_dots_avx512(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_portable(in, batch);
}

void blrc_sums_avx512(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    blrc_sums_portable(words, classes, x, weights, y);
}
#endif
