/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Bit-sliced 3x3 convolutions for CPUs that have vectors but count no bits in them: the lanes of a vector are pixels,
 * and nothing is counted but by adders of single bits.
 *
 * A lane's number is its row times 8 * pitch, plus its column; rows lie in whole bytes. Up to six outputs share the
 * taps that they add, in the way of blrc_shared_taps.h: lists of taps and limits are as there, but that two numbers
 * come first: how many share, and the highest level (BLRC_TIER_*) at which this kernel is the fastest. */
#ifndef BLRC_LANES_H
#define BLRC_LANES_H

#include "blrc_tier.h"

#include <string.h>

#define BLRC_LANES_VECTOR 32  /* bytes, at most */
#define BLRC_LANES_SHARING 6   /* outputs, at most */
#define BLRC_LANES_PLANES 15   /* bits of a sum and its sign, at most */
#define BLRC_LANES_FRONT 8    /* bytes before a plane's first row, that neighbours are read from */
#define BLRC_LANES_LIST 2     /* numbers before the lists of taps */

/* Planes: the bits of one channel, or a mask, for all lanes; a row of zeros comes first and last. */
enum { BLRC_HAS_LEFT, BLRC_HAS_RIGHT, BLRC_HAS_ABOVE, BLRC_HAS_BELOW, BLRC_MASKS };

typedef struct blrc_lanes {
    const uint32_t *x;
    uint32_t *y;
    int32_t height, width, pitch; /* of the map; bytes of a row of lanes */
    int32_t channels, outputs;
    int32_t pooled; /* 2x2 pixels to one */
    int32_t plane;  /* bytes of one */
    int32_t sharing, bits; /* outputs of a group; of a sum, with its sign */
    const uint16_t *lists, *limits;
    /* Vectors: the zeros and taps, kinds of places, planes of the running sum, planes of a group's sums, results. */
    uint8_t *tables, *edges, *counts, *sums, *results;
    uint8_t *planes, *masks;
} blrc_lanes;

/* The first byte of a plane's row; rows -1 and `height` are there, too. */
static inline uint8_t *blrc_lane_row(const blrc_lanes *in, uint8_t *planes, int32_t i, int32_t row)
{
    return planes + i * in->plane + BLRC_LANES_FRONT + (row + 1) * in->pitch;
}

/* Words of the output for `count` pixels of a row. */
static inline void blrc_lanes_put(const blrc_lanes *in, int32_t row, int32_t column, int32_t count, int32_t word,
                                  const uint32_t *bits)
{
    const int32_t words = (in->outputs + 31) / 32;
    int32_t i;

    if (row >= in->height) {
        return;
    }
    if (!in->pooled) {
        uint32_t *const to = in->y + (row * in->width + column) * words + word;

        for (i = 0; i < count; ++i) {
            to[i * words] = bits[i];
        }
    } else if (row / 2 < in->height / 2) {
        uint32_t *const to = in->y + (row / 2 * (in->width / 2) + column / 2) * words + word;

        for (i = 0; i + 1 < count; i += 2) {
            to[i / 2 * words] |= bits[i] | bits[i + 1];
        }
    }
}

#ifdef __cplusplus
extern "C" {
#endif

void blrc_lanes_popcnt(const blrc_lanes *in);
void blrc_lanes_avx2(const blrc_lanes *in);

#ifdef __cplusplus
}
#endif

#endif
