/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Checks blrc_run and blrc_run_real against plain loops: every number of words up to 50, at the edge of every threshold.
 * Returns 0, or the line of the first check that fails. Built by tests/test_runtime_parts.py in several ways. */
#include "blrc_run.h"
#include "blrc_run_real.h"

#define REQUIRE(condition) \
    do {                   \
        if (!(condition))  \
            return __LINE__; \
    } while (0)

#define MOST 50
#define OUTPUTS 36

static uint32_t state = 1;

static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static int32_t count(uint32_t v)
{
    int32_t bits = 0;

    for (; v != 0; v &= v - 1) {
        ++bits;
    }
    return bits;
}

/* Word i of output c in blocks of four rows: pairs of words, then an odd last word. */
static uint32_t at(const uint32_t *w, int32_t words, int32_t c, int32_t i)
{
    const uint32_t *const block = w + c / 4 * 4 * words;
    const int32_t r = c % 4;

    return i == words - 1 && words % 2 != 0 ? block[4 * i + r] : block[8 * (i / 2) + 2 * r + i % 2];
}

static int check(int32_t words, int extreme, int border)
{
    static uint32_t x[MOST], real[MOST], w[MOST * OUTPUTS];
    blrc_bit_threshold thresholds[OUTPUTS];
    uint32_t y[2] = {0, 0}, expected[2] = {0, 0};
    int32_t n = 0, c, i;

    for (i = 0; i < words; ++i) {
        x[i] = extreme ? 0xFFFFFFFFu : next();
        real[i] = border && !extreme ? next() | next() : border && i % 3 == 0 ? 0 : 0xFFFFFFFFu;
        n += count(real[i]);
    }
    for (i = 0; i < OUTPUTS * words; ++i) {
        w[i] = extreme ? 0 : next();
    }
    for (c = 0; c < OUTPUTS; ++c) {
        const int32_t above = c % 3; /* the threshold is the sum itself, or 1 or 2 more */
        int32_t z = n;

        for (i = 0; i < words; ++i) {
            z -= 2 * count((x[i] ^ at(w, words, c, i)) & real[i]);
        }
        thresholds[c] = (blrc_bit_threshold)(z + above);
        if (c % 7 == 0) { /* is 1 already */
            y[c / 32] |= (uint32_t)1 << (c % 32);
        }
        if (c % 7 == 0 || above == 0) {
            expected[c / 32] |= (uint32_t)1 << (c % 32);
        }
    }
    if (border) {
        blrc_run_real(n, words, 0, OUTPUTS, x, real, w, thresholds, y);
    } else {
        blrc_run(n, words, 0, OUTPUTS, x, w, thresholds, y);
    }
    REQUIRE(y[0] == expected[0] && y[1] == expected[1]);
    return 0;
}

int main(void)
{
    int32_t words, way;
    int failed = 0;

    for (words = 1; words <= MOST && !failed; ++words) {
        for (way = 0; way < 8 && !failed; ++way) {
            failed = check(words, way >= 6, way % 2);
        }
    }
    /* An exit status has 8 bits. */
    return failed > 255 ? 255 : failed;
}
