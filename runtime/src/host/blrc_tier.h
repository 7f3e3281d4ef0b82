/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Kernels of exports for hosts: each layer has one function and, for every level of the instruction set that pays, an
 * inner loop in a file of its own. Which one runs is decided when it runs. */
#ifndef BLRC_TIER_H
#define BLRC_TIER_H

#include "blrc.h"

/* Levels of the instruction set. Each CPU that has one has those before it. */
#define BLRC_TIER_PORTABLE 0 /* C without anything special */
#define BLRC_TIER_POPCNT 1   /* x86-64-v2: popcnt, SSSE3, SSE4.1 */
#define BLRC_TIER_AVX2 2
#define BLRC_TIER_AVX512 3 /* F, BW, DQ, VL, VPOPCNTDQ, VNNI */
#define BLRC_TIERS 4

/* Another compiler or CPU gets the portable C. */
#if defined(__GNUC__) && defined(__x86_64__)
#define BLRC_X86 1
#define BLRC_TARGET_POPCNT __attribute__((target("popcnt,ssse3,sse4.1")))
#define BLRC_TARGET_AVX2 __attribute__((target("avx2,popcnt")))
#define BLRC_TARGET_AVX512 \
    __attribute__((target("avx2,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni")))
#else
#define BLRC_X86 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The best level that this CPU and its system offer. */
int32_t blrc_tier(void);

#ifdef __cplusplus
}
#endif

#endif
