/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* A hash over elements: what a device and the reference compare after each layer. */
#include "blrc.h"

static uint32_t blrc_digest_next(uint32_t state, uint32_t element)
{
    state ^= element;
    state ^= state >> 16; /* high bits come down to where the product spreads them */
    return (state * 2654435761u) & 0xFFFFFFFFu;
}

uint32_t blrc_digest_bits(uint32_t words, const uint32_t *map)
{
    return blrc_digest_more(BLRC_DIGEST_START, words, map);
}

uint32_t blrc_digest_more(uint32_t state, uint32_t words, const uint32_t *map)
{
    for (; words > 0; --words) {
        state = blrc_digest_next(state, *map++);
    }
    return state;
}

uint32_t blrc_digest_int8(uint32_t count, const int8_t *map)
{
    uint32_t state = BLRC_DIGEST_START;

    for (; count > 0; --count) {
        state = blrc_digest_next(state, (uint32_t)(int32_t)*map++);
    }
    return state;
}

uint32_t blrc_digest_int32(uint32_t count, const int32_t *map)
{
    uint32_t state = BLRC_DIGEST_START;

    for (; count > 0; --count) {
        state = blrc_digest_next(state, (uint32_t)*map++);
    }
    return state;
}
