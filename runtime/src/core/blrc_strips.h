/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolutions that run together, row by row: of the maps between them only the rows in use are kept. */
#ifndef BLRC_STRIPS_H
#define BLRC_STRIPS_H

#include "blrc.h"

/* One of the convolutions, and how far it is. */
typedef struct blrc_strip {
    const blrc_conv *op;
    uint32_t *y;       /* its rows from `first` on */
    int32_t capacity;  /* rows that y holds: of the last convolution all, of others as many as the next one needs */
    int32_t first, done; /* rows first <= r < done of its output are there */
} blrc_strip;

#ifdef __cplusplus
extern "C" {
#endif

/* What to compute next: the index of a convolution, or -1 where all is done.
 *
 * x: the whole input of the first one, x_row bytes a row.
 * part: becomes the convolution of one row of the output, with the rows of the input that it needs.
 * from, to: become these rows, and the place of the result. */
int32_t blrc_strips_next(blrc_strip *strips, int32_t count, const void *x, int32_t x_row, blrc_conv *part,
                         const void **from, uint32_t **to);

#ifdef __cplusplus
}
#endif

#endif
