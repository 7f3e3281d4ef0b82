/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of bits in planes: a number is spread over words, one for each of its bits, and so are 32 numbers over the lanes
 * of these words. Nothing is ever counted.
 *
 * A step is one word or four. The including file defines BLRC_STEP (how many), the type blrc_step, BLRC_GET(p) and
 * BLRC_PUT(p, v), BLRC_FULL(low, a, b) (see blrc_add3), BLRC_ALL(v) (v in every word) and BLRC_ANY(v, planes) (whether
 * a carry has to be followed through so many more planes). */
#ifndef BLRC_PLANES_H
#define BLRC_PLANES_H

#include "blrc_carry.h"

#define BLRC_LOW_PLANES 4 /* that are kept in registers: ones, twos, fours, eights */

/* Planes += carry. No sum needs more of them than there are, so that no carry goes further. */
static BLRC_APART void blrc_carry_on(uint32_t *plane, blrc_step carry, int32_t planes)
{
    for (; BLRC_ANY(carry, planes); --planes, plane += BLRC_STEP) {
        blrc_step low = BLRC_GET(plane);
        const blrc_step both = low & carry;

        low ^= carry;
        BLRC_PUT(plane, low);
        carry = both;
    }
}

/* ones, twos and fours += the eight steps tap(0) to tap(7); what is left is worth eight. */
#define BLRC_ADD_EIGHT(eight, tap) \
    { \
        blrc_step two, two1, four; \
\
        two = tap(0); \
        two = BLRC_FULL(&ones, two, tap(1)); \
        two1 = tap(2); \
        two1 = BLRC_FULL(&ones, two1, tap(3)); \
        four = BLRC_FULL(&twos, two, two1); \
        two = tap(4); \
        two = BLRC_FULL(&ones, two, tap(5)); \
        two1 = tap(6); \
        two1 = BLRC_FULL(&ones, two1, tap(7)); \
        two = BLRC_FULL(&twos, two, two1); \
        (eight) = BLRC_FULL(&fours, four, two); \
    }

#endif
