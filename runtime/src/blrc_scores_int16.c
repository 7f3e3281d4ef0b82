/* Scores: int16 weights on +-1 inputs. */
#include "blrc_window.h"

void blrc_scores_int16(int32_t pixels, int32_t channels, int32_t classes, const uint32_t *x, const int16_t *weights,
                    const int32_t *bias, int32_t *y)
{
    int32_t k, i, c;

    for (k = 0; k < classes; ++k) {
        const uint32_t *word = x;
        int32_t sum = bias[k];

        for (i = 0; i < pixels; ++i) {
            for (c = 0; c < channels; c += 32) {
                const int32_t end = channels - c < 32 ? channels - c : 32;
                uint32_t bits = *word++;
                int32_t b;

                for (b = 0; b < end; ++b, bits >>= 1) {
                    const int32_t minus = (int32_t)(bits & 1u) - 1; /* 0 or -1: (w ^ minus) - minus is +-w */

                    sum += (*weights++ ^ minus) - minus;
                }
            }
        }
        y[k] = sum;
    }
}
