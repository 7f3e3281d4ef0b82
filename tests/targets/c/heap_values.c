/* The same as heap_main.c for an export whose network gives values and no label. */
#include <stdlib.h>
#include <string.h>

#include "net_selftest.c"

#define REQUIRE(condition) \
    do {                   \
        if (!(condition))  \
            return __LINE__; \
    } while (0)

static void ignore(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    (void)context, (void)member, (void)op, (void)output, (void)bytes;
}

int main(void)
{
    const size_t bytes = NET_INPUT_SIZE * sizeof net_vector_inputs[0];
    void *const arena = malloc(NET_ARENA_SIZE);
    void *const input = malloc(bytes);
    int32_t *const values = (int32_t *)malloc(NET_VALUES * sizeof *values);
    uint64_t *const variances = (uint64_t *)malloc(NET_VALUES * sizeof *variances);
    net_ensemble *const ensemble = (net_ensemble *)malloc(sizeof *ensemble);
    uint32_t k;
    int v;

    REQUIRE(arena != 0 && input != 0 && values != 0 && variances != 0 && ensemble != 0);
    REQUIRE(net_selftest(arena) == 0);
    for (v = 0; v < NET_VECTORS; ++v) {
        memcpy(input, net_vector_inputs + v * NET_INPUT_SIZE, bytes);
        for (k = 0; k < NET_MEMBERS; ++k) {
            REQUIRE(net_observe(k, (INPUT *)input, arena, values, ignore, 0) == 0);
        }
        REQUIRE(net_predict((INPUT *)input, arena, ensemble, values, variances) == 0);
        REQUIRE(ensemble->members == NET_MEMBERS);
    }
    free(ensemble);
    free(variances);
    free(values);
    free(input);
    free(arena);
    return 0;
}
