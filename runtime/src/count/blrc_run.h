/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Output channels that all read one run of words. */
#ifndef BLRC_RUN_H
#define BLRC_RUN_H

#include "blrc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y |= the bits of the channels first <= c < end, four at a time: `words` words of x (n real bits) against each row of
 * a blocked table, which starts at channel `first`. */
BLRC_NOINLINE void blrc_run(int32_t n, int32_t words, int32_t first, int32_t end, const uint32_t *x,
                            BLRC_TABLE(uint32_t) weights, BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y);

#ifdef __cplusplus
}
#endif

#endif
