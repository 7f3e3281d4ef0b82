/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of 8-bit products with SSSE3 and SSE4.1. */
#include "blrc_dots.h"

#if BLRC_X86
#include <smmintrin.h>

#define BLRC_V __m128i
#define BLRC_V_LANES 4
#define BLRC_V_TARGET BLRC_TARGET_POPCNT
#define BLRC_V_LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define BLRC_V_ZERO _mm_setzero_si128()
#define BLRC_V_QUAD _mm_set1_epi32
#define BLRC_V_PAIRS _mm_maddubs_epi16
#define BLRC_V_WIDE(v) _mm_madd_epi16(v, _mm_set1_epi16(1))
#define BLRC_V_ADD16 _mm_add_epi16
#define BLRC_V_ADD32 _mm_add_epi32
#define BLRC_V_MAX32 _mm_max_epi32
#define BLRC_V_GREATER32 _mm_cmpgt_epi32
#define BLRC_V_SIGNS(v) _mm_movemask_ps(_mm_castsi128_ps(v))
#define BLRC_V_SUM blrc_sum_of
#define BLRC_V_CHOSEN blrc_chosen

BLRC_TARGET_POPCNT static inline int32_t blrc_sum_of(__m128i v)
{
    const __m128i sum = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));

    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

BLRC_TARGET_POPCNT static inline __m128i blrc_chosen(uint32_t word, int32_t part, __m128i v)
{
    const __m128i each = _mm_set1_epi64x((int64_t)0x8040201008040201u);
    const __m128i spread = _mm_set_epi64x(0x0101010101010101, 0);
    const __m128i bytes = _mm_shuffle_epi8(_mm_set1_epi32((int32_t)(word >> (16 * part))), spread);

    return _mm_and_si128(v, _mm_cmpeq_epi8(_mm_and_si128(bytes, each), each));
}

#include "blrc_dots_pairs.h"

BLRC_TARGET_POPCNT static void blrc_dots_popcnt_inner(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_batched(in, batch);
}

BLRC_TARGET_POPCNT static void blrc_sums_popcnt_inner(int32_t words, int32_t classes, const uint32_t *x,
                                                  const int8_t *weights, int32_t *y)
{
    blrc_sums(words, classes, x, weights, y);
}

void blrc_dots_popcnt(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_popcnt_inner(in, batch);
}

void blrc_sums_popcnt(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    blrc_sums_popcnt_inner(words, classes, x, weights, y);
}
#else
void blrc_dots_popcnt(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_portable(in, batch);
}

void blrc_sums_popcnt(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    blrc_sums_portable(words, classes, x, weights, y);
}
#endif
