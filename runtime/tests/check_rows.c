/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Every run of words that blrc_conv_rows hands to the dot product lies in the map: an address outside it is undefined
 * even where nothing is read. Returns 0, or the line of the first check that fails. */
#include "blrc_dot.h"

static const uint32_t *map_start, *map_end;
static int32_t outside, seen;

static void watch(const uint32_t *x, const uint32_t *w, int32_t first, int32_t end, int32_t total, uint32_t *acc)
{
    ++seen;
    if (x < map_start || x > map_end || end - first > map_end - x) {
        ++outside;
    }
    if (outside == 0) {
        blrc_dot4_range(x, w, first, end, total, acc);
    }
}

#define blrc_dot4_range watch
#include "blrc_conv_rows.c"

#define REQUIRE(condition) \
    do {                   \
        if (!(condition))  \
            return __LINE__; \
    } while (0)

int main(void)
{
    /* In the middle of a larger array, so that addresses around the map can be compared. */
    static uint32_t around[3000], weights[4 * 9 * 4], y[400];
    static const blrc_bit_threshold thresholds[4] = {0, 0, 0, 0};
    int32_t pad, kernel;

    map_start = around + 1000;
    for (kernel = 1; kernel <= 3; ++kernel) {
        for (pad = 0; pad <= 5; ++pad) {
            const int32_t out = 4 + 2 * pad - kernel + 1;
            const blrc_conv op = {4,   4,   100, out, out, out, out, 4, 1, 4, {kernel, kernel, 1, 1, pad, pad, 1, 1},
                                  {1, 1, 1, 1, 0, 0, 1, 1}};

            map_end = map_start + 4 * 4 * 4;
            seen = 0;
            blrc_conv_rows(&op, map_start, weights, thresholds, y);
            REQUIRE(seen > 0);
            REQUIRE(outside == 0);
        }
    }
    return 0;
}
