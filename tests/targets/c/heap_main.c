/* Every call of the API on memory that nobody has written: blocks of the heap that are as large as the header says, so
 * that sanitizers see what is read before it is written, and what is touched beside it. Returns 0, or the line of the
 * first check that fails. Built by tests/targets/test_c_sanitizers.py. */
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
    int32_t *const scores = (int32_t *)malloc(NET_CLASSES * sizeof *scores);
    net_ensemble *const ensemble = (net_ensemble *)malloc(sizeof *ensemble);
    net_answer *const answer = (net_answer *)malloc(sizeof *answer);
    uint32_t k;
    int label, v;

    REQUIRE(arena != 0 && input != 0 && scores != 0 && ensemble != 0 && answer != 0);
#ifdef UNWRITTEN
    REQUIRE(net_observe(0, (INPUT *)input, arena, scores, 0, 0) >= 0);
#endif
    REQUIRE(net_selftest(arena) == 0);
    for (v = 0; v < NET_VECTORS; ++v) {
        memcpy(input, net_vector_inputs + v * NET_INPUT_SIZE, bytes);
        for (k = 0; k < NET_MEMBERS; ++k) {
            label = net_observe(k, (INPUT *)input, arena, scores, ignore, 0);
            REQUIRE(label >= 0 && scores[label] >= scores[0]);
        }
        REQUIRE(net_predict((INPUT *)input, arena, ensemble, 0, answer) == net_vector_answers[4 * v]);
        REQUIRE(answer->members >= 1 && answer->members <= NET_MEMBERS);
        REQUIRE(net_is_final(ensemble) >= 0);
    }
    free(answer);
    free(ensemble);
    free(scores);
    free(input);
    free(arena);
    return 0;
}
