/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* What an ensemble says of values, in integers. blrc/program/values.py is its law. */
#include "blrc.h"

/* The magnitude of a number above -2^31. */
static uint32_t blrc_values_size(int32_t value)
{
    return value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
}

void blrc_values_add(int32_t count, const int32_t *values, int32_t *sum, uint64_t *squares)
{
    int32_t i;

    for (i = 0; i < count; ++i) {
        const uint64_t size = blrc_values_size(values[i]);

        sum[i] += values[i];
        squares[i] += size * size;
    }
}

int32_t blrc_values_mean(uint32_t members, int32_t sum)
{
    const int32_t n = (int32_t)members;
    int32_t mean = sum / n, rest = sum % n;

    if (rest < 0) {
        rest += n;
        --mean;
    }
    return rest >= n - rest ? mean + 1 : mean;
}

uint64_t blrc_values_variance(uint32_t members, int32_t sum, uint64_t squares)
{
    /* Bit by bit, as in blrc_head.c. The divisor is below 2^21. */
    const uint32_t divisor = members * members;
    const uint64_t size = blrc_values_size(sum);
    uint64_t left = members * squares - size * size;
    uint64_t variance = 0;
    uint32_t rest = 0;
    int32_t bit;

    for (bit = 0; bit < 64; ++bit) {
        rest = (rest << 1) | (uint32_t)(left >> 63);
        left <<= 1;
        variance <<= 1;
        if (rest >= divisor) {
            rest -= divisor;
            variance |= 1u;
        }
    }
    return variance;
}
