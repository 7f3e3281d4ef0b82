/* A libFuzzer target on the API of an export that gives values, called net: any calls in any order, with any input.
 *
 * The oracle is the members' own values, added up in 64 bits: the mean is the sum through their number, rounded to
 * nearest, halves up, and the variance that of the population, rounded down. Built by test_c_sanitizers.py. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

#define WORDS ((NET_INPUT_CHANNELS + 31) / 32)

#define REQUIRE(condition)                                        \
    do {                                                          \
        if (!(condition)) {                                       \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            abort();                                              \
        }                                                         \
    } while (0)

static int32_t values_of[NET_MEMBERS][NET_VALUES];

/* Whether these are the mean and the variance of the first `count` members. */
static int right(uint32_t count, const int32_t *values, const uint64_t *variances)
{
    int i;

    for (i = 0; i < NET_VALUES; ++i) {
        const int64_t n = (int64_t)count;
        int64_t sum = 0, squares = 0, doubled, mean;
        uint32_t k;

        for (k = 0; k < count; ++k) {
            sum += values_of[k][i];
            squares += (int64_t)values_of[k][i] * values_of[k][i];
        }
        doubled = 2 * sum + n;
        mean = doubled / (2 * n) - (doubled % (2 * n) < 0);
        if (values[i] != (int32_t)mean || variances[i] != (uint64_t)((n * squares - sum * sum) / (n * n))) {
            return 0;
        }
    }
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static INPUT input[NET_INPUT_SIZE];
    int32_t values[NET_VALUES];
    uint64_t variances[NET_VALUES];
    net_ensemble e;
    uint32_t count = 0, k;
    size_t i, pixels;

    if (size < 2) {
        return 0;
    }
    pixels = size - size / 2;
    for (i = 0; i < NET_INPUT_SIZE; ++i) {
        input[i] = (INPUT)(data[i % pixels] * (uint32_t)(sizeof(INPUT) == 1 ? 1 : 0x01020408) + (uint32_t)(i * data[1]));
        if (sizeof(INPUT) == 4 && NET_INPUT_CHANNELS % 32 != 0 && i % WORDS == WORDS - 1) {
            input[i] &= (INPUT)(((uint32_t)1 << NET_INPUT_CHANNELS % 32) - 1);
        }
    }
    for (k = 0; k < NET_MEMBERS; ++k) {
        void *const arena = malloc(NET_ARENA_SIZE);

        REQUIRE(arena != 0 && net_observe(k, input, arena, values_of[k], 0, 0) == 0);
        free(arena);
    }
    REQUIRE(net_init(&e) == 0);
    for (i = size / 2; i + 1 < size; i += 2) {
        const size_t beside = data[i + 1] % 8;
        const int aligned = beside % NET_ARENA_ALIGN == 0;
        unsigned char *const whole = (unsigned char *)malloc(NET_ARENA_SIZE + beside);
        void *const arena = whole + beside;

        REQUIRE(whole != 0);
        switch (data[i] % 6) {
        case 0:
            REQUIRE(net_init(&e) == 0);
            count = 0;
            break;
        case 1:
        case 2:
            if (!aligned) {
                REQUIRE(net_add(&e, input, arena) == NET_ERROR_ALIGN);
            } else if (count == NET_MEMBERS) {
                REQUIRE(net_add(&e, input, arena) == NET_ERROR_MEMBERS);
            } else {
                REQUIRE(net_add(&e, input, arena) == 0);
                ++count;
            }
            break;
        case 3:
            if (count == 0) {
                REQUIRE(net_result(&e, values, variances) == NET_ERROR_EMPTY);
            } else {
                REQUIRE(net_result(&e, values, variances) == 0 && right(count, values, variances));
            }
            break;
        case 4:
            if (!aligned) {
                REQUIRE(net_predict(input, arena, &e, values, variances) == NET_ERROR_ALIGN);
                count = 0;
                REQUIRE(net_init(&e) == 0);
            } else {
                REQUIRE(net_predict(input, arena, &e, values, variances) == 0);
                count = NET_MEMBERS;
                REQUIRE(right(count, values, variances));
            }
            break;
        default:
            REQUIRE(net_init(0) == NET_ERROR_NULL && net_add(0, input, arena) == NET_ERROR_NULL);
            REQUIRE(net_add(&e, input, 0) == NET_ERROR_NULL);
            break;
        }
        REQUIRE(e.members == count);
        free(whole);
    }
    return 0;
}
