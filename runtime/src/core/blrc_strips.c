/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Which row of which convolution comes next, where several run together. No row is computed twice. */
#include "blrc_window.h"

/* Rows of the input that one row of the output is computed from. */
typedef struct blrc_strip_reads {
    int32_t kept;       /* rows before it are needed neither now nor later */
    int32_t first, end; /* rows first <= r < end are read; none where the windows see nothing but padding */
} blrc_strip_reads;

/* The convolution of row `row` alone: `part` has the geometry of the rows that it reads. The same taps are inside the
 * map as in the whole, so all sums are the same.
 *
 * What is read begins with the first window that counts, never behind it, so that no padding of `part` is negative:
 * kernels take remainders of it. `kept` is where the whole pooling window begins, also where it sees nothing there: so
 * it never goes back. */
static blrc_strip_reads blrc_strip_rows(const blrc_conv *op, int32_t row, blrc_conv *part)
{
    const blrc_window *win = &op->window;
    const int32_t top = row * op->pool.stride_y - op->pool.pad_y;
    const blrc_span taps = blrc_inside_here(top, op->pool.dilation_y, op->pool.kernel_y, op->map_height);
    const int32_t first = top + taps.first * op->pool.dilation_y; /* rows of the map before pooling */
    const int32_t last = top + (taps.end - 1) * op->pool.dilation_y;
    const int32_t start = first * win->stride_y - win->pad_y;
    const int32_t end = last * win->stride_y - win->pad_y + (win->kernel_y - 1) * win->dilation_y + 1;
    blrc_strip_reads rows;

    rows.kept = top * win->stride_y - win->pad_y;
    rows.kept = rows.kept > op->in_height ? op->in_height : rows.kept;
    rows.kept = rows.kept < 0 ? 0 : rows.kept;
    rows.first = start < 0 ? 0 : start;
    rows.end = end > op->in_height ? op->in_height : end;
    *part = *op;
    part->map_height = taps.first == taps.end ? 0 : last - first + 1;
    part->out_height = 1;
    part->pool.pad_y = first - top;
    part->window.pad_y = start < 0 ? -start : 0;
    if (taps.first == taps.end || rows.end <= rows.first) { /* padding only */
        rows.first = rows.end = rows.kept;
    }
    part->in_height = rows.end - rows.first;
    return rows;
}

static int32_t blrc_strip_words(const blrc_conv *op)
{
    return op->out_width * blrc_words(op->out_channels);
}

/* Move the rows that the next convolution still needs to the front. */
static void blrc_strip_shift(blrc_strip *strip, int32_t needed)
{
    const int32_t words = blrc_strip_words(strip->op);
    uint32_t *to = strip->y;
    const uint32_t *from;
    int32_t i;

    needed = needed > strip->done ? strip->done : needed;
    from = strip->y + (needed - strip->first) * words;
    for (i = (strip->done - needed) * words; i > 0; --i) {
        *to++ = *from++;
    }
    strip->first = needed;
}

int32_t blrc_strips_next(blrc_strip *strips, int32_t count, const void *x, int32_t x_row, blrc_conv *part,
                         const void **from, uint32_t **to)
{
    blrc_strip *strip = strips + count - 1;
    blrc_strip_reads rows;

    /* From the last one up: who is done, or lacks rows, leaves it to the one before. (Rows that nobody needs are
     * computed too, at the end: a self-test looks at them.) */
    for (;;) {
        if (strip->done < strip->op->out_height) {
            rows = blrc_strip_rows(strip->op, strip->done, part);
            if (strip == strips || strip[-1].done >= rows.end) {
                break;
            }
        } else if (strip == strips) {
            return -1;
        }
        --strip;
    }
    if (strip->done - strip->first == strip->capacity) {
        const blrc_strip *const next = strip + 1;
        const int32_t all = next->done == next->op->out_height;

        blrc_strip_shift(strip, all ? strip->done : blrc_strip_rows(next->op, next->done, part).kept);
        rows = blrc_strip_rows(strip->op, strip->done, part);
    }
    if (strip == strips) {
        *from = (const uint8_t *)x + rows.first * x_row;
    } else if (rows.first == rows.end) {
        *from = strip[-1].y; /* nothing is read: the row need not be there */
    } else {
        *from = strip[-1].y + (rows.first - strip[-1].first) * blrc_strip_words(strip[-1].op);
    }
    *to = strip->y + (strip->done - strip->first) * blrc_strip_words(strip->op);
    ++strip->done;
    return (int32_t)(strip - strips);
}
