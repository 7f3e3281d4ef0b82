/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Checks the runtime's inline parts against plain loops: windows, popcount, dot products over every range of a row.
 * Returns 0, or the line of the first check that fails. Built by tests/test_runtime_parts.py in several ways. */
#include "blrc_dot.h"
#include "blrc_group.h"
#include "blrc_window.h"

#define REQUIRE(condition) \
    do {                   \
        if (!(condition))  \
            return __LINE__; \
    } while (0)

static uint32_t state = 1;

static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static uint32_t plain_popcount(uint32_t v)
{
    uint32_t count = 0;
    int32_t bit;

    for (bit = 0; bit < 32; ++bit) {
        count += (v >> bit) & 1u;
    }
    return count;
}

static int check_windows(void)
{
    int32_t origin, step, count, size, t;

    for (origin = -9; origin <= 9; ++origin)
        for (step = 1; step <= 4; ++step)
            for (count = 1; count <= 6; ++count)
                for (size = 1; size <= 9; ++size) {
                    const blrc_span span = blrc_inside(origin, step, count, size);

                    REQUIRE(span.first >= 0 && span.first <= span.end && span.end <= count);
                    for (t = 0; t < count; ++t) {
                        const int32_t inside = origin + t * step >= 0 && origin + t * step < size;

                        REQUIRE((t >= span.first && t < span.end) == inside);
                    }
                }
    return 0;
}

static int check_popcount(void)
{
    uint32_t i;

    for (i = 0; i < 65536; ++i) {
        REQUIRE(blrc_popcount(i) == plain_popcount(i));
        REQUIRE(blrc_popcount(i << 16) == plain_popcount(i));
        REQUIRE(blrc_popcount(~i) == plain_popcount(~i));
    }
    return 0;
}

/* Word i of row r in a block of `total` words a row: pairs of words of four rows, then an odd last word. */
static uint32_t at(const uint32_t *w, int32_t total, int32_t r, int32_t i)
{
    return i == total - 1 && total % 2 != 0 ? w[4 * i + r] : w[8 * (i / 2) + 2 * r + i % 2];
}

static int check_dot(int32_t total)
{
    uint32_t x[70], w[4 * 70], acc[4];
    int32_t first, end, r, i;
    int32_t extreme;

    /* Random words, then words that differ everywhere: the most that byte counters must hold. */
    for (extreme = 0; extreme < 2; ++extreme) {
        for (i = 0; i < total; ++i) {
            x[i] = extreme ? 0xFFFFFFFFu : next();
        }
        for (i = 0; i < 4 * total; ++i) {
            w[i] = extreme ? 0 : next();
        }
        for (first = 0; first <= total; ++first)
            for (end = first; end <= total; ++end) {
                acc[0] = 1, acc[1] = 2, acc[2] = 3, acc[3] = 4;
                blrc_dot4_range(x + first, w, first, end, total, acc);
                for (r = 0; r < 4; ++r) {
                    uint32_t expected = (uint32_t)r + 1;

                    for (i = first; i < end; ++i) {
                        expected += plain_popcount(x[i] ^ at(w, total, r, i));
                    }
                    REQUIRE(acc[r] == expected);
                }
            }
        acc[0] = acc[1] = acc[2] = acc[3] = 0;
        blrc_dot4_all(x, w, total, acc);
        for (r = 0; r < 4; ++r) {
            uint32_t expected = 0;

            for (i = 0; i < total; ++i) {
                expected += plain_popcount(x[i] ^ at(w, total, r, i));
            }
            REQUIRE(acc[r] == expected);
        }
        {
            uint32_t expected = 0;

            for (i = 0; i < total; ++i) {
                expected += plain_popcount(x[i] ^ w[i]);
            }
            REQUIRE(blrc_dot1(x, w, total) == expected);
        }
    }
    return 0;
}

static int check_pass(void)
{
    int32_t n, t, pop;

    for (n = 0; n <= 12; ++n)
        for (t = -n; t <= n + 2; ++t)
            for (pop = 0; pop <= n; ++pop) {
                const int32_t threshold = t == n + 2 ? INT32_MAX : t; /* the padding of a table: never */
                const uint32_t acc[4] = {(uint32_t)pop, 0, (uint32_t)n, (uint32_t)pop};
                const int32_t thresholds[4] = {threshold, threshold, threshold, threshold};
                const uint32_t bit = n - 2 * pop >= threshold, zero = n >= threshold, full = -n >= threshold;

                REQUIRE(blrc_pass4(acc, n, thresholds) == (bit | zero << 1 | full << 2 | bit << 3));
            }
    return 0;
}

static int check_groups(void)
{
    uint32_t pixel[4], to[4];
    int32_t words, bit, channels, i, b;

    for (i = 0; i < 4; ++i) {
        pixel[i] = next();
    }
    for (words = 1; words <= 4; ++words)
        for (bit = 0; bit < 32 * words; ++bit)
            for (channels = 1; channels <= 32 * words - bit; ++channels) {
                blrc_group_words(pixel, words, bit, channels, 0, blrc_words(channels), to);
                for (b = 0; b < 32 * blrc_words(channels); ++b) {
                    const uint32_t expected =
                        b < channels ? pixel[(bit + b) / 32] >> ((bit + b) % 32) & 1u : 0;

                    REQUIRE((to[b / 32] >> (b % 32) & 1u) == expected);
                }
            }
    return 0;
}

int main(void)
{
    int32_t total;
    int failed = check_windows();

    failed = failed ? failed : check_popcount();
    failed = failed ? failed : check_pass();
    failed = failed ? failed : check_groups();
    for (total = 1; total <= 12 && !failed; ++total) {
        failed = check_dot(total);
    }
    for (total = 29; total <= 34 && !failed; ++total) {
        failed = check_dot(total);
    }
    failed = failed ? failed : check_dot(69);
    /* An exit status has 8 bits. */
    return failed > 255 ? 255 : failed;
}
