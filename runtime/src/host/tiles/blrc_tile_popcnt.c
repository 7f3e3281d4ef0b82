/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary tiles with the popcnt instruction: eight rows at a time; look-ups where there is a table for
 * them. */
#include "blrc_tile_plain.h"

#if BLRC_X86
#include <string.h>
#include <tmmintrin.h>

/* How many bits of i and j differ. */
static const uint8_t blrc_differing[16][16] = {
    {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4}, {1, 0, 2, 1, 2, 1, 3, 2, 2, 1, 3, 2, 3, 2, 4, 3},
    {1, 2, 0, 1, 2, 3, 1, 2, 2, 3, 1, 2, 3, 4, 2, 3}, {2, 1, 1, 0, 3, 2, 2, 1, 3, 2, 2, 1, 4, 3, 3, 2},
    {1, 2, 2, 3, 0, 1, 1, 2, 2, 3, 3, 4, 1, 2, 2, 3}, {2, 1, 3, 2, 1, 0, 2, 1, 3, 2, 4, 3, 2, 1, 3, 2},
    {2, 3, 1, 2, 1, 2, 0, 1, 3, 4, 2, 3, 2, 3, 1, 2}, {3, 2, 2, 1, 2, 1, 1, 0, 4, 3, 3, 2, 3, 2, 2, 1},
    {1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3}, {2, 1, 3, 2, 3, 2, 4, 3, 1, 0, 2, 1, 2, 1, 3, 2},
    {2, 3, 1, 2, 3, 4, 2, 3, 1, 2, 0, 1, 2, 3, 1, 2}, {3, 2, 2, 1, 4, 3, 3, 2, 2, 1, 1, 0, 3, 2, 2, 1},
    {2, 3, 3, 4, 1, 2, 2, 3, 1, 2, 2, 3, 0, 1, 1, 2}, {3, 2, 4, 3, 2, 1, 3, 2, 2, 1, 3, 2, 1, 0, 2, 1},
    {3, 4, 2, 3, 2, 3, 1, 2, 2, 3, 1, 2, 1, 2, 0, 1}, {4, 3, 3, 2, 3, 2, 2, 1, 3, 2, 2, 1, 2, 1, 1, 0}};

#define BLRC_V __m128i
#define BLRC_V_ROWS 16
#define BLRC_V_TARGET BLRC_TARGET_POPCNT
#define BLRC_V_TABLE(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define BLRC_V_LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define BLRC_V_STORE(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
#define BLRC_V_ADD8 _mm_add_epi8
#define BLRC_V_ADD16 _mm_add_epi16
#define BLRC_V_AND _mm_and_si128
#define BLRC_V_SHUFFLE _mm_shuffle_epi8
#define BLRC_V_GREATER16 _mm_cmpgt_epi16
#define BLRC_V_PACK16 _mm_packs_epi16
#define BLRC_V_PACK32 _mm_packs_epi32
#define BLRC_V_LOW _mm_unpacklo_epi8
#define BLRC_V_HIGH _mm_unpackhi_epi8
#define BLRC_V_SHIFT4(v) _mm_srli_epi16(v, 4)
#define BLRC_V_ZERO _mm_setzero_si128()
#define BLRC_V_NIBBLE _mm_set1_epi8(15)
#define BLRC_V_MASK _mm_movemask_epi8
#define BLRC_V_PREPARE(to, p) \
    (memcpy(to, blrc_differing[*(p) & 15], 16), memcpy((to) + 16, blrc_differing[*(p) >> 4], 16))
#define BLRC_V_LIMITS(p) _mm_loadu_si128((const __m128i *)(const void *)(p))

#include "blrc_tile_lookup.h"

#define BLRC_TILE_POPCOUNT(v) __builtin_popcountll(v)

BLRC_TARGET_POPCNT static void blrc_tile_popcnt_one(const blrc_tile *tile, int32_t p)
{
    BLRC_TILE_PLAIN(tile, p)
}

BLRC_TARGET_POPCNT static void blrc_tile_popcnt_lookup(const blrc_tile *tile)
{
    blrc_look_tile(tile);
}

void blrc_tile_popcnt(const blrc_tile *tile)
{
    int32_t p;

    if (tile->bytes != 0 && tile->pixels == BLRC_TILE_PIXELS) {
        blrc_tile_popcnt_lookup(tile);
        return;
    }
    for (p = 0; p < tile->pixels; ++p) {
        blrc_tile_popcnt_one(tile, p);
    }
}
#else
void blrc_tile_popcnt(const blrc_tile *tile)
{
    blrc_tile_portable(tile);
}
#endif
