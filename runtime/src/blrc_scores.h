/* Scores of a last layer with real weights, of either width. */
#ifndef BLRC_SCORES_H
#define BLRC_SCORES_H

#include "blrc.h"

/* y[class] = bias[class] + sum of +-weights by the signs in x. The weights are those of `narrow` where
 * `bits_of_weights`, a constant of the caller, is 8, else those of `wide`: nothing is decided when it runs. */
static inline void blrc_scores(int32_t bits_of_weights, int32_t pixels, int32_t channels, int32_t classes,
                               const uint32_t *x, BLRC_TABLE(int8_t) narrow, BLRC_TABLE(int16_t) wide,
                               BLRC_TABLE(int32_t) bias, int32_t *y)
{
    int32_t k, i, c;

    for (k = 0; k < classes; ++k) {
        const uint32_t *word = x;
        int32_t sum = BLRC_READ(int32_t, bias, k);

        for (i = 0; i < pixels; ++i) {
            for (c = 0; c < channels; c += 32) {
                const int32_t end = channels - c < 32 ? channels - c : 32;
                uint32_t bits = *word++;
                int32_t b;

                for (b = 0; b < end; ++b, bits >>= 1) {
                    const int32_t minus = (int32_t)(bits & 1u) - 1; /* 0 or -1: (w ^ minus) - minus is +-w */
                    const int32_t weight = bits_of_weights == 8 ? BLRC_NEXT(int8_t, narrow) : BLRC_NEXT(int16_t, wide);

                    sum += (weight ^ minus) - minus;
                }
            }
        }
        y[k] = sum;
    }
}

#endif
