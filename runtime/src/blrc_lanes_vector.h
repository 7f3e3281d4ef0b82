/* Bit-sliced convolutions with vectors of any size.
 *
 * The including file defines
 *   BLRC_V                  the vector; BLRC_V_BYTES its size
 *   BLRC_V_TARGET           the level of the instruction set
 *   BLRC_V_LOAD(p), BLRC_V_STORE(p, v), BLRC_V_ZERO
 *   BLRC_V_AND, _OR, _XOR; BLRC_V_ANDNOT(a, b) is ~a & b
 *   BLRC_V_FULL(s, c, x, y, z)  s and c become the sum and the carry of three bits; s may be x
 *   BLRC_V_MAJ(x, y, z)     where two of three are set
 *   BLRC_V_MORE(v, before)  v as a number of 64 bits each << 1, with the highest bit of those in `before`
 *   BLRC_V_LESS(v, behind)  >> 1, with the lowest
 *   BLRC_V_SPREAD(v)        the 32 bits everywhere; BLRC_V_BIT(s, k) all ones where bit k of those is set, else zeros
 *   BLRC_V_NOT(v)
 * and blrc_lanes_read(in) and blrc_lanes_write(in, first), which make planes of the map and the map of results. */
#ifndef BLRC_LANES_VECTOR_H
#define BLRC_LANES_VECTOR_H

#include "blrc_lanes.h"

/* Tables of one channel and kernel row, [pattern][low, high bit], of the lanes at x. The two bits lie side by side, so
 * that they are in one line of the cache, in different halves of it, and can be read at once. */
BLRC_V_TARGET static inline void blrc_lanes_tabulate(const uint8_t *x, const uint8_t *masks, int32_t plane,
                                                     uint8_t *table)
{
    const BLRC_V here = BLRC_V_LOAD(x), is = BLRC_V_LOAD(masks + BLRC_IS_PIXEL * plane);
    const BLRC_V has_left = BLRC_V_LOAD(masks + BLRC_HAS_LEFT * plane);
    const BLRC_V has_right = BLRC_V_LOAD(masks + BLRC_HAS_RIGHT * plane);
    const BLRC_V right = BLRC_V_AND(BLRC_V_LESS(here, BLRC_V_LOAD(x + 8)), has_right);
    BLRC_V left[2], both[4], differ[4];
    int32_t pattern;

    left[0] = BLRC_V_AND(BLRC_V_MORE(here, BLRC_V_LOAD(x - 8)), has_left);
    left[1] = BLRC_V_XOR(left[0], has_left);
    for (pattern = 0; pattern < 4; ++pattern) {
        const BLRC_V a = pattern & 1 ? BLRC_V_XOR(here, is) : here;
        const BLRC_V b = pattern & 2 ? BLRC_V_XOR(right, has_right) : right;

        both[pattern] = BLRC_V_AND(a, b);
        differ[pattern] = BLRC_V_XOR(a, b);
    }
    for (pattern = 0; pattern < 8; ++pattern, table += 2 * BLRC_V_BYTES) {
        const BLRC_V one = left[pattern & 1], d = differ[pattern >> 1];

        BLRC_V_STORE(table, BLRC_V_XOR(one, d));
        BLRC_V_STORE(table + BLRC_V_BYTES, BLRC_V_OR(BLRC_V_AND(one, d), both[pattern >> 1]));
    }
}

#define BLRC_LANE_TABLE (16 * BLRC_V_BYTES) /* bytes of a channel and kernel row */

/* What kernel row k of channel i looks up. */
#define BLRC_LANES_AT(i, k) (table + (size_t)w[3 * (i) + k] * (BLRC_V_BYTES / 8) + BLRC_LANE_TABLE * (3 * (i) + k))

/* a0 += the bits of one channel: s is worth 1, k and u are worth 2, v is worth 4. */
#define BLRC_LANES_CHANNEL(i, s, k, u, v) \
    { \
        const uint8_t *const above = BLRC_LANES_AT(i, 0), *const at = BLRC_LANES_AT(i, 1); \
        const uint8_t *const below = BLRC_LANES_AT(i, 2); \
        const BLRC_V x = BLRC_V_LOAD(above), y = BLRC_V_LOAD(at), z = BLRC_V_LOAD(below); \
        const BLRC_V x2 = BLRC_V_LOAD(above + BLRC_V_BYTES), y2 = BLRC_V_LOAD(at + BLRC_V_BYTES); \
        const BLRC_V z2 = BLRC_V_LOAD(below + BLRC_V_BYTES); \
\
        BLRC_V_FULL(s, k, x, y, z) \
        BLRC_V_FULL(u, v, x2, y2, z2) \
    }

/* Two channels: to a0, a1, a2, a3; what is left is worth 2 (c) and 16 (g). */
#define BLRC_LANES_TWO(i, c, g) \
    { \
        BLRC_V s, k, u, v, s1, k1, u1, v1; \
\
        BLRC_LANES_CHANNEL(i, s, k, u, v) \
        BLRC_LANES_CHANNEL(i + 1, s1, k1, u1, v1) \
        BLRC_V_FULL(a0, c, a0, s, s1) \
        BLRC_V_FULL(a1, k, a1, k, u) \
        BLRC_V_FULL(a1, k1, a1, k1, u1) \
        BLRC_V_FULL(a2, v, a2, v, k) \
        BLRC_V_FULL(a2, v1, a2, v1, k1) \
        BLRC_V_FULL(a3, g, a3, v, v1) \
    }

/* Four channels; what is left is worth 4 (f) and 32 (h). */
#define BLRC_LANES_FOUR(i, f, h) \
    { \
        BLRC_V c, g, c1, g1; \
\
        BLRC_LANES_TWO(i, c, g) \
        BLRC_LANES_TWO(i + 2, c1, g1) \
        BLRC_V_FULL(a1, f, a1, c, c1) \
        BLRC_V_FULL(a4, h, a4, g, g1) \
    }

/* a += carry, and the carry is what is left. */
#define BLRC_LANES_HALF(a) \
    { \
        const BLRC_V both = BLRC_V_AND(a, carry); \
\
        a = BLRC_V_XOR(a, carry); \
        carry = both; \
    }

#define BLRC_LANES_BELOW(k) less = BLRC_V_MAJ(BLRC_V_NOT(a##k), BLRC_V_BIT(bound, k), less);

#define BLRC_LANES_EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12)
#define BLRC_LANES_GET(k) BLRC_V a##k = BLRC_V_LOAD(from + BLRC_V_BYTES * k);
#define BLRC_LANES_PUT(k) BLRC_V_STORE(to + BLRC_V_BYTES * k, a##k);

/* Adds `eights` times 8 channels to one output's sums, and where they are the last ones decides. */
BLRC_V_TARGET static inline void blrc_lanes_output(const blrc_lanes *in, int32_t o, int32_t eights, int32_t last,
                                                   const uint8_t *w, const uint8_t *from)
{
    const uint8_t *table = in->tables;
    const int32_t step = 24 * in->outputs;
    BLRC_LANES_EACH(BLRC_LANES_GET)

    for (; eights > 0; --eights, w += step, table += 24 * BLRC_LANE_TABLE) {
        BLRC_V f, h, f1, h1, carry;

        BLRC_LANES_FOUR(0, f, h)
        BLRC_LANES_FOUR(4, f1, h1)
        BLRC_V_FULL(a2, carry, a2, f, f1)
        BLRC_LANES_HALF(a3)
        BLRC_LANES_HALF(a4)
        BLRC_V_FULL(a5, h, a5, h, h1)
        BLRC_LANES_HALF(a5)
        BLRC_V_FULL(a6, carry, a6, h, carry)
        BLRC_LANES_HALF(a7)
        BLRC_LANES_HALF(a8)
        BLRC_LANES_HALF(a9)
        BLRC_LANES_HALF(a10)
        BLRC_LANES_HALF(a11)
        a12 = BLRC_V_XOR(a12, carry);
    }
    if (last) {
        const BLRC_V bound = BLRC_V_SPREAD(in->bounds[o]);
        BLRC_V less = BLRC_V_ZERO;

        BLRC_LANES_EACH(BLRC_LANES_BELOW)
        BLRC_V_STORE(in->results + BLRC_V_BYTES * o, less);
    } else {
        uint8_t *const to = in->sums + BLRC_V_BYTES * BLRC_LANES_PLANES * o;

        BLRC_LANES_EACH(BLRC_LANES_PUT)
    }
}

/* Half of the bits that lanes lack, as planes: (9 - rows * columns) * channels / 2, of the vector at byte `first`. */
BLRC_V_TARGET static inline void blrc_lanes_start(const blrc_lanes *in, int32_t first, uint8_t *to)
{
    const uint8_t *const masks = in->masks + BLRC_LANES_FRONT + in->pitch + first;
    const BLRC_V has[4] = {
        BLRC_V_LOAD(masks + BLRC_HAS_LEFT * in->plane), BLRC_V_LOAD(masks + BLRC_HAS_RIGHT * in->plane),
        BLRC_V_LOAD(masks + BLRC_HAS_ABOVE * in->plane), BLRC_V_LOAD(masks + BLRC_HAS_BELOW * in->plane)};
    int32_t kind, k;

    for (k = 0; k < BLRC_LANES_PLANES; ++k) {
        BLRC_V_STORE(to + BLRC_V_BYTES * k, BLRC_V_ZERO);
    }
    for (kind = 0; kind < 15; ++kind) { /* of neighbours that are there, by bits; with all four the half is 0 */
        const int32_t columns = 1 + (kind & 1) + (kind >> 1 & 1), rows = 1 + (kind >> 2 & 1) + (kind >> 3);
        const int32_t half = (9 - rows * columns) * (in->channels / 2);
        BLRC_V here = BLRC_V_NOT(BLRC_V_ZERO);

        for (k = 0; k < 4; ++k) {
            here = kind >> k & 1 ? BLRC_V_AND(here, has[k]) : BLRC_V_ANDNOT(has[k], here);
        }
        for (k = 0; k < BLRC_LANES_PLANES; ++k) {
            if (half >> k & 1) {
                BLRC_V_STORE(to + BLRC_V_BYTES * k, BLRC_V_OR(BLRC_V_LOAD(to + BLRC_V_BYTES * k), here));
            }
        }
    }
}

BLRC_V_TARGET static inline void blrc_lanes_all(const blrc_lanes *in)
{
    const int32_t eights = in->channels / 8;
    uint8_t start[BLRC_V_BYTES * BLRC_LANES_PLANES];
    int32_t first, eight, c, o;

    blrc_lanes_read(in);
    for (first = 0; first < in->height * in->pitch; first += BLRC_V_BYTES) {
        const uint8_t *const masks = in->masks + BLRC_LANES_FRONT + first;

        blrc_lanes_start(in, first, start);
        for (eight = 0; eight < eights; eight += BLRC_LANES_EIGHTS) {
            const int32_t count = eights - eight < BLRC_LANES_EIGHTS ? eights - eight : BLRC_LANES_EIGHTS;
            const uint8_t *w = in->weights + 24 * in->outputs * eight;

            for (c = 0; c < 8 * count; ++c) {
                const uint8_t *const x = in->planes + (8 * eight + c) * in->plane + BLRC_LANES_FRONT + first;
                uint8_t *const to = in->tables + 3 * BLRC_LANE_TABLE * c;

                blrc_lanes_tabulate(x, masks, in->plane, to);
                blrc_lanes_tabulate(x + in->pitch, masks + in->pitch, in->plane, to + BLRC_LANE_TABLE);
                blrc_lanes_tabulate(x + 2 * in->pitch, masks + 2 * in->pitch, in->plane, to + 2 * BLRC_LANE_TABLE);
            }
            for (o = 0; o < in->outputs; ++o, w += 24) {
                blrc_lanes_output(in, o, count, eight + count == eights, w,
                                  eight == 0 ? start : in->sums + BLRC_V_BYTES * BLRC_LANES_PLANES * o);
            }
        }
        blrc_lanes_write(in, first);
    }
}

#endif
