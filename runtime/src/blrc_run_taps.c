/* Many output channels at a border: runs of real taps only.
 *
 * A file of its own: what it keeps on the stack does not lie beside the taps' words, and it is no second caller of the
 * inner loop in blrc_run.c, which compilers then would not inline for size. */
#include "blrc_run_taps.h"
#include "blrc_dot.h"

void blrc_run_taps(const blrc_taps *taps, int32_t first, int32_t end, BLRC_TABLE(uint32_t) weights,
                   BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    int32_t c, t;

    for (c = first; c < end; c += BLRC_ROWS, weights = BLRC_SKIP(uint32_t, weights, BLRC_ROWS * taps->total)) {
        uint32_t acc[BLRC_ROWS] = {0, 0, 0, 0};

        if (((y[c / 32] >> (c % 32)) & 15u) == 15u) {
            continue;
        }
        for (t = taps->top; t < taps->bottom; ++t) {
            const int32_t start = t * taps->line + taps->before;

            blrc_dot4_range(taps->run + start, weights, start, t * taps->line + taps->after, taps->total, acc);
        }
        y[c / 32] |= blrc_pass4(acc, taps->n, BLRC_SKIP(blrc_bit_threshold, thresholds, c)) << (c % 32);
    }
}
