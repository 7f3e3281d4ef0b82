/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Raw input to codes, where more than one layer reads them (else the layer that reads them looks them up). */
#include "blrc.h"

void blrc_encode(int32_t pixels, int32_t channels, const uint8_t *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                 int8_t *y)
{
    int32_t i, c;

    for (i = 0; i < pixels; ++i) {
        for (c = 0; c < channels; ++c) {
            *y++ = BLRC_READ(int8_t, table, (table_rows == 1 ? 0 : c) * 256 + (int32_t)*x++);
        }
    }
}
