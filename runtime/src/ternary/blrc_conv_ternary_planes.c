/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Ternary convolutions of codes in planes, or of +-1, to codes or bits. Pooling takes the largest sum, which is the
 * smallest v. */
#include "blrc_ternary.h"

/* v of `outputs` rows, or the smaller of it and what is there. +-1 have two runs, whose ones for absent taps differ. */
static void blrc_ternary_sums(int32_t planes, uint32_t words, int32_t outputs, const uint32_t *runs, int32_t first,
                              BLRC_TABLE(uint32_t) w, int32_t *v)
{
    int32_t r, p;

    for (r = 0; r < outputs; ++r, w = BLRC_SKIP(uint32_t, w, 2 * words)) {
        uint32_t sum = 0;

        for (p = 0; p < (planes == 0 ? 2 : planes); ++p) {
            sum += blrc_count_ternary(words, runs + (uint32_t)p * words, w) << (planes == 0 ? 0 : p);
        }
        v[r] = first || (int32_t)sum < v[r] ? (int32_t)sum : v[r];
    }
}

void blrc_conv_ternary_planes(const blrc_conv *op, int32_t planes, int32_t bits, const uint32_t *x,
                              BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_level_limit) limits,
                              BLRC_TABLE(int32_t) scales, uint32_t *scratch, void *y)
{
    const blrc_level_rule rule = {bits, limits, scales};
    const blrc_window *pool = &op->pool;
    const int32_t outputs = op->out_channels / op->groups, of_plane = blrc_words(op->out_channels);
    const int32_t words = blrc_words(op->window.kernel_y * op->window.kernel_x * (op->in_channels / op->groups));
    int32_t *const v = (int32_t *)scratch;
    uint32_t *const runs = scratch + outputs;
    uint8_t *to = (uint8_t *)y;
    int32_t oy, ox, py, px, g, p, r;

    for (oy = 0; oy < op->out_height; ++oy) {
        const int32_t top = oy * pool->stride_y - pool->pad_y;
        const blrc_span down = blrc_inside(top, pool->dilation_y, pool->kernel_y, op->map_height);

        for (ox = 0; ox < op->out_width; ++ox, to += blrc_pixel_bytes(bits, op->out_channels)) {
            const int32_t left = ox * pool->stride_x - pool->pad_x;
            const blrc_span across = blrc_inside(left, pool->dilation_x, pool->kernel_x, op->map_width);

            if (blrc_zero_if_empty(&down, &across, bits, op->out_channels, to)) {
                continue;
            }
            blrc_clear_pixel(bits, op->out_channels, to);
            for (g = 0; g < op->groups; ++g) {
                BLRC_TABLE(uint32_t) const w = BLRC_SKIP(uint32_t, weights, 2 * words * g * outputs);

                for (py = down.first; py < down.end; ++py) {
                    for (px = across.first; px < across.end; ++px) {
                        const int32_t my = top + py * pool->dilation_y, mx = left + px * pool->dilation_x;
                        const int32_t first = py == down.first && px == across.first;

                        for (p = 0; p < (planes == 0 ? 2 : planes); ++p) {
                            blrc_collect_taps(op, planes == 0 ? 1 : planes, x, planes == 0 ? 0 : p, g, my, mx,
                                              planes == 0 && p == 1, runs + p * words);
                        }
                        blrc_ternary_sums(planes, (uint32_t)words, outputs, runs, first, w, v);
                    }
                }
                for (r = 0; r < outputs; ++r) {
                    const int32_t c = g * outputs + r;

                    blrc_put_code(bits, of_plane, blrc_code_of(&rule, v[r], c), c, to);
                }
            }
        }
    }
}
