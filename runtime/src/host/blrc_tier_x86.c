/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Which level of the instruction set this CPU has. */
#include "blrc_tier.h"

/* No level above this one; given to the compiler, it lets tests walk through all. */
#ifndef BLRC_TIER_MOST
#define BLRC_TIER_MOST BLRC_TIER_AVX512
#endif

/* The compiler's support library has asked cpuid, and xgetbv for what the system saves, before main began; this reads
 * what it found. (cpuid itself is slow, in virtual machines a trap.) */
static int32_t blrc_tier_found(void)
{
#if BLRC_X86
    if (!__builtin_cpu_supports("popcnt") || !__builtin_cpu_supports("ssse3") || !__builtin_cpu_supports("sse4.1")) {
        return BLRC_TIER_PORTABLE;
    }
    if (!__builtin_cpu_supports("avx2")) {
        return BLRC_TIER_POPCNT;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vpopcntdq") &&
        __builtin_cpu_supports("avx512vnni")) {
        return BLRC_TIER_AVX512;
    }
    return BLRC_TIER_AVX2;
#else
    return BLRC_TIER_PORTABLE;
#endif
}

int32_t blrc_tier(void)
{
    const int32_t found = blrc_tier_found();

    return found < BLRC_TIER_MOST ? found : BLRC_TIER_MOST;
}
