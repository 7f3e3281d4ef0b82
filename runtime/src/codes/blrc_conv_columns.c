/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of 8-bit codes with +-1 weights, for first layers with few codes in a kernel row: two pixels of a row at
 * once (blrc_pairs.h), from the top of the map to its bottom.
 *
 * The 16 sums of a kernel row's codes, at most four, are tabulated once for each row of the map, and serve all kernel
 * rows that come to lie there. */
#include "blrc_pairs.h"

/* Two columns of the map, and where the sums of map rows lie: those of row r in place r % kernel_y. */
typedef struct blrc_columns {
    int32_t column, further; /* of the windows' first taps; from the one to the other */
    int32_t done;            /* sums of the rows before it are there, as many as the kernel has */
    BLRC_ALIGNED(4) uint32_t sums[BLRC_CODES / 4 * 16];
} blrc_columns;

static BLRC_APART void blrc_tabulate_row(const blrc_conv *op, const blrc_pair_input *in, int32_t y,
                                         const blrc_columns *columns, uint32_t *sums)
{
    /* The codes lie where their sums will. */
    sums[3] = 0;
    blrc_row_codes(op, in, y, columns->column, columns->further, sums);
    blrc_tabulate_four(sums[0], sums[1], sums[2], sums[3], sums);
}

/* OR the bits of the two map pixels of row my into y and y + other. */
static void blrc_pair_of_columns(const blrc_conv *op, const blrc_pair_input *in, int32_t my, blrc_columns *columns,
                                 BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts, uint32_t *y, int32_t other)
{
    const int32_t kernel = op->window.kernel_y, top = my * op->window.stride_y - op->window.pad_y;
    const int32_t above = kernel * op->window.pad_y; /* so that the place of no row is negative */
    int32_t c;

    if (top < columns->done - kernel || top > columns->done) {
        columns->done = top;
    }
    for (; columns->done < top + kernel; ++columns->done) {
        uint32_t *const sums = columns->sums + 16 * ((columns->done + above) % kernel);

        blrc_tabulate_row(op, in, columns->done, columns, sums);
    }
    for (c = 0; c < op->out_channels; c += 8) {
        const uint32_t bits = blrc_eight_rows(weights, columns->sums + 16 * ((top + above) % kernel), columns->sums,
                                              kernel, BLRC_SKIP(uint32_t, starts, c));

        y[c / 32] |= ((bits >> 8) & 0xFFu) << (c % 32);
        y[c / 32 + other] |= (bits >> 24) << (c % 32);
        weights = BLRC_SKIP(uint32_t, weights, kernel);
    }
}

/* All map rows of the columns mx and mx + across, whose outputs are those of y and of y + other. */
static void blrc_two_columns(const blrc_conv *op, const blrc_pair_input *in, int32_t mx, int32_t across,
                             BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts, uint32_t *y, int32_t other)
{
    const blrc_window *pool = &op->pool;
    blrc_columns columns;
    int32_t oy, py;

    columns.column = mx * op->window.stride_x - op->window.pad_x;
    columns.further = across * op->window.stride_x;
    columns.done = -2 * (op->window.pad_y + op->window.kernel_y); /* none */
    for (oy = 0; oy < op->out_height; ++oy, y += op->out_width * blrc_words(op->out_channels)) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span vertical = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (py = vertical.first; py < vertical.end; ++py) {
            blrc_pair_of_columns(op, in, top + py * pool->dilation_y, &columns, weights, starts, y, other);
        }
    }
}

void blrc_conv_columns(const blrc_conv *op, const void *x, BLRC_TABLE(int8_t) table, int32_t table_rows,
                       BLRC_TABLE(uint32_t) weights, BLRC_TABLE(uint32_t) starts, uint32_t *y)
{
    const blrc_window *pool = &op->pool;
    const blrc_pair_input in = {x, table, table_rows == 1 ? 0 : 256};
    const int32_t words = blrc_words(op->out_channels);
    int32_t ox, px, waiting = 0, column = 0, at = 0;

    for (ox = 0; ox < op->out_height * op->out_width * words; ++ox) {
        y[ox] = 0;
    }
    /* Columns in the order in which the windows of a row see them, two and two. */
    for (ox = 0; ox < op->out_width; ++ox) {
        const int32_t left = ox * pool->stride_x - pool->pad_x;
        const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

        for (px = across.first; px < across.end; ++px) {
            const int32_t mx = left + px * pool->dilation_x, to = ox * words;

            if (waiting != 0) {
                blrc_two_columns(op, &in, column, mx - column, weights, starts, y + at, to - at);
            }
            waiting ^= 1;
            column = mx;
            at = to;
        }
    }
    if (waiting != 0) { /* the last of an odd number, twice */
        blrc_two_columns(op, &in, column, 0, weights, starts, y + at, 0);
    }
}
