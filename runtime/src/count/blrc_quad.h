/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Four words as one value, where the compiler has vectors. */
#ifndef BLRC_QUAD_H
#define BLRC_QUAD_H

#include "blrc_carry.h"

/* 1: the CPU has them too (Helium, NEON, SIMD of WebAssembly, RISC-V's V), so that kernels count in them. */
#ifndef BLRC_VECTOR
#if !defined(__GNUC__) /* others know the intrinsics, but not their types' operators */
#define BLRC_VECTOR 0
#elif (defined(__ARM_FEATURE_MVE) || defined(__ARM_NEON)) && !defined(__ARM_BIG_ENDIAN) /* gcc has no Helium there */
#define BLRC_VECTOR 1
#elif defined(__wasm_simd128__)
#define BLRC_VECTOR 1
#elif defined(__riscv_v) && defined(__clang__)
#define BLRC_VECTOR 1
#else
#define BLRC_VECTOR 0
#endif
#endif

/* Kernels that are made of quads (BLRC_ALL_QUADS) have them on other CPUs too. */
#if BLRC_VECTOR || (defined(BLRC_ALL_QUADS) && defined(__GNUC__))

#if BLRC_VECTOR && defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

typedef uint32x4_t blrc_quad;

static BLRC_INLINE blrc_quad blrc_quad_get(const uint32_t *from)
{
    return vld1q_u32(from);
}

static BLRC_INLINE void blrc_quad_put(uint32_t *to, blrc_quad v)
{
    vst1q_u32(to, v);
}

static BLRC_INLINE blrc_quad blrc_quad_of(uint32_t v)
{
    return vdupq_n_u32(v);
}

#else
#if BLRC_VECTOR && defined(__ARM_NEON)
#include <arm_neon.h>

typedef uint32x4_t blrc_quad;
#else
typedef uint32_t blrc_quad __attribute__((vector_size(16)));
#endif

static BLRC_INLINE blrc_quad blrc_quad_get(const uint32_t *from)
{
    blrc_quad v;

    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

static BLRC_INLINE void blrc_quad_put(uint32_t *to, blrc_quad v)
{
    __builtin_memcpy(to, &v, sizeof v);
}

/* A word in all places. */
static BLRC_INLINE blrc_quad blrc_quad_of(uint32_t v)
{
    const blrc_quad all = {v, v, v, v};

    return all;
}

#endif

/* low + a + b: see blrc_add3. */
static BLRC_INLINE blrc_quad blrc_quad_add3(blrc_quad *low, blrc_quad a, blrc_quad b)
{
    const blrc_quad u = *low ^ a, carry = (*low & a) | (u & b);

    *low = u ^ b;
    return carry;
}

#endif

#endif
