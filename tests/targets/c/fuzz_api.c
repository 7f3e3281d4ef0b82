/* A libFuzzer target on the API of an export called net: any calls in any order, on any arena, with any input.
 *
 * Beside what sanitizers see, every call must do what the header says. The oracle is the members' sums, added one by one
 * before anything else: whatever is called later, the sums of k members are those, and stopping early keeps the label.
 * Built by tests/targets/test_c_sanitizers.py; INPUT is the type of the input's elements. */
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

/* What k members say, for 0 <= k <= NET_MEMBERS. */
static net_ensemble sums[NET_MEMBERS + 1];
static net_answer answers[NET_MEMBERS + 1];
static int32_t settled[NET_MEMBERS + 1], gated[NET_MEMBERS + 1];
static int32_t scores_of[NET_MEMBERS][NET_CLASSES];

static int same(const net_ensemble *a, const net_ensemble *b)
{
    return a->members == b->members && memcmp(a->log_p, b->log_p, sizeof a->log_p) == 0 &&
           memcmp(a->p, b->p, sizeof a->p) == 0 && memcmp(a->p_squared, b->p_squared, sizeof a->p_squared) == 0;
}

static int same_answer(const net_answer *a, const net_answer *b)
{
    return a->label == b->label && a->members == b->members && a->mean == b->mean && a->variance == b->variance;
}

static int first_largest(const int32_t *numbers)
{
    int best = 0, i;

    for (i = 0; i < NET_CLASSES; ++i) {
        best = numbers[i] > numbers[best] ? i : best;
    }
    return best;
}

/* A block of its own for each call: its end is the end of memory. Nobody has written it, or junk stands in it. */
typedef struct block {
    unsigned char *whole, *arena;
} block;

static block take(size_t beside, int junk)
{
    block b;

    b.whole = (unsigned char *)malloc(NET_ARENA_SIZE + beside);
    REQUIRE(b.whole != 0);
    if (junk) {
        memset(b.whole, junk, NET_ARENA_SIZE + beside);
    }
    b.arena = b.whole + beside;
    return b;
}

static void observe(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    int32_t *const next = (int32_t *)context;

    REQUIRE(op == *next && output != 0 && bytes > 0 && member < NET_MEMBERS);
    if (op == NET_OPS - 1) {
        REQUIRE(bytes == sizeof scores_of[0] && memcmp(output, scores_of[member], bytes) == 0);
    }
    ++*next;
}

static void learn(const INPUT *input)
{
    net_ensemble e;
    uint32_t k, i;

    REQUIRE(net_init(&e) == 0);
    for (k = 0; k <= NET_MEMBERS; ++k) {
        REQUIRE(e.members == k);
        sums[k] = e;
        settled[k] = net_is_final(&e);
        REQUIRE(settled[k] == 0 || settled[k] == 1);
        REQUIRE(k != 0 || settled[k] == 0);
        REQUIRE(k != NET_MEMBERS || settled[k] == 1);
#ifdef NET_GATE
        gated[k] = net_gated(&e);
        REQUIRE(k == 1 || gated[k] == 0);
#endif
        if (k > 0) {
            REQUIRE(net_result(&e, &answers[k]) == first_largest(e.log_p));
            REQUIRE(answers[k].label == first_largest(e.log_p) && answers[k].members == k);
            REQUIRE(answers[k].mean <= 65536 && answers[k].variance <= (uint32_t)1 << 30);
#ifdef NET_GATE
            REQUIRE(gated[k] == (k == 1 && answers[k].mean >= NET_GATE));
#endif
        }
        if (k < NET_MEMBERS) {
            const block b = take(0, 0);

            REQUIRE(net_observe(k, input, b.arena, scores_of[k], 0, 0) == first_largest(scores_of[k]));
            REQUIRE(net_add(&e, input, b.arena) == 0);
            free(b.whole);
            for (i = 0; i < NET_CLASSES; ++i) {
                REQUIRE(e.log_p[i] <= sums[k].log_p[i] && sums[k].log_p[i] - e.log_p[i] <= (int32_t)24 << 16);
                REQUIRE(e.p[i] >= sums[k].p[i] && e.p[i] - sums[k].p[i] <= 65536);
            }
        }
    }
    for (k = 1; k <= NET_MEMBERS; ++k) {
        REQUIRE(!settled[k] || answers[k].label == answers[NET_MEMBERS].label);
    }
}

/* How many members predict has to ask. */
static uint32_t members_for(uint32_t confidence)
{
    uint32_t k = 1;

    while (!settled[k] && !gated[k] && (confidence == 0 || answers[k].mean < confidence)) {
        ++k;
    }
    return k;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static INPUT input[NET_INPUT_SIZE];
    net_ensemble e, before;
    net_answer answer = {-7, 0, 0, 0}, untouched = {-7, 0, 0, 0};
    int32_t scores[NET_CLASSES];
    uint32_t count = 0;
    size_t i, pixels;

    if (size < 2) {
        return 0;
    }
    /* The first half is the input, again and again; what follows are calls. */
    pixels = data[0] == 0 ? 1 : size - size / 2;
    for (i = 0; i < NET_INPUT_SIZE; ++i) {
        input[i] = (INPUT)(data[i % pixels] * (uint32_t)(sizeof(INPUT) == 1 ? 1 : 0x01020408) + (uint32_t)(i * data[1]));
        if (sizeof(INPUT) == 4 && NET_INPUT_CHANNELS % 32 != 0 && i % WORDS == WORDS - 1) {
            input[i] &= (INPUT)(((uint32_t)1 << NET_INPUT_CHANNELS % 32) - 1);
        }
    }
    learn(input);
    REQUIRE(net_init(&e) == 0);
    for (i = size / 2; i + 1 < size; i += 2) {
        const uint8_t call = data[i], detail = data[i + 1];
        const size_t beside = detail % 8;
        const int aligned = beside % NET_ARENA_ALIGN == 0;
        const block b = take(beside, detail / 8 % 2 * 0xA5);

        before = e;
        switch (call % 10) {
        case 0:
            REQUIRE(net_init(&e) == 0);
            count = 0;
            break;
        case 1:
        case 2:
        case 3:
            if (!aligned) {
                REQUIRE(net_add(&e, input, b.arena) == NET_ERROR_ALIGN && same(&e, &before));
            } else if (count == NET_MEMBERS) {
                REQUIRE(net_add(&e, input, b.arena) == NET_ERROR_MEMBERS && same(&e, &before));
            } else {
                REQUIRE(net_add(&e, input, b.arena) == 0);
                ++count;
            }
            break;
        case 4:
            answer = untouched;
            if (count == 0) {
                REQUIRE(net_result(&e, &answer) == NET_ERROR_EMPTY && same_answer(&answer, &untouched));
            } else {
                REQUIRE(net_result(&e, &answer) == answers[count].label && same_answer(&answer, &answers[count]));
            }
            break;
        case 5:
            REQUIRE(net_is_final(&e) == settled[count]);
#ifdef NET_GATE
            REQUIRE(net_gated(&e) == gated[count]);
#endif
            break;
        case 6:
        case 7: {
            const uint32_t mean = answers[1 + detail / 16 % NET_MEMBERS].mean;
            const uint32_t confidences[8] = {0, 1, 30000, 65536, 0xFFFFFFFFu, mean - 1, mean, mean + 1};
            const uint32_t confidence = confidences[detail / 16 % 8];

            answer = untouched;
            if (!aligned) {
                REQUIRE(net_predict(input, b.arena, &e, confidence, &answer) == NET_ERROR_ALIGN);
                REQUIRE(same_answer(&answer, &untouched));
                count = 0;
            } else {
                count = members_for(confidence);
                REQUIRE(net_predict(input, b.arena, &e, confidence, &answer) == answers[count].label);
                REQUIRE(same_answer(&answer, &answers[count]));
                REQUIRE(confidence != 0 || gated[1] || answer.label == answers[NET_MEMBERS].label);
            }
            break;
        }
        case 8: {
            const uint32_t member = detail / 16 % (NET_MEMBERS + 1);
            int32_t next = 0;

            if (!aligned) {
                REQUIRE(net_observe(member, input, b.arena, scores, observe, &next) == NET_ERROR_ALIGN && next == 0);
            } else if (member == NET_MEMBERS) {
                REQUIRE(net_observe(member, input, b.arena, scores, observe, &next) == NET_ERROR_MEMBERS && next == 0);
            } else {
                REQUIRE(net_observe(member, input, b.arena, scores, observe, &next) == first_largest(scores));
                REQUIRE(next == NET_OPS && memcmp(scores, scores_of[member], sizeof scores) == 0);
            }
            break;
        }
        default:
            REQUIRE(net_init(0) == NET_ERROR_NULL && net_is_final(0) == NET_ERROR_NULL);
            REQUIRE(net_add(0, input, b.arena) == NET_ERROR_NULL && net_add(&e, input, 0) == NET_ERROR_NULL);
            REQUIRE(net_add(&e, 0, b.arena) == (aligned ? NET_ERROR_NULL : NET_ERROR_ALIGN));
            REQUIRE(net_result(0, &answer) == NET_ERROR_NULL && net_result(&e, 0) == NET_ERROR_NULL);
            REQUIRE(net_observe(0, 0, b.arena, scores, 0, 0) == NET_ERROR_NULL);
            REQUIRE(net_observe(0, input, b.arena, 0, 0, 0) == NET_ERROR_NULL);
            REQUIRE(net_predict(input, b.arena, 0, 0, &answer) == NET_ERROR_NULL);
            REQUIRE(net_predict(input, b.arena, &e, 0, 0) == NET_ERROR_NULL && same(&e, &before));
            break;
        }
        free(b.whole);
        REQUIRE(same(&e, &sums[count]));
    }
    return 0;
}
