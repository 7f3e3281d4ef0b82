/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Dense layer on hosts: a tile of one pixel, whose run is the whole map. */
#include "blrc_tile.h"
#include "blrc_window.h"

#include <string.h>

void blrc_dense_tiles(int32_t words, int32_t outputs, const uint32_t *x, const uint32_t *weights, const int32_t *limits,
                      uint32_t *y)
{
    blrc_tile tile;

    tile.run[0] = x;
    tile.limit[0] = limits;
    tile.y[0] = y;
    tile.pixels = 1;
    tile.units = words / 2;
    tile.blocks = blrc_words(outputs);
    tile.weights = weights;
    tile.bytes = 0;
    memset(y, 0, (size_t)tile.blocks * sizeof *y);
    blrc_tile_run(blrc_tier(), &tile);
}
