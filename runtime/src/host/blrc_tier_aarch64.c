/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Which level of the instruction set this CPU has. */
#include "blrc_neon.h"

#if BLRC_DOTPROD && !defined(__ARM_FEATURE_DOTPROD) && defined(__linux__)
#include <sys/auxv.h>
#define BLRC_ASKS 1
#else
#define BLRC_ASKS 0
#endif

/* No level above this one; given to the compiler, it lets tests walk through all. */
#ifndef BLRC_TIER_MOST
#define BLRC_TIER_MOST BLRC_TIER_DOTPROD
#endif

/* Linux has told the program what the CPU has when it began, and the C library keeps that. Elsewhere it is the compiler
 * that knows: Apple's assumes sdot where all CPUs have it. */
static int32_t blrc_tier_found(void)
{
#if BLRC_ASKS
    return (getauxval(AT_HWCAP) & 1ul << 20) != 0 ? BLRC_TIER_DOTPROD : BLRC_TIER_NEON; /* HWCAP_ASIMDDP */
#elif BLRC_DOTPROD && defined(__ARM_FEATURE_DOTPROD)
    return BLRC_TIER_DOTPROD;
#elif BLRC_NEON
    return BLRC_TIER_NEON;
#else
    return BLRC_TIER_PORTABLE;
#endif
}

int32_t blrc_tier(void)
{
    const int32_t found = blrc_tier_found();

    return found < BLRC_TIER_MOST ? found : BLRC_TIER_MOST;
}
