/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* The label: ties go to the first class. */
#include "blrc.h"

int32_t blrc_argmax(int32_t count, const int32_t *scores)
{
    int32_t best = 0;
    int32_t i;

    for (i = 1; i < count; ++i) {
        if (scores[i] > scores[best]) {
            best = i;
        }
    }
    return best;
}
