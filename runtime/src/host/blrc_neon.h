/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Exports for AArch64: the inner loops of binary tiles and of sums of 8-bit products, and which of them a CPU has. */
#ifndef BLRC_NEON_H
#define BLRC_NEON_H

#include "blrc_dots.h"
#include "blrc_tile.h"

/* Levels above BLRC_TIER_PORTABLE. */
#define BLRC_TIER_NEON 1    /* that every AArch64 has */
#define BLRC_TIER_DOTPROD 2 /* with sdot, which Armv8.2 brought: four products of bytes, added to 32 bits */

/* Another compiler, CPU or byte order gets the portable C. */
#if defined(__GNUC__) && defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BLRC_NEON 1
#include <arm_neon.h>
#else
#define BLRC_NEON 0
#endif

/* sdot is either in all that is compiled, or asked for by one function. */
#if BLRC_NEON && defined(__ARM_FEATURE_DOTPROD)
#define BLRC_DOTPROD 1
#define BLRC_TARGET_DOTPROD
#elif BLRC_NEON && defined(__clang__) && __clang_major__ >= 16
#define BLRC_DOTPROD 1
#define BLRC_TARGET_DOTPROD __attribute__((target("dotprod")))
#elif BLRC_NEON && !defined(__clang__) && __GNUC__ >= 8
#define BLRC_DOTPROD 1
#define BLRC_TARGET_DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#else
#define BLRC_DOTPROD 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

void blrc_tile_neon(const blrc_tile *tile);
void blrc_dots_neon(const blrc_dots *in, const blrc_dots_batch *batch);
void blrc_dots_dotprod(const blrc_dots *in, const blrc_dots_batch *batch);
void blrc_sums_neon(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y);

#ifdef __cplusplus
}
#endif

#if BLRC_NEON
/* A bit for each of 16 rows, whose masks of 16 bits are all ones or zeros. The places are those of the rows' bits. */
static inline uint32_t blrc_neon_bits(uint16x8_t some, uint16x8_t places, uint16x8_t others, uint16x8_t their_places)
{
    return vaddvq_u16(vorrq_u16(vandq_u16(some, places), vandq_u16(others, their_places)));
}

/* Masks of 32 bits to masks of 16. */
static inline uint16x8_t blrc_neon_masks(uint32x4_t low, uint32x4_t high)
{
    return vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
}
#endif

#endif
