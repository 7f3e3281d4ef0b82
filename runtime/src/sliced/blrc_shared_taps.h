/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* 3x3 convolutions whose outputs share taps, in planes (blrc_planes.h).
 *
 * Up to six outputs share the work (a group). For every tap (kernel row, channel, kernel column) the table holds the
 * pixels' bits and their opposites. The first output of a group differs from a tap or does not; another one differs
 * just where the first does, or just where it does not, and which of the two its weight says. So with k outputs taps
 * are of 2 to the k - 1 kinds, and the sums of the kinds, added and subtracted, are the sums of all outputs: every tap
 * is added once for all of them. (Sorting a binary matrix's columns by several rows at once: Dehghankar, Erfanian and
 * Asudeh, "An Efficient Matrix Multiplication Algorithm for Accelerating Inference in Binary and Ternary Neural
 * Networks", 2024: redundant segment reduction.)
 *
 * Kinds follow one another so that from one to the next a single output changes its sign, as in a Gray code. With C the
 * running sum of all taps so far and T that of all, an output's sum is +-T plus or minus twice the C of those places
 * where it changes. Nothing is ever counted: planes of C and of the outputs' sums are added, and what decides is a
 * sign.
 *
 * Taps outside the map read as -1. With pop differences, of which `absent` are due to them, n real taps and threshold
 * t,
 *
 *   z >= t  <=>  pop - absent <= (n - t) / 2, rounded down,
 *
 * so that only limits depend on the place in the map: three kinds of rows by three of columns. */
#ifndef BLRC_SHARED_TAPS_H
#define BLRC_SHARED_TAPS_H

#include "blrc_planes.h"

#define BLRC_PLANES 15 /* bits of a sum and its sign: there are fewer than 2^14 taps */
#define BLRC_SHARING 6 /* outputs of a group, at most */
#define BLRC_EDGES 8 /* sets of kinds of columns */

typedef struct blrc_slicing {
    int32_t log_pitch, rows; /* log2 of the lanes of a map row; map rows in a word */
    int32_t planes;
    uint32_t columns[3]; /* of one row: the lanes of its first column, of those between, of its last */
    uint32_t has_left, has_right; /* of a word: the lanes with a neighbour there */
    uint32_t *lanes; /* 32 words for each word of a step: its lanes, by output */
    uint32_t *edges; /* for each of 3 kinds of rows, each set of kinds of columns: the lanes that are both */
    uint32_t *counts; /* planes of C */
    uint32_t *sums; /* planes of each output of a group */
    uint32_t *words; /* of each channel: those above the step, its own, the one below */
    uint32_t *table; /* zeros; for each kernel row, channel and kernel column the bits and their opposites */
} blrc_slicing;

/* Sums of a group start as its outputs' limits. For each output and plane a number whose bit 3 * i + j is that plane's
 * of the limit in rows of kind i and columns of kind j. `inner`: all rows are of kind 1. */
static BLRC_APART BLRC_TABLE(uint16_t) blrc_start(const blrc_slicing *in, BLRC_TABLE(uint16_t) limits, int32_t planes,
                                                  int32_t inner)
{
    const uint32_t *const above = in->edges, *const here = above + BLRC_EDGES * BLRC_STEP;
    const uint32_t *const below = here + BLRC_EDGES * BLRC_STEP;
    uint32_t *to = in->sums;

    if (inner) {
        do {
            const uint32_t bits = (uint32_t)BLRC_NEXT(uint16_t, limits);

            BLRC_PUT(to, BLRC_GET(here + ((bits >> 3) & 7u) * BLRC_STEP));
            to += BLRC_STEP;
        } while (--planes != 0);
        return limits;
    }
    do {
        const uint32_t bits = (uint32_t)BLRC_NEXT(uint16_t, limits);
        blrc_step lanes = BLRC_GET(here + ((bits >> 3) & 7u) * BLRC_STEP);

        lanes |= BLRC_GET(above + (bits & 7u) * BLRC_STEP);
        lanes |= BLRC_GET(below + (bits >> 6) * BLRC_STEP);
        BLRC_PUT(to, lanes);
        to += BLRC_STEP;
    } while (--planes != 0);
    return limits;
}

/* sum -= 2 C where `flip` is all ones, += where it is 0. */
static BLRC_APART void blrc_twice(uint32_t *sum, const uint32_t *counts, int32_t planes, uint32_t flip)
{
    blrc_step carry = BLRC_ALL(flip);
    const blrc_step flips = carry;

    --planes;
    do {
        blrc_step low;

        sum += BLRC_STEP;
        low = BLRC_GET(sum);
        carry = BLRC_FULL(&low, BLRC_GET(counts) ^ flips, carry);
        BLRC_PUT(sum, low);
        counts += BLRC_STEP;
    } while (--planes != 0);
}

/* Lanes where sum - C, or with `flip` 0 sum + C, is not negative. */
static BLRC_APART void blrc_passing(const uint32_t *sum, const uint32_t *counts, int32_t planes, uint32_t flip,
                                    uint32_t *lanes)
{
    blrc_step carry = BLRC_ALL(flip), low;
    const blrc_step flips = carry;

    --planes;
    do {
        low = BLRC_GET(sum);
        carry = BLRC_FULL(&low, BLRC_GET(counts) ^ flips, carry);
        sum += BLRC_STEP;
        counts += BLRC_STEP;
    } while (--planes != 0);
    low = ~(BLRC_GET(sum) ^ flips ^ carry);
    BLRC_PUT(lanes, low);
}

#define BLRC_TAP(i) BLRC_GET(table + BLRC_STEP * (uint32_t)BLRC_READ(uint16_t, list, i))

/* The sums of a group of `outputs`. For each kind of taps the list has how many times eight there are, and then which
 * (that of zeros where there are fewer). Returns the end of the list. */
static BLRC_APART BLRC_TABLE(uint16_t) blrc_sum(const blrc_slicing *in, BLRC_TABLE(uint16_t) list, int32_t outputs)
{
    const uint32_t *const table = in->table;
    uint32_t *const counts = in->counts;
    blrc_step ones = BLRC_ALL(0), twos = ones, fours = ones, eights = ones;
    uint32_t kind;
    int32_t i;

    for (i = BLRC_LOW_PLANES; i < in->planes; ++i) {
        BLRC_PUT(counts + i * BLRC_STEP, ones);
    }
    for (kind = 1;; ++kind) {
        uint32_t *sum = in->sums + in->planes * BLRC_STEP;
        uint32_t left = BLRC_NEXT(uint16_t, list), bits;

        while (left != 0) {
            blrc_step eight, carry;

            BLRC_ADD_EIGHT(eight, BLRC_TAP)
            list = BLRC_SKIP(uint16_t, list, 8);
            if (--left != 0) {
                blrc_step eight1;

                --left;
                BLRC_ADD_EIGHT(eight1, BLRC_TAP)
                list = BLRC_SKIP(uint16_t, list, 8);
                carry = BLRC_FULL(&eights, eight, eight1);
            } else {
                carry = eights & eight;
                eights ^= eight;
            }
            blrc_carry_on(counts + BLRC_LOW_PLANES * BLRC_STEP, carry, in->planes - BLRC_LOW_PLANES);
        }
        BLRC_PUT(counts, ones);
        BLRC_PUT(counts + BLRC_STEP, twos);
        BLRC_PUT(counts + 2 * BLRC_STEP, fours);
        BLRC_PUT(counts + 3 * BLRC_STEP, eights);
        if (kind >> (outputs - 1) != 0) {
            return list;
        }
        /* Which output changes its sign here, and from which: */
        for (bits = kind; (bits & 1u) == 0; bits >>= 1) {
            sum += in->planes * BLRC_STEP;
        }
        blrc_twice(sum, counts, in->planes, (bits & 2u) != 0 ? 0 : ~(uint32_t)0);
    }
}

#endif
