/* What Frama-C Eva follows: every input, every content of the arena, members added one by one. Built by
 * tests/targets/test_c_proof.py; INPUT is the type of the input's elements. */
#include "__fc_builtin.h"
#include "net.h"

static uint32_t arena[(NET_ARENA_SIZE + 3) / 4];

int main(void)
{
    INPUT input[NET_INPUT_SIZE];
    net_ensemble ensemble;
    net_answer answer;
    uint32_t k;

    Frama_C_make_unknown((char *)input, sizeof input);
    net_init(&ensemble);
    for (k = 0; k < NET_MEMBERS; ++k) {
        Frama_C_make_unknown((char *)arena, sizeof arena);
        if (net_add(&ensemble, input, arena) == 0) {
            net_gated(&ensemble);
            net_result(&ensemble, &answer);
            net_is_final(&ensemble);
        }
    }
    return 0;
}
