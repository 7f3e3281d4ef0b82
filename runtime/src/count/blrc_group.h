/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* The words that one group of channels sees of a pixel. Groups need not start at a word. */
#ifndef BLRC_GROUP_H
#define BLRC_GROUP_H

#include "blrc_window.h"

/* Copy the words first <= i < end of the group's bits bit <= b < bit + channels of `pixel` (`words` words) to `to`.
 *
 * Bits of a neighbouring group would be counted as differences, so everything past the group's own bits is cleared. */
static BLRC_INLINE void blrc_group_words_here(const uint32_t *pixel, int32_t words, int32_t bit, int32_t channels,
                                              int32_t first, int32_t end, uint32_t *to)
{
    const int32_t shift = bit % 32;
    int32_t i;

    for (i = first; i < end; ++i) {
        const int32_t at = bit / 32 + i;
        const int32_t rest = channels - 32 * i;
        uint32_t v = pixel[at] >> shift;

        if (shift != 0 && at + 1 < words) {
            v |= pixel[at + 1] << (32 - shift);
        }
        if (rest < 32) {
            v &= ((uint32_t)1 << (rest & 31)) - 1; /* rest is 1 to 31 */
        }
        *to++ = v;
    }
}

/* The same, compiled once where compilers prefer that. */
static inline void blrc_group_words(const uint32_t *pixel, int32_t words, int32_t bit, int32_t channels, int32_t first,
                                    int32_t end, uint32_t *to)
{
    blrc_group_words_here(pixel, words, bit, channels, first, end, to);
}

#endif
