/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Dense layers on bits whose lanes are outputs (blrc_planes.h): a table has, for every input, its column of the
 * weights, a bit for each output. Only columns of inputs that are +1 are added up, or of those that are -1 where they
 * are fewer.
 *
 * With a inputs that are +1, W ones among an output's weights, and S1 and S0 of them where inputs are +1 or -1, the
 * bits that differ are
 *
 *   a + W - 2 S1  =  a - W + 2 S0,
 *
 * and an output passes where no more than L = (n - t) / 2, rounded down, differ: where
 *
 *   (L - W) - a + 2 S1 >= 0,  or  (L + W) - a - 2 S0 >= 0.
 *
 * What is in brackets is known; the sign of the rest decides, in planes. */
#ifndef BLRC_COLUMNS_H
#define BLRC_COLUMNS_H

#include "blrc_planes.h"
#include "blrc_window.h"

/* How many inputs are +1. */
static uint32_t blrc_set(int32_t inputs, const uint32_t *x)
{
    uint32_t found = 0;

    for (; inputs > 0; inputs -= 32) {
        found += blrc_of_all(blrc_of_eight(blrc_of_four(*x++)));
    }
    return found;
}

/* CPUs that find the lowest bit of a word in an instruction or two. */
#if defined(__GNUC__) && (defined(__ARM_FEATURE_CLZ) || defined(__riscv_zbb))
#define BLRC_LOWEST(bits) ((uint32_t)__builtin_ctz(bits))
#endif

/* Which inputs differ from `flip` (all ones or 0), in order. A place more may be written than they take. */
static BLRC_APART void blrc_list(int32_t inputs, const uint32_t *x, uint32_t flip, uint32_t *list)
{
    uint32_t i = 0;

    for (; inputs > 0; inputs -= 32, i += 32) {
        uint32_t bits = *x++ ^ flip;

        if (inputs < 32) {
            bits &= ((uint32_t)1 << inputs) - 1u;
        }
#if defined(BLRC_LOWEST)
        for (; bits != 0; bits &= bits - 1u) {
            *list++ = i + BLRC_LOWEST(bits);
        }
#else
        {
            uint32_t k = i;

            for (; bits != 0; ++k, bits >>= 1) {
                *list = k;
                list += bits & 1u;
            }
        }
#endif
    }
}

#if BLRC_STEP != 1 && defined(BLRC_FAR_TABLES)
static blrc_step blrc_column(BLRC_TABLE(uint32_t) columns, uint32_t i)
{
    uint32_t words[BLRC_STEP];
    int32_t j;

    for (j = 0; j < BLRC_STEP; ++j) {
        words[j] = BLRC_READ(uint32_t, columns, BLRC_STEP * i + (uint32_t)j);
    }
    return BLRC_GET(words);
}
#define BLRC_STEP_AT(columns, i) blrc_column(columns, i)
#elif BLRC_STEP != 1
#define BLRC_STEP_AT(columns, i) BLRC_GET((columns) + BLRC_STEP * (i))
#else
#define BLRC_STEP_AT(columns, i) BLRC_READ(uint32_t, columns, i)
#endif
#define BLRC_COLUMN(i) BLRC_STEP_AT(columns, list[i])

/* The planes of the sum of so many columns. */
static BLRC_APART void blrc_add_columns(BLRC_TABLE(uint32_t) columns, const uint32_t *list, uint32_t count,
                                        int32_t planes, uint32_t *sum)
{
    blrc_step ones = BLRC_ALL(0), twos = ones, fours = ones, eights = ones;
    int32_t i;

    for (i = BLRC_LOW_PLANES; i < planes; ++i) {
        BLRC_PUT(sum + i * BLRC_STEP, ones);
    }
    for (; count >= 16; count -= 16) {
        blrc_step eight, eight1;

        BLRC_ADD_EIGHT(eight, BLRC_COLUMN)
        list += 8;
        BLRC_ADD_EIGHT(eight1, BLRC_COLUMN)
        list += 8;
        eight = BLRC_FULL(&eights, eight, eight1);
        blrc_carry_on(sum + BLRC_LOW_PLANES * BLRC_STEP, eight, planes - BLRC_LOW_PLANES);
    }
    if (count >= 8) {
        blrc_step eight, carry;

        BLRC_ADD_EIGHT(eight, BLRC_COLUMN)
        list += 8;
        count -= 8;
        carry = eights & eight;
        eights ^= eight;
        blrc_carry_on(sum + BLRC_LOW_PLANES * BLRC_STEP, carry, planes - BLRC_LOW_PLANES);
    }
    BLRC_PUT(sum, ones);
    BLRC_PUT(sum + BLRC_STEP, twos);
    BLRC_PUT(sum + 2 * BLRC_STEP, fours);
    BLRC_PUT(sum + 3 * BLRC_STEP, eights);
    for (; count != 0; --count) {
        blrc_carry_on(sum, BLRC_COLUMN(0), planes);
        ++list;
    }
}

/* Lanes where limit - a + 2 sum, or with `flip` all ones limit - a - 2 sum, is not negative. */
static blrc_step blrc_decide(const uint32_t *sum, BLRC_TABLE(uint32_t) limits, uint32_t a, uint32_t flip,
                             int32_t planes)
{
    const blrc_step flips = BLRC_ALL(flip);
    blrc_step carry = BLRC_ALL(~(uint32_t)0), carry2 = flips;
    uint32_t i = 0;

    a = ~a;
    for (;; a >>= 1) {
        blrc_step low = BLRC_STEP_AT(limits, i);

        carry = BLRC_FULL(&low, BLRC_ALL(0u - (a & 1u)), carry);
        if (i != 0) {
            carry2 = BLRC_FULL(&low, BLRC_GET(sum) ^ flips, carry2);
            sum += BLRC_STEP;
        }
        if (++i == (uint32_t)planes) {
            return ~low;
        }
    }
}

static void blrc_add_up(int32_t inputs, int32_t outputs, int32_t planes, const uint32_t *x,
                        BLRC_TABLE(uint32_t) columns, BLRC_TABLE(uint32_t) limits, uint32_t *scratch, uint32_t *y)
{
    uint32_t *const list = scratch, *const sum = scratch + inputs / 2 + 1;
    const uint32_t set = blrc_set(inputs, x), half = (uint32_t)inputs / 2;
    const uint32_t flip = set > half ? ~(uint32_t)0 : 0, count = flip != 0 ? (uint32_t)inputs - set : set;
    uint32_t found[BLRC_STEP];
    int32_t o, j;

    blrc_list(inputs, x, flip, list);
    for (o = 0; o < outputs; o += 32 * BLRC_STEP) {
        blrc_add_columns(columns, list, count, planes, sum);
        /* First those to be used where inputs of +1 are added. */
        BLRC_PUT(found, blrc_decide(sum, flip == 0 ? limits : BLRC_SKIP(uint32_t, limits, planes * BLRC_STEP), set,
                                    flip, planes));
        for (j = 0; j < BLRC_STEP && o + 32 * j < outputs; ++j) {
            const int32_t left = outputs - o - 32 * j;

            *y++ = left < 32 ? found[j] & (((uint32_t)1 << left) - 1u) : found[j];
        }
        columns = BLRC_SKIP(uint32_t, columns, inputs * BLRC_STEP);
        limits = BLRC_SKIP(uint32_t, limits, 2 * planes * BLRC_STEP);
    }
}

#endif
