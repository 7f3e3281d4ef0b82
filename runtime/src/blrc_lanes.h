/* Bit-sliced 3x3 convolutions for CPUs that have vectors but count no bits in them: the lanes of a vector are pixels,
 * and nothing is counted but by adders of single bits.
 *
 * A lane's number is its row times 8 * pitch, plus its column; rows lie in whole bytes. Of each channel the three bits
 * under a kernel row differ from its weights in 0 to 3 places: for the 8 patterns of weights that is tabulated, as two
 * bits, for a vector of pixels at once. All outputs share these tables. An output adds what it looks up, 13 bits at
 * most, and compares the sum with its bound.
 *
 * Taps outside the map count nothing. A lane at the border starts with half of the bits that it lacks instead, so that
 * one bound serves all: with n of 9 channels' bits there, z = n - 2 d >= t is d + (9 channels - n) / 2 < bound, where
 * bound = floor((9 channels - t) / 2) + 1. */
#ifndef BLRC_LANES_H
#define BLRC_LANES_H

#include "blrc_tier.h"

#include <string.h>

#define BLRC_LANES_VECTOR 32  /* bytes, at most */
#define BLRC_LANES_EIGHTS 2   /* times 8 channels' tables at a time, which fit the first cache */
#define BLRC_LANES_PLANES 13  /* bits of a sum */
#define BLRC_LANES_FRONT 8    /* bytes before a plane's first row, that neighbours are read from */

/* Planes: the bits of one channel, or a mask, for all lanes; a row of zeros comes first and last. */
enum { BLRC_IS_PIXEL, BLRC_HAS_LEFT, BLRC_HAS_RIGHT, BLRC_HAS_ABOVE, BLRC_HAS_BELOW, BLRC_MASKS };

typedef struct blrc_lanes {
    const uint32_t *x;
    uint32_t *y;
    int32_t height, width, pitch; /* of the map; bytes of a row of lanes */
    int32_t channels, outputs;
    int32_t pooled; /* 2x2 pixels to one */
    int32_t plane;  /* bytes of one */
    /* For each 8 channels, for each output, for each channel, the 3 kernel rows: 16 times the pattern, bit 0 is the
     * left weight. */
    const uint8_t *weights;
    const int32_t *bounds;
    uint8_t *tables, *sums, *results, *planes, *masks;
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
