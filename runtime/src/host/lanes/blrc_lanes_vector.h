/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Bit-sliced convolutions with vectors of any size.
 *
 * The including file defines
 *   BLRC_V                  the vector; BLRC_V_BYTES its size
 *   BLRC_V_TARGET           the level of the instruction set
 *   BLRC_V_LOAD(p), BLRC_V_STORE(p, v), BLRC_V_ZERO
 *   BLRC_V_AND, _OR, _XOR; BLRC_V_ANDNOT(a, b) is ~a & b
 *   BLRC_V_FULL(s, c, x, y, z)  s and c become the sum and the carry of three bits; s may be x
 *   BLRC_V_MORE(v, before)  v as a number of 64 bits each << 1, with the highest bit of those in `before`
 *   BLRC_V_LESS(v, behind)  >> 1, with the lowest
 *   BLRC_V_NOT(v)
 * and blrc_lanes_read(in) and blrc_lanes_write(in, first), which make planes of the map and the map of results. */
#ifndef BLRC_LANES_VECTOR_H
#define BLRC_LANES_VECTOR_H

#include "blrc_lanes.h"

#define BLRC_LANES_LOW 4 /* planes that are kept in registers: ones, twos, fours, eights */
#define BLRC_LANES_AT_ONCE 14 /* times eight taps: seven carries that are worth 16 */

/* The bits under a kernel row, and their opposites, of the lanes at x. */
BLRC_V_TARGET static inline void blrc_lanes_taps(const uint8_t *x, BLRC_V has_left, BLRC_V has_right, uint8_t *to)
{
    const BLRC_V here = BLRC_V_LOAD(x);
    const BLRC_V left = BLRC_V_AND(BLRC_V_MORE(here, BLRC_V_LOAD(x - 8)), has_left);
    const BLRC_V right = BLRC_V_AND(BLRC_V_LESS(here, BLRC_V_LOAD(x + 8)), has_right);

    BLRC_V_STORE(to, left);
    BLRC_V_STORE(to + BLRC_V_BYTES, BLRC_V_NOT(left));
    BLRC_V_STORE(to + 2 * BLRC_V_BYTES, here);
    BLRC_V_STORE(to + 3 * BLRC_V_BYTES, BLRC_V_NOT(here));
    BLRC_V_STORE(to + 4 * BLRC_V_BYTES, right);
    BLRC_V_STORE(to + 5 * BLRC_V_BYTES, BLRC_V_NOT(right));
}

/* The table of all taps, and which lanes are in which kind of place, of the vector at byte `first`. */
BLRC_V_TARGET static inline void blrc_lanes_tabulate(const blrc_lanes *in, int32_t first)
{
    const uint8_t *const at = in->planes + BLRC_LANES_FRONT + first;
    const uint8_t *const masks = in->masks + BLRC_LANES_FRONT + first;
    BLRC_V has[4], rows[3], columns[3];
    int32_t c, k, i;

    for (k = 0; k < 3; ++k) {
        uint8_t *to = in->tables + BLRC_V_BYTES * (1 + 6 * in->channels * k);
        const BLRC_V has_left = BLRC_V_LOAD(masks + BLRC_HAS_LEFT * in->plane + k * in->pitch);
        const BLRC_V has_right = BLRC_V_LOAD(masks + BLRC_HAS_RIGHT * in->plane + k * in->pitch);

        for (c = 0; c < in->channels; ++c, to += 6 * BLRC_V_BYTES) {
            blrc_lanes_taps(at + c * in->plane + k * in->pitch, has_left, has_right, to);
        }
    }
    BLRC_V_STORE(in->tables, BLRC_V_ZERO);
    for (k = 0; k < 4; ++k) {
        has[k] = BLRC_V_LOAD(masks + (BLRC_HAS_LEFT + k) * in->plane + in->pitch);
    }
    columns[0] = BLRC_V_NOT(has[0]);
    columns[1] = BLRC_V_AND(has[0], has[1]);
    columns[2] = BLRC_V_ANDNOT(has[1], has[0]);
    rows[0] = BLRC_V_NOT(has[2]);
    rows[1] = BLRC_V_AND(has[2], has[3]);
    rows[2] = BLRC_V_ANDNOT(has[3], has[2]);
    for (k = 0; k < 3; ++k) {
        for (i = 0; i < 8; ++i) {
            BLRC_V lanes = BLRC_V_ZERO;

            for (c = 0; c < 3; ++c) {
                lanes = i >> c & 1 ? BLRC_V_OR(lanes, columns[c]) : lanes;
            }
            BLRC_V_STORE(in->edges + BLRC_V_BYTES * (8 * k + i), BLRC_V_AND(lanes, rows[k]));
        }
    }
}

/* Sums start as limits: for each output and plane a number whose bit 3 * i + j is that plane's of the limit in rows of
 * kind i and columns of kind j. */
BLRC_V_TARGET static inline void blrc_lanes_start(const blrc_lanes *in, const uint16_t *limits, int32_t planes)
{
    const uint8_t *const edges = in->edges;
    int32_t i;

    for (i = 0; i < planes; ++i) {
        const int32_t bits = limits[i];
        const BLRC_V above = BLRC_V_LOAD(edges + BLRC_V_BYTES * (bits & 7));
        const BLRC_V here = BLRC_V_LOAD(edges + BLRC_V_BYTES * (8 + (bits >> 3 & 7)));
        const BLRC_V below = BLRC_V_LOAD(edges + BLRC_V_BYTES * (16 + (bits >> 6)));

        BLRC_V_STORE(in->sums + BLRC_V_BYTES * i, BLRC_V_OR(BLRC_V_OR(above, here), below));
    }
}

/* Lanes where sum - C, or with `flip` 0 sum + C, is not negative. */
BLRC_V_TARGET static inline BLRC_V blrc_lanes_passing(const uint8_t *sum, const uint8_t *counts, int32_t planes,
                                                      BLRC_V flip)
{
    BLRC_V carry = flip, s;
    int32_t i;

    for (i = 0; i < planes - 1; ++i) {
        const BLRC_V low = BLRC_V_LOAD(sum + BLRC_V_BYTES * i), count = BLRC_V_LOAD(counts + BLRC_V_BYTES * i);

        BLRC_V_FULL(s, carry, low, BLRC_V_XOR(count, flip), carry)
    }
    s = BLRC_V_XOR(BLRC_V_LOAD(sum + BLRC_V_BYTES * i), BLRC_V_XOR(flip, carry));
    return BLRC_V_NOT(s);
}

/* Places in lists are multiplied by 4, so that a processor's addresses need no shift. */
#define BLRC_LANES_TAP(i) BLRC_V_LOAD(table + (size_t)list[i] * (BLRC_V_BYTES / 4))

/* ones, twos and fours += the eight taps from i on; what is left is worth eight. */
#define BLRC_LANES_EIGHT(eight, i) \
    { \
        BLRC_V two, two1, four, four1; \
\
        BLRC_V_FULL(ones, two, BLRC_LANES_TAP(i), BLRC_LANES_TAP(i + 1), ones) \
        BLRC_V_FULL(ones, two1, BLRC_LANES_TAP(i + 2), BLRC_LANES_TAP(i + 3), ones) \
        BLRC_V_FULL(twos, four, two, two1, twos) \
        BLRC_V_FULL(ones, two, BLRC_LANES_TAP(i + 4), BLRC_LANES_TAP(i + 5), ones) \
        BLRC_V_FULL(ones, two1, BLRC_LANES_TAP(i + 6), BLRC_LANES_TAP(i + 7), ones) \
        BLRC_V_FULL(twos, four1, two, two1, twos) \
        BLRC_V_FULL(fours, eight, four, four1, fours) \
    }

/* low += carry, and the carry is what is left. */
#define BLRC_LANES_HALF(low) \
    { \
        const BLRC_V both = BLRC_V_AND(low, carry); \
\
        low = BLRC_V_XOR(low, carry); \
        carry = both; \
    }

/* Carries worth 16 are counted apart, up to seven of them, before they are added to planes in memory. */
#define BLRC_LANES_SIXTEEN \
    { \
        BLRC_LANES_HALF(some) \
        BLRC_LANES_HALF(more) \
        most = BLRC_V_XOR(most, carry); \
    }

/* sum += 2 v or, with all ones in `flip`, -= 2 v, a plane of v at a time. */
#define BLRC_LANES_TWICE(v) \
    { \
        BLRC_V low = BLRC_V_LOAD(sum); \
\
        BLRC_V_FULL(low, borne, low, BLRC_V_XOR(v, flip), borne) \
        BLRC_V_STORE(sum, low); \
        sum += BLRC_V_BYTES; \
    }

/* The taps of one kind, to four planes and the counts of what is worth 16: `left` times eight of them, at most 14. */
#define BLRC_LANES_KIND \
    for (; left > 1; left -= 2, list += 16) { \
        BLRC_V eight, eight1; \
\
        BLRC_LANES_EIGHT(eight, 0) \
        BLRC_LANES_EIGHT(eight1, 8) \
        BLRC_V_FULL(eights, carry, eight, eight1, eights) \
        BLRC_LANES_SIXTEEN \
    } \
    if (left != 0) { \
        BLRC_LANES_EIGHT(carry, 0) \
        BLRC_LANES_HALF(eights) \
        BLRC_LANES_SIXTEEN \
        list += 8; \
    }

/* The sums of a group of `outputs`: see blrc_shared_taps.h, which does the same for small CPUs. Behind the last kind
 * the sum of an output that there is not changes, too. */
BLRC_V_TARGET static inline const uint16_t *blrc_lanes_sum(const blrc_lanes *in, const uint16_t *list,
                                                           int32_t outputs)
{
    const uint8_t *const table = in->tables;
    BLRC_V ones = BLRC_V_ZERO, twos = ones, fours = ones, eights = ones;
    int32_t kind, i;

    for (i = BLRC_LANES_LOW; i < in->bits; ++i) {
        BLRC_V_STORE(in->counts + BLRC_V_BYTES * i, ones);
    }
    for (kind = 1;; ++kind) {
        int32_t all = *list++, bits = kind;
        BLRC_V some = BLRC_V_ZERO, more = some, most = some, carry = some, flip, borne;
        uint8_t *sum = in->sums + BLRC_V_BYTES * in->bits, *count = in->counts + BLRC_V_BYTES * BLRC_LANES_LOW;

        for (;;) {
            int32_t left = all < BLRC_LANES_AT_ONCE ? all : BLRC_LANES_AT_ONCE;

            all -= left;
            BLRC_LANES_KIND
            if (all == 0) {
                break;
            }
            carry = BLRC_V_ZERO;
            for (i = 0; i < in->bits - 1 - BLRC_LANES_LOW; ++i) {
                BLRC_V plane = BLRC_V_LOAD(count + BLRC_V_BYTES * i);

                BLRC_V_FULL(plane, carry, plane, some, carry)
                BLRC_V_STORE(count + BLRC_V_BYTES * i, plane);
                some = more, more = most, most = BLRC_V_ZERO;
            }
            some = BLRC_V_ZERO, more = some, most = some;
        }
        /* Which output changes its sign here, and from which. */
        for (; (bits & 1) == 0; bits >>= 1) {
            sum += BLRC_V_BYTES * in->bits;
        }
        flip = (bits & 2) != 0 ? BLRC_V_ZERO : BLRC_V_NOT(BLRC_V_ZERO);
        borne = flip;
        sum += BLRC_V_BYTES;
        BLRC_LANES_TWICE(ones)
        BLRC_LANES_TWICE(twos)
        BLRC_LANES_TWICE(fours)
        BLRC_LANES_TWICE(eights)
        carry = BLRC_V_ZERO;
        for (i = BLRC_LANES_LOW; i < in->bits - 1; ++i, count += BLRC_V_BYTES) {
            BLRC_V plane = BLRC_V_LOAD(count);

            BLRC_V_FULL(plane, carry, plane, some, carry)
            some = more, more = most, most = BLRC_V_ZERO;
            BLRC_V_STORE(count, plane);
            BLRC_LANES_TWICE(plane)
        }
        if (kind >> (outputs - 1) != 0) {
            BLRC_V_STORE(in->counts, ones);
            BLRC_V_STORE(in->counts + BLRC_V_BYTES, twos);
            BLRC_V_STORE(in->counts + 2 * BLRC_V_BYTES, fours);
            BLRC_V_STORE(in->counts + 3 * BLRC_V_BYTES, eights);
            return list;
        }
    }
}

BLRC_V_TARGET static inline void blrc_lanes_all(const blrc_lanes *in)
{
    int32_t first, c, o;

    blrc_lanes_read(in);
    for (first = 0; first < in->height * in->pitch; first += BLRC_V_BYTES) {
        const uint16_t *list = in->lists, *limit = in->limits;

        blrc_lanes_tabulate(in, first);
        for (c = 0; c < in->outputs; c += in->sharing) {
            const int32_t outputs = in->outputs - c < in->sharing ? in->outputs - c : in->sharing;

            blrc_lanes_start(in, limit, outputs * in->bits);
            limit += outputs * in->bits;
            list = blrc_lanes_sum(in, list, outputs);
            for (o = 0; o < outputs; ++o) {
                /* The last output of several ends with the opposite sign. */
                const BLRC_V flip = o != 0 && o == outputs - 1 ? BLRC_V_ZERO : BLRC_V_NOT(BLRC_V_ZERO);

                BLRC_V_STORE(in->results + BLRC_V_BYTES * (c + o),
                             blrc_lanes_passing(in->sums + BLRC_V_BYTES * in->bits * o, in->counts, in->bits, flip));
            }
        }
        blrc_lanes_write(in, first);
    }
}

#endif
