/* Dense layer on bits: one run of words, four rows at a time. */
#include "blrc_dot.h"

void blrc_dense(int32_t inputs, int32_t words, int32_t outputs, const uint32_t *x, const uint32_t *weights,
                const int32_t *thresholds, uint32_t *y)
{
    uint32_t word = 0;
    int32_t c;

    for (c = 0; c < outputs; c += BLRC_ROWS, weights += BLRC_ROWS * words) {
        uint32_t acc[BLRC_ROWS] = {0, 0, 0, 0};

        blrc_dot4_range(x, weights, 0, words, words, acc);
        word |= blrc_pass4(acc, inputs, thresholds + c) << (c % 32);
        if (c % 32 == 32 - BLRC_ROWS || c + BLRC_ROWS >= outputs) {
            *y++ = word;
            word = 0;
        }
    }
}
