/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Bit-sliced convolutions with SSSE3. */
#include "blrc_lanes.h"

#if BLRC_X86
#include <tmmintrin.h>

#define BLRC_V __m128i
#define BLRC_V_BYTES 16
#define BLRC_V_TARGET BLRC_TARGET_POPCNT
#define BLRC_V_LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define BLRC_V_STORE(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
#define BLRC_V_ZERO _mm_setzero_si128()
#define BLRC_V_AND _mm_and_si128
#define BLRC_V_ANDNOT _mm_andnot_si128
#define BLRC_V_OR _mm_or_si128
#define BLRC_V_XOR _mm_xor_si128
#define BLRC_V_NOT(v) _mm_xor_si128(v, _mm_set1_epi32(-1))
#define BLRC_V_MORE(v, before) _mm_or_si128(_mm_slli_epi64(v, 1), _mm_srli_epi64(before, 63))
#define BLRC_V_LESS(v, behind) _mm_or_si128(_mm_srli_epi64(v, 1), _mm_slli_epi64(behind, 63))
/* Not all of them need be computed apart: the carry shares x ^ y. */
#define BLRC_V_FULL(s, c, x, y, z) \
    { \
        const BLRC_V blrc_z = z, blrc_x = x, blrc_y = y; \
        const BLRC_V blrc_differ = BLRC_V_XOR(blrc_x, blrc_y); \
\
        c = BLRC_V_OR(BLRC_V_AND(blrc_x, blrc_y), BLRC_V_AND(blrc_differ, blrc_z)); \
        s = BLRC_V_XOR(blrc_differ, blrc_z); \
    }

#include "blrc_lanes_bytes.h"
#include "blrc_lanes_vector.h"

BLRC_TARGET_POPCNT static void blrc_lanes_popcnt_inner(const blrc_lanes *in)
{
    blrc_lanes_all(in);
}

void blrc_lanes_popcnt(const blrc_lanes *in)
{
    blrc_lanes_popcnt_inner(in);
}
#endif
