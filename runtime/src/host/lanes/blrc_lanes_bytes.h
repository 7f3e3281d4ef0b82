/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Maps to planes of lanes and back with SSSE3: 16 pixels at a time, whose bits are collected from the bytes' signs. */
#ifndef BLRC_LANES_BYTES_H
#define BLRC_LANES_BYTES_H

#include "blrc_lanes.h"

#define BLRC_FROM(p) _mm_loadu_si128((const __m128i *)(const void *)(p))

/* Pixels of one row and one word, 16 from `column` on: to the planes of its 32 channels. */
BLRC_V_TARGET static inline void blrc_lanes_read_16(const uint32_t *pixels, uint8_t *to, int32_t plane)
{
    const __m128i by_byte = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i a = _mm_shuffle_epi8(BLRC_FROM(pixels), by_byte);
    const __m128i b = _mm_shuffle_epi8(BLRC_FROM(pixels + 4), by_byte);
    const __m128i c = _mm_shuffle_epi8(BLRC_FROM(pixels + 8), by_byte);
    const __m128i d = _mm_shuffle_epi8(BLRC_FROM(pixels + 12), by_byte);
    const __m128i low = _mm_unpacklo_epi32(a, b), low2 = _mm_unpacklo_epi32(c, d);
    const __m128i high = _mm_unpackhi_epi32(a, b), high2 = _mm_unpackhi_epi32(c, d);
    __m128i bytes[4];
    int32_t i, k;

    bytes[0] = _mm_unpacklo_epi64(low, low2);
    bytes[1] = _mm_unpackhi_epi64(low, low2);
    bytes[2] = _mm_unpacklo_epi64(high, high2);
    bytes[3] = _mm_unpackhi_epi64(high, high2);
    for (i = 0; i < 4; ++i) {
        __m128i v = bytes[i];

        for (k = 7; k >= 0; --k) {
            const uint16_t lanes = (uint16_t)_mm_movemask_epi8(v);

            memcpy(to + (8 * i + k) * plane, &lanes, sizeof lanes);
            v = _mm_add_epi8(v, v);
        }
    }
}

/* A row's last lanes may be written behind it, as zeros, where the next row comes then. */
BLRC_V_TARGET static inline void blrc_lanes_read(const blrc_lanes *in)
{
    const int32_t words = (in->channels + 31) / 32;
    uint32_t pixels[16];
    int32_t row, column, word, i;

    for (row = 0; row < in->height; ++row) {
        for (column = 0; column < in->width; column += 16) {
            const int32_t count = in->width - column < 16 ? in->width - column : 16;

            for (word = 0; word < words; ++word) {
                const uint32_t *const x = in->x + (row * in->width + column) * words + word;

                if (words == 1 && count == 16) {
                    blrc_lanes_read_16(x, blrc_lane_row(in, in->planes, 0, row) + column / 8, in->plane);
                    continue;
                }
                for (i = 0; i < 16; ++i) {
                    pixels[i] = i < count ? x[i * words] : 0;
                }
                blrc_lanes_read_16(pixels, blrc_lane_row(in, in->planes, 32 * word, row) + column / 8, in->plane);
            }
        }
    }
}

/* 16 rows of 16 bytes to 16 columns. */
BLRC_V_TARGET static inline void blrc_lanes_turn(const uint8_t *from, int32_t step, __m128i *to)
{
    __m128i other[16];
    int32_t i;

    for (i = 0; i < 16; ++i) {
        to[i] = BLRC_FROM(from + step * i);
    }
    /* Each time rows i and i + 8 are shuffled into rows 2 i and 2 i + 1; four times is a turn. */
    for (i = 0; i < 8; ++i) {
        other[2 * i] = _mm_unpacklo_epi8(to[i], to[i + 8]);
        other[2 * i + 1] = _mm_unpackhi_epi8(to[i], to[i + 8]);
    }
    for (i = 0; i < 8; ++i) {
        to[2 * i] = _mm_unpacklo_epi8(other[i], other[i + 8]);
        to[2 * i + 1] = _mm_unpackhi_epi8(other[i], other[i + 8]);
    }
    for (i = 0; i < 8; ++i) {
        other[2 * i] = _mm_unpacklo_epi8(to[i], to[i + 8]);
        other[2 * i + 1] = _mm_unpackhi_epi8(to[i], to[i + 8]);
    }
    for (i = 0; i < 8; ++i) {
        to[2 * i] = _mm_unpacklo_epi8(other[i], other[i + 8]);
        to[2 * i + 1] = _mm_unpackhi_epi8(other[i], other[i + 8]);
    }
}

/* Results of the vector at byte `first`, to the map. */
BLRC_V_TARGET static inline void blrc_lanes_write(const blrc_lanes *in, int32_t first)
{
    const int32_t words = (in->outputs + 31) / 32;
    int32_t word, half, i, k;

    for (word = 0; word < words; ++word) {
        for (half = 0; half < BLRC_V_BYTES; half += 16) {
            const uint8_t *const from = in->results + BLRC_V_BYTES * 32 * word + half;
            __m128i low[16], high[16];

            if (first + half >= in->height * in->pitch) {
                break;
            }
            blrc_lanes_turn(from, BLRC_V_BYTES, low);
            blrc_lanes_turn(from + 16 * BLRC_V_BYTES, BLRC_V_BYTES, high);
            for (i = 0; i < 16; ++i) {
                const int32_t row = (first + half + i) / in->pitch, column = (first + half + i) % in->pitch * 8;
                const int32_t count = in->width - column < 8 ? in->width - column : 8;
                __m128i a = low[i], b = high[i];
                uint32_t bits[8];

                for (k = 7; k >= 0; --k) {
                    bits[k] = (uint32_t)_mm_movemask_epi8(a) | (uint32_t)_mm_movemask_epi8(b) << 16;
                    a = _mm_add_epi8(a, a);
                    b = _mm_add_epi8(b, b);
                }
                blrc_lanes_put(in, row, column, count, word, bits);
            }
        }
    }
}

#endif
