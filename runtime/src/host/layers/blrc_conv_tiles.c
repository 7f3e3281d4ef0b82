/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Binary convolution on hosts: pixels in tiles. Rows of the input are copied once, with the padding around them, so
 * that a window's taps lie in kernel_y runs wherever it is. */
#include "blrc_tile.h"
#include "blrc_window.h"

#include <string.h>

/* Rows of the input as the kernel sees them; row r lies in place r % rows. */
typedef struct blrc_lines {
    int32_t rows, words; /* that it holds; of one padded row */
    uint32_t line[BLRC_TILE_LINES];
    int32_t held[BLRC_TILE_HELD];
} blrc_lines;

/* Pixels of a padded row: to the end of the last window, or of the input where that sees less. */
static int32_t blrc_padded(const blrc_conv *op)
{
    const blrc_window *win = &op->window;
    const int32_t seen = (op->map_width - 1) * win->stride_x + (win->kernel_x - 1) * win->dilation_x + 1;
    const int32_t there = win->pad_x + op->in_width;

    return seen > there ? seen : there;
}

/* The padded row r of the input; where r lies outside, zeros. */
static const uint32_t *blrc_line(const blrc_conv *op, const uint32_t *x, int32_t r, blrc_lines *lines)
{
    const int32_t words = blrc_words(op->in_channels);
    const int32_t inside = op->in_width * words;
    const int32_t outside = r < 0 || r >= op->in_height;
    const int32_t place = outside ? lines->rows : r % lines->rows;
    uint32_t *const line = lines->line + place * lines->words;

    if (!outside && lines->held[place] != r) {
        lines->held[place] = r;
        memcpy(line + op->window.pad_x * words, x + r * inside, (size_t)inside * sizeof *x);
    }
    return line;
}

/* The run of the window at `left` of the padded rows. */
static void blrc_gather(const blrc_window *win, int32_t words, const uint32_t *const *rows, int32_t left, uint32_t *run)
{
    const int32_t length = win->kernel_x * words;
    int32_t t, s;

    if (win->dilation_x == 1) {
        for (t = 0; t < win->kernel_y; ++t) {
            const uint32_t *const from = rows[t] + left * words;

            /* Of a constant size it is a load and a store; what is too much is overwritten, or lies in the slack. */
            if (length <= 4) {
                memcpy(run, from, 16);
            } else {
                memcpy(run, from, (size_t)length * sizeof *run);
            }
            run += length;
        }
    } else {
        for (t = 0; t < win->kernel_y; ++t) {
            for (s = 0; s < win->kernel_x; ++s, run += words) {
                memcpy(run, rows[t] + (left + s * win->dilation_x) * words, (size_t)words * sizeof *run);
            }
        }
    }
}

void blrc_conv_tiles(const blrc_conv *op, const uint32_t *x, const uint32_t *weights, const uint8_t *bytes,
                     const int32_t *limits, const int32_t *places, uint32_t *y)
{
    const blrc_window *win = &op->window, *pool = &op->pool;
    const int32_t tier = blrc_tier();
    const int32_t words = blrc_words(op->in_channels), out_words = blrc_words(op->out_channels);
    const int32_t total = win->kernel_y * win->kernel_x * words;
    const uint32_t *rows[BLRC_TILE_HELD];
    uint32_t run[BLRC_TILE_PIXELS][BLRC_TILE_RUN];
    blrc_lines lines;
    blrc_tile tile;
    int32_t oy, ox, py, px, t;

    memset(y, 0, (size_t)(op->out_height * op->out_width * out_words) * sizeof *y);
    lines.rows = (win->kernel_y - 1) * win->dilation_y + 1;
    lines.words = blrc_padded(op) * words;
    memset(lines.line, 0, (size_t)((lines.rows + 1) * lines.words) * sizeof *lines.line);
    for (t = 0; t < lines.rows; ++t) {
        lines.held[t] = -1;
    }
    tile.units = (total + 1) / 2;
    tile.blocks = out_words;
    tile.weights = weights;
    tile.bytes = bytes;
    tile.pixels = 0;
    for (t = 0; t < BLRC_TILE_PIXELS; ++t) {
        tile.run[t] = run[t];
    }
    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span vertical = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (py = vertical.first; py < vertical.end; ++py) {
            const int32_t my = top + py * pool->dilation_y;

            for (t = 0; t < win->kernel_y; ++t) {
                rows[t] = blrc_line(op, x, my * win->stride_y - win->pad_y + t * win->dilation_y, &lines);
            }
            for (ox = 0; ox < op->out_width; ++ox) {
                const int32_t left = ox * pool->stride_x - pool->pad_x;
                const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

                for (px = across.first; px < across.end; ++px) {
                    const int32_t mx = left + px * pool->dilation_x;
                    uint32_t *const to = run[tile.pixels];

                    blrc_gather(win, words, rows, mx * win->stride_x, to);
                    to[total] = 0;
                    tile.limit[tile.pixels] =
                        limits + (places[my] + places[op->map_height + mx]) * BLRC_TILE_ROWS * tile.blocks;
                    tile.y[tile.pixels] = y + (oy * op->out_width + ox) * out_words;
                    if (++tile.pixels == BLRC_TILE_PIXELS) {
                        blrc_tile_run(tier, &tile);
                        tile.pixels = 0;
                    }
                }
            }
        }
    }
    if (tile.pixels > 0) {
        blrc_tile_run(tier, &tile);
    }
}
