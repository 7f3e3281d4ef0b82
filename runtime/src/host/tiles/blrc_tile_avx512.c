/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary tiles with AVX-512: a lane is one row's 64 bits, even and odd rows in turns. Up to 6 pixels share the weights
 * of 32 rows in registers; no sum runs across lanes, and the comparison's mask is the packed result. */
#include "blrc_tile.h"

#if BLRC_X86
#include <immintrin.h>

#define BLRC_COUNT(a, v, w) a = _mm512_add_epi64(a, _mm512_popcnt_epi64(_mm512_xor_si512(v, w)))

#define BLRC_DECLARE(p) \
    __m512i a##p##0 = zero, a##p##1 = zero, a##p##2 = zero, a##p##3 = zero; \
    const uint32_t *x##p = tile->run[first + p];

#define BLRC_UNIT(p) \
    { \
        const __m512i v = _mm512_set1_epi64((int64_t)blrc_unit_at(x##p)); \
        x##p += 2; \
        BLRC_COUNT(a##p##0, v, w0); \
        BLRC_COUNT(a##p##1, v, w1); \
        BLRC_COUNT(a##p##2, v, w2); \
        BLRC_COUNT(a##p##3, v, w3); \
    }

/* Bits of 16 rows from `at` on, whose even and odd ones are counted in two vectors. */
#define BLRC_BITS(even, odd, at) \
    _mm512_cmple_epi32_mask(_mm512_or_si512(even, _mm512_maskz_slli_epi64(0xFF, odd, 32)), \
                            _mm512_loadu_si512((const void *)(limit + at)))

#define BLRC_DECIDE(p) \
    { \
        const int32_t *const limit = tile->limit[first + p] + BLRC_TILE_ROWS * block; \
\
        tile->y[first + p][block] |= \
            _mm512_kunpackw(BLRC_BITS(a##p##2, a##p##3, 16), BLRC_BITS(a##p##0, a##p##1, 0)); \
    }

#define BLRC_PIXELS_1(each) each(0)
#define BLRC_PIXELS_2(each) BLRC_PIXELS_1(each) each(1)
#define BLRC_PIXELS_3(each) BLRC_PIXELS_2(each) each(2)
#define BLRC_PIXELS_4(each) BLRC_PIXELS_3(each) each(3)
#define BLRC_PIXELS_5(each) BLRC_PIXELS_4(each) each(4)
#define BLRC_PIXELS_6(each) BLRC_PIXELS_5(each) each(5)

#define BLRC_LOAD(at) _mm512_loadu_si512((const void *)(at))

#define BLRC_TILE_OF(pixels) \
    BLRC_TARGET_AVX512 static void blrc_tile_avx512_##pixels(const blrc_tile *tile, int32_t first) \
    { \
        const __m512i zero = _mm512_setzero_si512(); \
        const uint32_t *w = tile->weights; \
        int32_t block, i; \
\
        for (block = 0; block < tile->blocks; ++block) { \
            BLRC_PIXELS_##pixels(BLRC_DECLARE) \
            for (i = 0; i < tile->units; ++i, w += 64) { \
                const __m512i w0 = BLRC_LOAD(w), w1 = BLRC_LOAD(w + 16); \
                const __m512i w2 = BLRC_LOAD(w + 32), w3 = BLRC_LOAD(w + 48); \
\
                BLRC_PIXELS_##pixels(BLRC_UNIT) \
            } \
            BLRC_PIXELS_##pixels(BLRC_DECIDE) \
        } \
    }

BLRC_TILE_OF(1)
BLRC_TILE_OF(2)
BLRC_TILE_OF(3)
BLRC_TILE_OF(4)
BLRC_TILE_OF(5)
BLRC_TILE_OF(6)

void blrc_tile_avx512(const blrc_tile *tile)
{
    switch (tile->pixels) {
    case 1:
        blrc_tile_avx512_1(tile, 0);
        break;
    case 2:
        blrc_tile_avx512_2(tile, 0);
        break;
    case 3:
        blrc_tile_avx512_3(tile, 0);
        break;
    case 4:
        blrc_tile_avx512_4(tile, 0);
        break;
    case 5:
        blrc_tile_avx512_5(tile, 0);
        break;
    default:
        blrc_tile_avx512_6(tile, 0);
        break;
    }
}
#else
void blrc_tile_avx512(const blrc_tile *tile)
{
    blrc_tile_portable(tile);
}
#endif
