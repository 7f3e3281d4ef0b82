/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Codes of several thresholds, 0 to 2^bits - 1: how they lie in maps, and how a layer writes them.
 *
 * Up to BLRC_MOST_PLANES bits, a pixel has for each bit of its codes as many words as +-1 have, the lowest bit first:
 * planes. +-1 themselves are such a plane. Longer codes are bytes. */
#ifndef BLRC_LEVELS_H
#define BLRC_LEVELS_H

#include "blrc_window.h"

#define BLRC_MOST_PLANES 4

/* Bytes of a pixel. */
static inline int32_t blrc_pixel_bytes(int32_t bits, int32_t channels)
{
    return bits > BLRC_MOST_PLANES ? channels : 4 * bits * blrc_words(channels);
}

static inline void blrc_clear_pixel(int32_t bits, int32_t channels, void *y)
{
    uint32_t *const words = (uint32_t *)y;

    if (bits <= BLRC_MOST_PLANES) {
        int32_t i;

        for (i = 0; i < bits * blrc_words(channels); ++i) {
            words[i] = 0;
        }
    }
}

/* The pixels under a pool's window: where the first one lies, and which of them are inside the map. */
typedef struct blrc_pooled {
    int32_t top, left;
    blrc_span down, across;
} blrc_pooled;

/* Write code 0 for all channels where a pool's window has no pixel of the map, as dilated ones may, and return 1; write
 * nothing where it has some, and return 0. */
static BLRC_APART int32_t blrc_zero_if_empty(const blrc_span *down, const blrc_span *across, int32_t bits,
                                             int32_t channels, void *y)
{
    uint8_t *const bytes = (uint8_t *)y;
    int32_t i;

    if (down->first < down->end && across->first < across->end) {
        return 0;
    }
    for (i = 0; i < blrc_pixel_bytes(bits, channels); ++i) {
        bytes[i] = 0;
    }
    return 1;
}

/* Where bits are collected without gaps: those of `word` that are filled, less than 32, go to `to` next. */
typedef struct blrc_bit_run {
    uint32_t *to;
    uint32_t word;
    int32_t filled;
} blrc_bit_run;

static BLRC_INLINE void blrc_append_bits(blrc_bit_run *run, uint32_t bits, int32_t count)
{
    run->word |= bits << run->filled;
    run->filled += count;
    if (run->filled >= 32) {
        run->filled -= 32;
        *run->to++ = run->word;
        run->word = run->filled > 0 ? bits >> (count - run->filled) : 0;
    }
}

/* How sums become codes of `bits` bits: by limits, 2^bits - 1 for each row, which never rise; or, where there are
 * `scales`, by a multiplier and an offset of 64 bits, its lower half first: (offset - multiplier v) / 2^shift. The
 * shift stands before those of the first row. */
typedef struct blrc_level_rule {
    int32_t bits;
    BLRC_TABLE(blrc_level_limit) limits;
    BLRC_TABLE(int32_t) scales;
} blrc_level_rule;

/* How many limits of a row v does not exceed. */
static BLRC_INLINE uint32_t blrc_code_of(const blrc_level_rule *rule, int32_t v, int32_t row)
{
    const int32_t most = (int32_t)(((int32_t)1 << rule->bits) - 1);
    int32_t code = 0, half;

    if (rule->scales != 0) {
        BLRC_TABLE(int32_t) const own = BLRC_SKIP(int32_t, rule->scales, 3 * row + 1);
        const int64_t offset = (int64_t)BLRC_READ(int32_t, own, 2) * 4294967296 + (uint32_t)BLRC_READ(int32_t, own, 1);
        const int64_t scaled = offset - (int64_t)BLRC_READ(int32_t, own, 0) * v;
        const int32_t shift = BLRC_READ(int32_t, rule->scales, 0);

        if (scaled < 0) {
            return 0;
        }
        if (shift >= 32) { /* mostly: CPUs of 32 bits shift one word then */
            code = (int32_t)(scaled >> 32) >> (shift - 32);
            return (uint32_t)(code > most ? most : code);
        }
        return (uint32_t)(scaled >> shift > most ? most : scaled >> shift);
    }
    for (half = (most + 1) / 2; half != 0; half >>= 1) {
        if (v <= BLRC_READ(blrc_level_limit, rule->limits, row * most + code + half - 1)) {
            code += half;
        }
    }
    return (uint32_t)code;
}

/* Put the code of channel c into a pixel that was cleared; `words` are those of a plane. */
static BLRC_INLINE void blrc_put_code(int32_t bits, int32_t words, uint32_t code, int32_t c, void *y)
{
    if (bits > BLRC_MOST_PLANES) {
        ((uint8_t *)y)[c] = (uint8_t)code;
    } else {
        uint32_t *to = (uint32_t *)y + c / 32;

        for (; code != 0; code >>= 1, to += words) {
            *to |= (code & 1u) << (c % 32);
        }
    }
}

/* The codes of the channels first <= c < first + 32 of a pixel, or of those that there are; their number. */
static inline int32_t blrc_get_codes(int32_t bits, int32_t channels, int32_t first, const void *x, uint8_t *codes)
{
    const int32_t count = channels - first < 32 ? channels - first : 32, words = blrc_words(channels);
    const uint32_t *const planes = (const uint32_t *)x + first / 32;
    int32_t c, p;

    for (c = 0; c < count; ++c) {
        uint32_t code = 0;

        for (p = 0; bits <= BLRC_MOST_PLANES && p < bits; ++p) {
            code |= ((planes[p * words] >> c) & 1u) << p;
        }
        codes[c] = bits > BLRC_MOST_PLANES ? ((const uint8_t *)x)[first + c] : (uint8_t)code;
    }
    return count;
}

#endif
