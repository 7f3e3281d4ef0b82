/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Output channels that all read one run of words, at a border. */
#ifndef BLRC_RUN_REAL_H
#define BLRC_RUN_REAL_H

#include "blrc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As blrc_run; only the bits that are set in the words of `real`, n of them, count. */
BLRC_NOINLINE void blrc_run_real(int32_t n, int32_t words, int32_t first, int32_t end, const uint32_t *x,
                                 const uint32_t *real, BLRC_TABLE(uint32_t) weights,
                                 BLRC_TABLE(blrc_bit_threshold) thresholds, uint32_t *y);

#ifdef __cplusplus
}
#endif

#endif
