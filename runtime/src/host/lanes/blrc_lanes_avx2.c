/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Bit-sliced convolutions with AVX2. */
#include "blrc_lanes.h"

#if BLRC_X86
#include <immintrin.h>

#define BLRC_V __m256i
#define BLRC_V_BYTES 32
#define BLRC_V_TARGET BLRC_TARGET_AVX2
#define BLRC_V_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define BLRC_V_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define BLRC_V_ZERO _mm256_setzero_si256()
#define BLRC_V_AND _mm256_and_si256
#define BLRC_V_ANDNOT _mm256_andnot_si256
#define BLRC_V_OR _mm256_or_si256
#define BLRC_V_XOR _mm256_xor_si256
#define BLRC_V_NOT(v) _mm256_xor_si256(v, _mm256_set1_epi32(-1))
#define BLRC_V_MORE(v, before) _mm256_or_si256(_mm256_slli_epi64(v, 1), _mm256_srli_epi64(before, 63))
#define BLRC_V_LESS(v, behind) _mm256_or_si256(_mm256_srli_epi64(v, 1), _mm256_slli_epi64(behind, 63))
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

BLRC_TARGET_AVX2 static void blrc_lanes_avx2_inner(const blrc_lanes *in)
{
    blrc_lanes_all(in);
}

void blrc_lanes_avx2(const blrc_lanes *in)
{
    blrc_lanes_avx2_inner(in);
}
#endif
