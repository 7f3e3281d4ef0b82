/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Convolution that is bit-sliced up to the level that its table names, and in tiles elsewhere: a CPU that counts bits
 * in vectors (AVX-512) is faster by tiles, unless all lanes are pixels. */
#include "blrc_lanes.h"
#include "blrc_window.h"

#if BLRC_X86
/* Sets the lanes first <= column < end of a row. */
static void blrc_lane_mask(const blrc_lanes *in, int32_t mask, int32_t row, int32_t first, int32_t end)
{
    uint8_t *const at = blrc_lane_row(in, in->masks, mask, row);
    int32_t column;

    for (column = first; column < end; ++column) {
        at[column / 8] = (uint8_t)(at[column / 8] | 1 << column % 8);
    }
}

static void blrc_lane_masks(const blrc_lanes *in)
{
    int32_t mask, row;

    memset(in->masks, 0, (size_t)(BLRC_MASKS * in->plane));
    blrc_lane_mask(in, BLRC_HAS_LEFT, 0, 1, in->width);
    blrc_lane_mask(in, BLRC_HAS_RIGHT, 0, 0, in->width - 1);
    for (mask = BLRC_HAS_LEFT; mask <= BLRC_HAS_RIGHT; ++mask) {
        for (row = 1; row < in->height; ++row) {
            memcpy(blrc_lane_row(in, in->masks, mask, row), blrc_lane_row(in, in->masks, mask, 0), (size_t)in->pitch);
        }
    }
    memset(blrc_lane_row(in, in->masks, BLRC_HAS_ABOVE, 1), 255, (size_t)((in->height - 1) * in->pitch));
    memset(blrc_lane_row(in, in->masks, BLRC_HAS_BELOW, 0), 255, (size_t)((in->height - 1) * in->pitch));
}

static void blrc_slice(const blrc_conv *op, int32_t tier, const uint32_t *x, const uint16_t *lists,
                       const uint16_t *limits, uint32_t *scratch, uint32_t *y)
{
    const int32_t vector = tier >= BLRC_TIER_AVX2 ? 32 : 16, outputs = 32 * blrc_words(op->out_channels);
    uint8_t *const memory = (uint8_t *)scratch;
    blrc_lanes in;

    in.x = x, in.y = y, in.sharing = lists[0], in.lists = lists + BLRC_LANES_LIST, in.limits = limits;
    in.height = op->in_height, in.width = op->in_width, in.pitch = (op->in_width + 7) / 8;
    in.channels = op->in_channels, in.outputs = op->out_channels;
    in.pooled = op->pool.kernel_y == 2;
    for (in.bits = 2; (9 * in.channels) >> (in.bits - 1) != 0;) {
        ++in.bits;
    }
    in.plane = BLRC_LANES_FRONT + (in.height + 2) * in.pitch + BLRC_LANES_VECTOR + 8;
    /* The zeros end a line of the cache: a tap's bits and their opposites are in one. */
    in.tables = memory + (64 - (uintptr_t)memory % 64) + (64 - vector);
    in.edges = in.tables + (1 + 18 * in.channels) * BLRC_LANES_VECTOR;
    in.counts = in.edges + 24 * BLRC_LANES_VECTOR;
    in.sums = in.counts + BLRC_LANES_PLANES * BLRC_LANES_VECTOR;
    in.results = in.sums + (BLRC_LANES_SHARING + 1) * BLRC_LANES_PLANES * BLRC_LANES_VECTOR;
    in.planes = in.results + outputs * BLRC_LANES_VECTOR;
    in.masks = in.planes + 32 * blrc_words(in.channels) * in.plane;
    blrc_lane_masks(&in);
    memset(in.results, 0, (size_t)(outputs * BLRC_LANES_VECTOR));
    memset(in.planes, 0, (size_t)(32 * blrc_words(in.channels) * in.plane));
    if (in.pooled) {
        memset(y, 0, (size_t)(op->out_height * op->out_width * blrc_words(op->out_channels)) * sizeof *y);
    }
    if (tier >= BLRC_TIER_AVX2) {
        blrc_lanes_avx2(&in);
    } else {
        blrc_lanes_popcnt(&in);
    }
}
#endif

void blrc_conv_lanes(const blrc_conv *op, const uint32_t *x, const uint32_t *weights, const int32_t *limits,
                     const int32_t *places, const uint16_t *lists, const uint16_t *starts, uint32_t *scratch,
                     uint32_t *y)
{
#if BLRC_X86
    const int32_t tier = blrc_tier();

    if (tier >= BLRC_TIER_POPCNT && tier <= (int32_t)lists[1]) {
        blrc_slice(op, tier, x, lists, starts, scratch, y);
        return;
    }
#else
    (void)lists, (void)starts, (void)scratch;
#endif
    blrc_conv_tiles(op, x, weights, 0, limits, places, y);
}
