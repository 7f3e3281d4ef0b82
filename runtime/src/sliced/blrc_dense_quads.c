/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Dense layer on bits, 128 outputs at once (blrc_columns.h), for CPUs with vectors (blrc_quad.h). */
#include "blrc_step_quad.h"

#include "blrc_columns.h"

void blrc_dense_quads(int32_t inputs, int32_t outputs, int32_t planes, const uint32_t *x,
                      BLRC_TABLE(uint32_t) columns, BLRC_TABLE(uint32_t) limits, uint32_t *scratch, uint32_t *y)
{
    blrc_add_up(inputs, outputs, planes, x, columns, limits, scratch, y);
}
