/* Output channels that all read the words of one pixel's real taps. */
#ifndef BLRC_RUN_TAPS_H
#define BLRC_RUN_TAPS_H

#include "blrc.h"

/* The words of one pixel's taps, those outside the map left as they are. */
typedef struct blrc_taps {
    uint32_t run[BLRC_GATHER_WORDS];
    int32_t line, total; /* words of a kernel row, and of the kernel */
    int32_t n;           /* real bits */
    int32_t before, after, top, bottom; /* words first <= i < end of the real taps in a kernel row; real kernel rows */
} blrc_taps;

#ifdef __cplusplus
extern "C" {
#endif

/* y |= the bits of the channels first <= c < end, four at a time: all real taps against each row of a blocked table,
 * which starts at channel `first`. */
void blrc_run_taps(const blrc_taps *taps, int32_t first, int32_t end, BLRC_TABLE(uint32_t) weights,
                   BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y);

#ifdef __cplusplus
}
#endif

#endif
