/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of three codes with weights of -1, 0 and +1. */
#ifndef BLRC_THREES_H
#define BLRC_THREES_H

#include "blrc.h"

#define BLRC_THREES ((BLRC_CODES + 2) / 3) /* that are tabulated at a time */
#define BLRC_SUMS_OF_THREE 27
#define BLRC_ROWS_OF_THREES 6 /* whose threes share a word */

/* The sums of every three codes with weights -1, 0 and +1, those of the first code changing fastest: from the last
 * three on, so that no code is overwritten before it is read. */
static void blrc_tabulate_threes(int32_t threes, uint32_t *sums)
{
    while (--threes >= 0) {
        const uint32_t a = sums[3 * threes], b = sums[3 * threes + 1], c = sums[3 * threes + 2];
        uint32_t *to = sums + BLRC_SUMS_OF_THREE * threes, sum = 0 - b - c;
        int32_t i;

        for (i = 0; i < 3; ++i, to += 9, sum += c - 3 * b) {
            to[0] = sum - a, to[1] = sum, to[2] = sum + a;
            sum += b;
            to[3] = sum - a, to[4] = sum, to[5] = sum + a;
            sum += b;
            to[6] = sum - a, to[7] = sum, to[8] = sum + a;
            sum += b;
        }
    }
}

#endif
