/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of 8-bit products with AVX2. */
#include "blrc_dots.h"

#if BLRC_X86
#include <immintrin.h>

#define BLRC_V __m256i
#define BLRC_V_LANES 8
#define BLRC_V_TARGET BLRC_TARGET_AVX2
#define BLRC_V_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define BLRC_V_ZERO _mm256_setzero_si256()
#define BLRC_V_QUAD _mm256_set1_epi32
#define BLRC_V_PAIRS _mm256_maddubs_epi16
#define BLRC_V_WIDE(v) _mm256_madd_epi16(v, _mm256_set1_epi16(1))
#define BLRC_V_ADD16 _mm256_add_epi16
#define BLRC_V_ADD32 _mm256_add_epi32
#define BLRC_V_MAX32 _mm256_max_epi32
#define BLRC_V_GREATER32 _mm256_cmpgt_epi32
#define BLRC_V_SIGNS(v) _mm256_movemask_ps(_mm256_castsi256_ps(v))
#define BLRC_V_SUM blrc_sum_of
#define BLRC_V_CHOSEN blrc_chosen

BLRC_TARGET_AVX2 static inline int32_t blrc_sum_of(__m256i v)
{
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

BLRC_TARGET_AVX2 static inline __m256i blrc_chosen(uint32_t word, int32_t part, __m256i v)
{
    const __m256i each = _mm256_set1_epi64x((int64_t)0x8040201008040201u);
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)word), spread);

    (void)part;
    return _mm256_and_si256(v, _mm256_cmpeq_epi8(_mm256_and_si256(bytes, each), each));
}

#include "blrc_dots_pairs.h"

BLRC_TARGET_AVX2 static void blrc_dots_avx2_inner(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_batched(in, batch);
}

BLRC_TARGET_AVX2 static void blrc_sums_avx2_inner(int32_t words, int32_t classes, const uint32_t *x,
                                                  const int8_t *weights, int32_t *y)
{
    blrc_sums(words, classes, x, weights, y);
}

void blrc_dots_avx2(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_avx2_inner(in, batch);
}

void blrc_sums_avx2(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    blrc_sums_avx2_inner(words, classes, x, weights, y);
}
#else
void blrc_dots_avx2(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_portable(in, batch);
}

void blrc_sums_avx2(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    blrc_sums_portable(words, classes, x, weights, y);
}
#endif
