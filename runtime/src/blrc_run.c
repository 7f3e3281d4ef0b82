/* Many output channels that read the same run of words: the inner loop of dense layers and of gathered convolutions.
 *
 * A file of its own, so that its few variables stay in registers whatever surrounds the call. */
#include "blrc_run.h"
#include "blrc_dot.h"

void blrc_run(int32_t n, int32_t words, int32_t first, int32_t end, const uint32_t *x, BLRC_TABLE(uint32_t) weights,
              BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y)
{
    int32_t c;

    for (c = first; c < end; c += BLRC_ROWS, weights = BLRC_SKIP(uint32_t, weights, BLRC_ROWS * words)) {
        uint32_t acc[BLRC_ROWS] = {0, 0, 0, 0};

        /* Pooling is an OR: four channels that are all 1 already need no further pixel. */
        if (((y[c / 32] >> (c % 32)) & 15u) == 15u) {
            continue;
        }
        blrc_dot4_all(x, weights, words, acc);
        y[c / 32] |= blrc_pass4(acc, n, BLRC_SKIP(blrc_bit_threshold, thresholds, c)) << (c % 32);
    }
}
