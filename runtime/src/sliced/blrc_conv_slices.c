/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary 3x3 convolution, bit-sliced: 32 pixels at once, in the lanes of a word (blrc_slices.h). */
#include "blrc_step_word.h"

#include "blrc_slices.h"

void blrc_conv_slices(const blrc_conv *op, const uint32_t *x, BLRC_TABLE(uint16_t) lists, BLRC_TABLE(uint16_t) limits,
                      uint32_t *scratch, uint32_t *y)
{
    blrc_slice(op, x, lists, limits, scratch, y);
}
