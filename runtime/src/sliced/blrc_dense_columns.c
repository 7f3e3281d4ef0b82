/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Dense layer on bits, 32 outputs at once (blrc_columns.h). */
#include "blrc_step_word.h"

#include "blrc_columns.h"

void blrc_dense_columns(int32_t inputs, int32_t outputs, int32_t planes, const uint32_t *x,
                        BLRC_TABLE(uint32_t) columns, BLRC_TABLE(uint32_t) limits, uint32_t *scratch, uint32_t *y)
{
    blrc_add_up(inputs, outputs, planes, x, columns, limits, scratch, y);
}
