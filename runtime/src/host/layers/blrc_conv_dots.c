/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution of 8-bit codes with +-1 weights on hosts. The whole input is copied once as codes with the padding
 * around it, so that a window's codes lie at fixed distances wherever it is. */
#include "blrc_dots.h"
#include "blrc_window.h"

/* Columns of the copy: to the end of the last window, or of the input where that sees less; and its rows likewise. */
static int32_t blrc_reach(int32_t map, int32_t stride, int32_t kernel, int32_t dilation, int32_t pad, int32_t size)
{
    const int32_t seen = (map - 1) * stride + (kernel - 1) * dilation + 1;

    return seen > pad + size ? seen : pad + size;
}

/* Codes of one row of the input, with 128 added. */
static void blrc_copy_codes(const blrc_conv *op, const void *x, const int8_t *table, int32_t table_rows, int32_t row,
                            uint8_t *to)
{
    const int32_t channels = op->in_channels, count = op->in_width * channels, first = row * count;
    int32_t i, c;

    if (table == 0) {
        const int8_t *const from = (const int8_t *)x + first;

        for (i = 0; i < count; ++i) {
            to[i] = (uint8_t)(from[i] + 128);
        }
    } else {
        const uint8_t *const from = (const uint8_t *)x + first;

        if (table_rows == 1) {
            for (i = 0; i < count; ++i) {
                to[i] = (uint8_t)(table[from[i]] + 128);
            }
        } else {
            for (i = 0; i < count; i += channels) {
                for (c = 0; c < channels; ++c) {
                    to[i + c] = (uint8_t)(table[256 * c + from[i + c]] + 128);
                }
            }
        }
    }
}

/* Runs what is there; a last tile that is not full gets its last pixel again, whose bits are the same again. */
static void blrc_dots_flush(int32_t tier, const blrc_dots *in, blrc_dots_batch *batch)
{
    if (batch->count == 0) {
        return;
    }
    for (; batch->count % BLRC_DOTS_PIXELS != 0; ++batch->count) {
        batch->x[batch->count] = batch->x[batch->count - 1];
        batch->y[batch->count] = batch->y[batch->count - 1];
    }
    blrc_dots_run(tier, in, batch);
    batch->count = 0;
}

/* All pooling windows are 2x2 pixels, and lie inside. */
static int32_t blrc_is_pooled_by_four(const blrc_conv *op)
{
    const blrc_window *pool = &op->pool;

    return pool->kernel_y == 2 && pool->kernel_x == 2 && pool->dilation_y == 1 && pool->dilation_x == 1 &&
           pool->pad_y == 0 && pool->pad_x == 0 && (op->out_height - 1) * pool->stride_y + 2 <= op->map_height &&
           (op->out_width - 1) * pool->stride_x + 2 <= op->map_width;
}

static void blrc_by_four(const blrc_conv *op, int32_t tier, const blrc_dots *in, const uint8_t *codes, int32_t pitch,
                         uint32_t *y, blrc_dots_batch *batch)
{
    const int32_t right = op->window.stride_x * op->in_channels, down = op->window.stride_y * pitch;
    const int32_t step = op->pool.stride_x * right;
    int32_t oy, ox;

    for (oy = 0; oy < op->out_height; ++oy) {
        const uint8_t *at = codes + oy * op->pool.stride_y * down;

        for (ox = 0; ox < op->out_width; ++ox, at += step, y += in->blocks) {
            const uint8_t **const x = batch->x + batch->count;

            x[0] = at;
            x[1] = at + right;
            x[2] = at + down;
            x[3] = at + down + right;
            batch->y[batch->count] = y;
            batch->count += BLRC_DOTS_PIXELS;
            if (batch->count == BLRC_DOTS_PIXELS * BLRC_DOTS_BATCH) {
                blrc_dots_flush(tier, in, batch);
            }
        }
    }
}

static void blrc_any_windows(const blrc_conv *op, int32_t tier, const blrc_dots *in, const uint8_t *codes,
                             int32_t pitch, uint32_t *y, blrc_dots_batch *batch)
{
    const blrc_window *win = &op->window, *pool = &op->pool;
    int32_t oy, ox, py, px;

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span vertical = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ++ox, y += in->blocks) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

            for (py = vertical.first; py < vertical.end; ++py) {
                const uint8_t *const row = codes + (top + py * pool->dilation_y) * win->stride_y * pitch;

                for (px = across.first; px < across.end; ++px) {
                    batch->x[batch->count] = row + (left + px * pool->dilation_x) * win->stride_x * op->in_channels;
                    batch->y[batch->count] = y;
                    if (++batch->count == BLRC_DOTS_PIXELS * BLRC_DOTS_BATCH) {
                        blrc_dots_flush(tier, in, batch);
                    }
                }
            }
            if (batch->together) {
                for (; batch->count % BLRC_DOTS_PIXELS != 0; ++batch->count) {
                    batch->x[batch->count] = batch->x[batch->count - 1];
                }
                if (batch->count == BLRC_DOTS_PIXELS * BLRC_DOTS_BATCH) {
                    blrc_dots_flush(tier, in, batch);
                }
            }
        }
    }
}

void blrc_conv_dots(const blrc_conv *op, const void *x, const int8_t *table, int32_t table_rows, const int32_t *offsets,
                    int32_t quads, const int8_t *weights, const int32_t *thresholds, uint32_t *scratch, uint32_t *y)
{
    const blrc_window *win = &op->window;
    const int32_t words = blrc_words(op->out_channels), tier = blrc_tier();
    const int32_t height = blrc_reach(op->map_height, win->stride_y, win->kernel_y, win->dilation_y, win->pad_y,
                                      op->in_height);
    const int32_t pitch = op->in_channels * blrc_reach(op->map_width, win->stride_x, win->kernel_x, win->dilation_x,
                                                       win->pad_x, op->in_width);
    uint8_t *const codes = (uint8_t *)scratch;
    blrc_dots_batch batch;
    blrc_dots in;
    int32_t row;

    in.offsets = offsets, in.quads = quads, in.weights = weights, in.thresholds = thresholds, in.blocks = words;
    memset(codes, 128, (size_t)(height * pitch) + 4); /* the last quad may end behind */
    for (row = 0; row < op->in_height; ++row) {
        blrc_copy_codes(op, x, table, table_rows, row,
                        codes + (row + win->pad_y) * pitch + win->pad_x * op->in_channels);
    }
    memset(y, 0, (size_t)(op->out_height * op->out_width * words) * sizeof *y);
    batch.count = 0;
    batch.together = op->pool.kernel_y * op->pool.kernel_x > 1;
    if (op->map_height * op->map_width == 1 && op->out_height * op->out_width == 1) {
        batch.count = 1;
        batch.together = 0;
        batch.x[0] = codes;
        batch.y[0] = y;
        blrc_dots_run(tier, &in, &batch);
        return;
    }
    if (blrc_is_pooled_by_four(op)) {
        blrc_by_four(op, tier, &in, codes, pitch, y, &batch);
    } else {
        blrc_any_windows(op, tier, &in, codes, pitch, y, &batch);
    }
    blrc_dots_flush(tier, &in, &batch);
}
