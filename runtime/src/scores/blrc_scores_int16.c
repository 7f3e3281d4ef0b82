/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Scores: int16 weights on +-1 inputs. */
#include "blrc_scores.h"

void blrc_scores_int16(int32_t pixels, int32_t channels, int32_t classes, const uint32_t *x,
                       BLRC_TABLE(int16_t) weights, BLRC_TABLE(int32_t) bias, int32_t *y)
{
    blrc_scores(16, pixels, channels, classes, x, 0, weights, bias, y);
}
