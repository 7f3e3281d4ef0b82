/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary tiles with AVX2. */
#include "blrc_tile.h"

#if BLRC_X86
#include <immintrin.h>

/* How many ones each nibble has. */
#define BLRC_AVX2_ONES \
    _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4)

#define BLRC_V __m256i
#define BLRC_V_ROWS 32
#define BLRC_V_TARGET BLRC_TARGET_AVX2
#define BLRC_V_TABLE(p) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define BLRC_V_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define BLRC_V_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define BLRC_V_ADD8 _mm256_add_epi8
#define BLRC_V_ADD16 _mm256_add_epi16
#define BLRC_V_AND _mm256_and_si256
#define BLRC_V_SHUFFLE _mm256_shuffle_epi8
#define BLRC_V_GREATER16 _mm256_cmpgt_epi16
#define BLRC_V_PACK16 _mm256_packs_epi16
#define BLRC_V_PACK32 _mm256_packs_epi32
#define BLRC_V_LOW _mm256_unpacklo_epi8
#define BLRC_V_HIGH _mm256_unpackhi_epi8
#define BLRC_V_SHIFT4(v) _mm256_srli_epi16(v, 4)
#define BLRC_V_ZERO _mm256_setzero_si256()
#define BLRC_V_NIBBLE _mm256_set1_epi8(15)
#define BLRC_V_MASK _mm256_movemask_epi8
/* The low half of the vector compares the byte's low nibble with 0 to 15, the high half the other. */
#define BLRC_AVX2_NIBBLES _mm256_set_m128i(_mm_set1_epi8((char)0xF0), _mm_set1_epi8(15))
#define BLRC_AVX2_EACH \
    _mm256_setr_epi64x(0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x7060504030201000, (int64_t)0xF0E0D0C0B0A09080u)
#define BLRC_V_PREPARE(to, p) \
    BLRC_V_STORE(to, \
                 _mm256_shuffle_epi8( \
                     BLRC_AVX2_ONES, \
                     _mm256_srlv_epi64( \
                         _mm256_xor_si256(_mm256_and_si256(_mm256_set1_epi8((char)*(p)), BLRC_AVX2_NIBBLES), \
                                          BLRC_AVX2_EACH), \
                         _mm256_setr_epi64x(0, 0, 4, 4))))
#define BLRC_V_LIMITS(p) \
    _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(p))), \
                            _mm_loadu_si128((const __m128i *)(const void *)((p) + 16)), 1)

#include "blrc_tile_lookup.h"

#define BLRC_AVX2_FLUSH 31 /* units whose bytes' sums, at most 8 each, stay below 256 */

/* One pixel: the ones of each nibble are looked up; a vector holds the units of 4 rows, the even ones of 8 or the odd.
 * For dense layers, for what is left of a map, and where no table of bytes was made. */
#define BLRC_NIBBLES(k) \
    { \
        const __m256i d = _mm256_xor_si256(v, _mm256_loadu_si256((const __m256i *)(const void *)(w + 8 * k))); \
        const __m256i low = _mm256_shuffle_epi8(ones, _mm256_and_si256(d, fifteen)); \
        const __m256i high = _mm256_shuffle_epi8(ones, _mm256_and_si256(_mm256_srli_epi16(d, 4), fifteen)); \
\
        b##k = _mm256_add_epi8(b##k, _mm256_add_epi8(low, high)); \
    }

#define BLRC_FLUSH(k) s##k = _mm256_add_epi64(s##k, _mm256_sad_epu8(b##k, zero)), b##k = zero

/* Bits of 8 rows from `at` on: sum > limit. */
#define BLRC_EIGHT(even, odd, at) \
    ((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32( \
         _mm256_or_si256(even, _mm256_slli_epi64(odd, 32)), BLRC_V_LOAD(limit + at)))) \
     << at)

BLRC_TARGET_AVX2 static void blrc_tile_avx2_nibbles(const blrc_tile *tile, int32_t p)
{
    const __m256i ones = BLRC_AVX2_ONES;
    const __m256i fifteen = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    const uint32_t *w = tile->weights;
    int32_t block, i;

    for (block = 0; block < tile->blocks; ++block) {
        const int32_t *const limit = tile->limit[p] + BLRC_TILE_ROWS * block;
        __m256i s0 = zero, s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero, s7 = zero;

        for (i = 0; i < tile->units;) {
            const int32_t end = tile->units - i < BLRC_AVX2_FLUSH ? tile->units : i + BLRC_AVX2_FLUSH;
            __m256i b0 = zero, b1 = zero, b2 = zero, b3 = zero, b4 = zero, b5 = zero, b6 = zero, b7 = zero;

            for (; i < end; ++i, w += 64) {
                const __m256i v = _mm256_set1_epi64x((int64_t)blrc_unit_at(tile->run[p] + 2 * i));

                BLRC_NIBBLES(0)
                BLRC_NIBBLES(1)
                BLRC_NIBBLES(2)
                BLRC_NIBBLES(3)
                BLRC_NIBBLES(4)
                BLRC_NIBBLES(5)
                BLRC_NIBBLES(6)
                BLRC_NIBBLES(7)
            }
            BLRC_FLUSH(0);
            BLRC_FLUSH(1);
            BLRC_FLUSH(2);
            BLRC_FLUSH(3);
            BLRC_FLUSH(4);
            BLRC_FLUSH(5);
            BLRC_FLUSH(6);
            BLRC_FLUSH(7);
        }
        tile->y[p][block] |=
            ~(BLRC_EIGHT(s0, s2, 0) | BLRC_EIGHT(s1, s3, 8) | BLRC_EIGHT(s4, s6, 16) | BLRC_EIGHT(s5, s7, 24));
    }
}

BLRC_TARGET_AVX2 static void blrc_tile_avx2_lookup(const blrc_tile *tile)
{
    blrc_look_tile(tile);
}

void blrc_tile_avx2(const blrc_tile *tile)
{
    int32_t p;

    if (tile->bytes != 0 && tile->pixels == BLRC_TILE_PIXELS) {
        blrc_tile_avx2_lookup(tile);
        return;
    }
    for (p = 0; p < tile->pixels; ++p) {
        blrc_tile_avx2_nibbles(tile, p);
    }
}
#else
void blrc_tile_avx2(const blrc_tile *tile)
{
    blrc_tile_portable(tile);
}
#endif
