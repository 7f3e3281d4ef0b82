/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary tiles with NEON: xor, count the ones of each byte, add. A vector holds 64 bits of each of two rows, so that of
 * 16 rows the first four vectors have the even ones, the others the odd ones. Two pixels share the weights of 16 rows;
 * a pixel alone takes 32 rows. Only bytes are added in the loop: what a row's bytes have counted is added up behind it.
 */
#include "blrc_neon.h"

#if BLRC_NEON
#define BLRC_NEON_UNITS 31 /* whose bytes' sums, at most 8 each, stay below 256 */
#define BLRC_NEON_SUMS 16  /* vectors: of 16 rows of two pixels, or of 32 rows of one */

/* Vectors stay in registers only where a function is part of the one that has them. */
#define BLRC_IN_NEON __attribute__((always_inline)) inline

#define BLRC_NEON_EIGHT(each) each(0) each(1) each(2) each(3) each(4) each(5) each(6) each(7)
#define BLRC_NEON_DECLARE(k) uint8x16_t a##k = vdupq_n_u8(0), b##k = a##k;
#define BLRC_NEON_SUM(k) \
    sums[k] = vpaddlq_u8(a##k); \
    sums[k + 8] = vpaddlq_u8(b##k);

/* a += the bits in which v and the two rows of w differ. */
#define BLRC_NEON_COUNT(a, v, w) a = vaddq_u8(a, vcntq_u8(veorq_u8(v, w)))

#define BLRC_NEON_PAIR(k) \
    { \
        const uint8x16_t both = blrc_neon_load(w + 4 * (k)); \
\
        BLRC_NEON_COUNT(a##k, v, both); \
        BLRC_NEON_COUNT(b##k, v2, both); \
    }

#define BLRC_NEON_ALONE(k) \
    BLRC_NEON_COUNT(a##k, v, blrc_neon_load(w + 4 * (k))); \
    BLRC_NEON_COUNT(b##k, v, blrc_neon_load(w + 4 * (k) + 32));

static inline uint8x16_t blrc_neon_load(const uint32_t *at)
{
    return vreinterpretq_u8_u32(vld1q_u32(at));
}

/* A unit in both halves. */
static inline uint8x16_t blrc_neon_unit(const uint32_t *at)
{
    return vreinterpretq_u8_u32(vcombine_u32(vld1_u32(at), vld1_u32(at)));
}

/* sums = the differing bits of at most BLRC_NEON_UNITS units, of pixels x and x2 (or, without x2, of x alone). */
static BLRC_IN_NEON void blrc_neon_count(const uint32_t *x, const uint32_t *x2, const uint32_t *w, int32_t units,
                                         uint16x8_t *sums)
{
    BLRC_NEON_EIGHT(BLRC_NEON_DECLARE)

    if (x2 != 0) {
        for (; units > 0; --units, x += 2, x2 += 2, w += 64) {
            const uint8x16_t v = blrc_neon_unit(x), v2 = blrc_neon_unit(x2);

            BLRC_NEON_EIGHT(BLRC_NEON_PAIR)
        }
    } else {
        for (; units > 0; --units, x += 2, w += 64) {
            const uint8x16_t v = blrc_neon_unit(x);

            BLRC_NEON_EIGHT(BLRC_NEON_ALONE)
        }
    }
    BLRC_NEON_EIGHT(BLRC_NEON_SUM)
}

/* Bits of 16 rows: ones <= limit, the ones of even and of odd rows apart, in order. */
static inline uint32_t blrc_neon_decide(uint32x4_t even, uint32x4_t even2, uint32x4_t odd, uint32x4_t odd2,
                                        const int32_t *limit)
{
    static const uint16_t of_even[8] = {1, 1 << 2, 1 << 4, 1 << 6, 1 << 8, 1 << 10, 1 << 12, 1 << 14};
    const uint16x8_t places = vld1q_u16(of_even);
    const int32x4x2_t l = vld2q_s32(limit), l2 = vld2q_s32(limit + 8);

    return blrc_neon_bits(blrc_neon_masks(vcleq_s32(vreinterpretq_s32_u32(even), l.val[0]),
                                          vcleq_s32(vreinterpretq_s32_u32(even2), l2.val[0])),
                          places,
                          blrc_neon_masks(vcleq_s32(vreinterpretq_s32_u32(odd), l.val[1]),
                                          vcleq_s32(vreinterpretq_s32_u32(odd2), l2.val[1])),
                          vshlq_n_u16(places, 1));
}

/* The same of the eight vectors of 16 rows: four sums of each row, at most 16 * BLRC_NEON_UNITS each. */
static inline uint32_t blrc_neon_rows(const uint16x8_t *sums, const int32_t *limit)
{
    return blrc_neon_decide(vpaddlq_u16(vpaddq_u16(sums[0], sums[1])), vpaddlq_u16(vpaddq_u16(sums[2], sums[3])),
                            vpaddlq_u16(vpaddq_u16(sums[4], sums[5])), vpaddlq_u16(vpaddq_u16(sums[6], sums[7])),
                            limit);
}

/* Bits of 16 rows of each of two pixels, or of one pixel's 32, whose limits are at `limit` and `limit2`. */
static BLRC_IN_NEON void blrc_neon_tile(const uint32_t *x, const uint32_t *x2, const uint32_t *w, int32_t units,
                                        const int32_t *limit, const int32_t *limit2, uint32_t *bits)
{
    uint16x8_t sums[BLRC_NEON_SUMS];

    if (units <= BLRC_NEON_UNITS) {
        blrc_neon_count(x, x2, w, units, sums);
        bits[0] = blrc_neon_rows(sums, limit);
        bits[1] = blrc_neon_rows(sums + 8, limit2);
    } else {
        uint32x4_t whole[BLRC_NEON_SUMS];
        int32_t first, k;

        for (k = 0; k < BLRC_NEON_SUMS; ++k) {
            whole[k] = vdupq_n_u32(0);
        }
        for (first = 0; first < units; first += BLRC_NEON_UNITS) {
            const int32_t rest = units - first;

            blrc_neon_count(x + 2 * first, x2 == 0 ? x2 : x2 + 2 * first, w + 64 * first,
                            rest < BLRC_NEON_UNITS ? rest : BLRC_NEON_UNITS, sums);
            for (k = 0; k < BLRC_NEON_SUMS; ++k) {
                whole[k] = vpadalq_u16(whole[k], sums[k]);
            }
        }
        bits[0] = blrc_neon_decide(vpaddq_u32(whole[0], whole[1]), vpaddq_u32(whole[2], whole[3]),
                                   vpaddq_u32(whole[4], whole[5]), vpaddq_u32(whole[6], whole[7]), limit);
        bits[1] = blrc_neon_decide(vpaddq_u32(whole[8], whole[9]), vpaddq_u32(whole[10], whole[11]),
                                   vpaddq_u32(whole[12], whole[13]), vpaddq_u32(whole[14], whole[15]), limit2);
    }
}

static void blrc_neon_two(const blrc_tile *tile, int32_t p)
{
    int32_t half;

    for (half = 0; half < 2 * tile->blocks; ++half) {
        const uint32_t *const w = tile->weights + 64 * tile->units * (half / 2) + 32 * (half % 2);
        uint32_t bits[2];

        blrc_neon_tile(tile->run[p], tile->run[p + 1], w, tile->units, tile->limit[p] + 16 * half,
                       tile->limit[p + 1] + 16 * half, bits);
        tile->y[p][half / 2] |= bits[0] << (16 * (half % 2));
        tile->y[p + 1][half / 2] |= bits[1] << (16 * (half % 2));
    }
}

static void blrc_neon_one(const blrc_tile *tile, int32_t p)
{
    int32_t block;

    for (block = 0; block < tile->blocks; ++block) {
        const int32_t *const limit = tile->limit[p] + BLRC_TILE_ROWS * block;
        uint32_t half[2];

        blrc_neon_tile(tile->run[p], 0, tile->weights + 64 * tile->units * block, tile->units, limit, limit + 16, half);
        tile->y[p][block] |= half[0] | half[1] << 16;
    }
}

void blrc_tile_neon(const blrc_tile *tile)
{
    int32_t p;

    for (p = 0; p + 2 <= tile->pixels; p += 2) {
        blrc_neon_two(tile, p);
    }
    if (p < tile->pixels) {
        blrc_neon_one(tile, p);
    }
}
#else
void blrc_tile_neon(const blrc_tile *tile)
{
    blrc_tile_portable(tile);
}
#endif
