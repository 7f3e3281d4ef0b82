/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary 3x3 convolution, bit-sliced (blrc_slices.h), in quads of words: 128 pixels at once, for CPUs with vectors
 * (blrc_quad.h). Other CPUs compute the same, word by word. */
#include "blrc_step_quad.h"

#include "blrc_slices.h"

void blrc_conv_quads(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint16_t) lists, BLRC_TABLE(uint16_t) limits,
                     uint32_t *scratch, uint32_t *y)
{
    blrc_slice(op, x, lists, limits, scratch, y);
}
