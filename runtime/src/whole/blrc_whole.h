/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* What layers with weights of 8 bits share: how they read numbers, and the walk over windows and pools.
 *
 * v is the opposite of a sum, as in other layers that write codes, and pooling takes the smallest one. */
#ifndef BLRC_WHOLE_H
#define BLRC_WHOLE_H

#include "blrc_levels.h"

/* What a layer reads: +-1 where `bits` is BLRC_WHOLE_SIGNS; codes of `bits` bits; or, for 0 bits, bytes that a table
 * turns into codes, int8_t where there is no table. `channels` are those of a pixel. */
#define BLRC_WHOLE_SIGNS (-1)

typedef struct blrc_whole_input {
    int32_t bits, channels;
    const void *x;
    BLRC_TABLE(int8_t) table;
    int32_t table_rows;
} blrc_whole_input;

/* Whether the numbers of a pixel are bytes that stand for themselves: uint8_t. */
static BLRC_INLINE int32_t blrc_whole_bytes(const blrc_whole_input *in)
{
    return in->bits > BLRC_MOST_PLANES;
}

/* Codes of planes from channel c on, a multiple of four, or +-1 of the only plane where `signs` is 1: four at a time.
 * In the product, bit j of four is bit 8 j as well. */
static BLRC_INLINE void blrc_whole_planes(const uint32_t *plane, int32_t planes, int32_t words, int32_t signs,
                                          int32_t c, int32_t end, int16_t *to)
{
    const int32_t last = (planes - 1) * words;

    for (; c < end; c += 4, to += 4) {
        const uint32_t *const low = plane + c / 32;
        const int32_t shift = c % 32;
        uint32_t four = 0;
        int32_t p;

        for (p = last; p >= 0; p -= words) {
            four = 2 * four + ((((low[p] >> shift) & 15u) * 0x00204081u) & 0x01010101u);
        }
        to[0] = (int16_t)((int32_t)((four & 255u) << signs) - signs);
        if (end - c >= 4) {
            to[1] = (int16_t)((int32_t)(((four >> 8) & 255u) << signs) - signs);
            to[2] = (int16_t)((int32_t)(((four >> 16) & 255u) << signs) - signs);
            to[3] = (int16_t)((int32_t)((four >> 24) << signs) - signs);
        } else {
            for (p = 1; p < end - c; ++p) {
                to[p] = (int16_t)((int32_t)(((four >> (8 * p)) & 255u) << signs) - signs);
            }
        }
    }
}

/* The numbers first <= c < end of a pixel. Where they are bytes with one table at most, `end` may lie in a pixel behind
 * it. */
static BLRC_APART void blrc_whole_numbers(const blrc_whole_input *in, int32_t pixel, int32_t first, int32_t end,
                                          int16_t *to)
{
    int32_t c = first;

    if (in->bits == 0 || blrc_whole_bytes(in)) {
        const uint8_t *const bytes = (const uint8_t *)in->x + pixel * in->channels;

        for (; c < end; ++c) {
            if (in->bits != 0) {
                *to++ = (int16_t)bytes[c];
            } else if (in->table == 0) {
                *to++ = (int16_t)((int32_t)(bytes[c] ^ 0x80u) - 0x80); /* int8_t */
            } else {
                *to++ = BLRC_READ(int8_t, in->table, (in->table_rows == 1 ? 0 : 256 * c) + bytes[c]);
            }
        }
    } else {
        const int32_t words = blrc_words(in->channels), planes = in->bits == BLRC_WHOLE_SIGNS ? 1 : in->bits;
        const uint32_t *const plane = (const uint32_t *)in->x + pixel * planes * words;

        for (; c < end && c % 4 != 0; ++c) { /* up to a multiple of four */
            uint32_t code = 0;
            int32_t p;

            for (p = planes - 1; p >= 0; --p) {
                code = 2 * code + ((plane[p * words + c / 32] >> (c % 32)) & 1u);
            }
            *to++ = (int16_t)(in->bits == BLRC_WHOLE_SIGNS ? 2 * (int32_t)code - 1 : (int32_t)code);
        }
        blrc_whole_planes(plane, planes, words, in->bits == BLRC_WHOLE_SIGNS, c, end, to);
    }
}

/* Compute v of every output of the window at map pixel (my, mx). */
typedef void (*blrc_whole_window)(const blrc_conv *op, const blrc_whole_input *in, BLRC_TABLE(int8_t) weights,
                                  int32_t my, int32_t mx, int16_t *numbers, int32_t *v);

/* least[c] = the smaller one of v[c] and itself. */
static BLRC_APART void blrc_whole_least(int32_t outputs, const int32_t *v, int32_t *least)
{
    int32_t c;

    for (c = 0; c < outputs; ++c) {
        least[c] = v[c] < least[c] ? v[c] : least[c];
    }
}

/* The codes of all outputs in a pixel that was cleared. */
static BLRC_APART void blrc_whole_codes(const blrc_level_rule *rule, int32_t outputs, const int32_t *v, void *y)
{
    const blrc_level_rule own = *rule;
    const int32_t words = blrc_words(outputs);
    int32_t c;

    for (c = 0; c < outputs; ++c) {
        blrc_put_code(own.bits, words, blrc_code_of(&own, v[c], c), c, y);
    }
}

/* Walk over the output's pixels, and the pixels under each one's pool. v, and the least of a pool, lie in front of the
 * numbers in the caller's memory. */
static BLRC_INLINE void blrc_whole_walk(const blrc_conv *op, const blrc_whole_input *in, BLRC_TABLE(int8_t) weights,
                                        const blrc_level_rule *rule, blrc_whole_window window, uint32_t *scratch,
                                        void *y)
{
    const blrc_window *const pool = &op->pool;
    const int32_t outputs = op->out_channels, bytes = blrc_pixel_bytes(rule->bits, outputs);
    const int32_t pooled = pool->kernel_y * pool->kernel_x > 1;
    int32_t *const v = (int32_t *)scratch, *const least = pooled ? v + outputs : v;
    int16_t *const numbers = (int16_t *)(least + outputs);
    uint8_t *to = (uint8_t *)y;
    int32_t oy, ox, py, px;

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span down = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ++ox, to += bytes) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);
            int32_t c, done = 0;

            if (blrc_zero_if_empty(&down, &across, rule->bits, outputs, to)) {
                continue;
            }
            for (py = down.first; py < down.end; ++py) {
                for (px = across.first; px < across.end; ++px, ++done) {
                    window(op, in, weights, top + py * pool->dilation_y, left + px * pool->dilation_x, numbers, v);
                    if (pooled && done == 0) {
                        for (c = 0; c < outputs; ++c) {
                            least[c] = v[c];
                        }
                    } else if (pooled) {
                        blrc_whole_least(outputs, v, least);
                    }
                }
            }
            blrc_clear_pixel(rule->bits, outputs, to);
            blrc_whole_codes(rule, outputs, least, to);
        }
    }
}

#endif
