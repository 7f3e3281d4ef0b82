"""Write the functions of an export that combine the answers of all members, one member at a time."""

from __future__ import annotations

import re

from blrc.program.head import scale_of
from blrc.targets.c.text import text
from blrc.targets.c.text.symbols import Symbols, element


def definitions(symbols: Symbols) -> str:
    """Return the functions for ``<name>.c``."""
    layout = symbols.layout
    scale = scale_of(layout.program.score_scale)
    return text.fill(
        _gated(_ENSEMBLE, layout.program.gate),
        {
            **text.model(symbols.name),
            "INPUT_TYPE": element(layout.program.input),
            "SCORES_AT": str(layout.arena.offsets[layout.program.output.name] // 4),
            "MULTIPLIER": str(scale.multiplier),
            "SHIFT": str(scale.shift),
        },
    )


def declarations(symbols: Symbols) -> str:
    """Return the declarations of the ensemble's functions and types for ``<name>.h``."""
    program = symbols.layout.program
    values = {**text.model(symbols.name), "INPUT_TYPE": element(program.input)}
    return text.fill(_gated(_DECLARATIONS, program.gate), values)


def _gated(template: str, gate: int) -> str:
    """Return the template with the passages between GATE( and )GATE if there is a gate, or else without them."""
    return re.sub(r"GATE\((.*?)\)GATE", r"\1" if gate else "", template, flags=re.DOTALL)


_DECLARATIONS = """\
/* Sums lie where they would by themselves, even where structs are packed (-fpack-struct). */
#if defined(__GNUC__) && !defined(__AVR__)
#define NAME_ALIGNED(bytes) __attribute__((aligned(bytes)))
#else
#define NAME_ALIGNED(bytes)
#endif

/* What the members so far say of one input: sums over members for each class. Yours to keep; the functions fill it. */
typedef struct name_ensemble {
    uint32_t members; /* how many have been added */
    NAME_ALIGNED(4) int32_t log_p[NAME_CLASSES]; /* log2 of the probability, Q16; each member's is at least -24 */
    NAME_ALIGNED(4) uint32_t p[NAME_CLASSES]; /* the probability, Q16 */
    NAME_ALIGNED(8) uint64_t p_squared[NAME_CLASSES]; /* its square, Q32 */
} name_ensemble;

typedef struct name_answer {
    int32_t label; /* the first largest of log_p */
    uint32_t members; /* how many were used */
    uint32_t mean; /* mean probability of the label, Q16: 65536 is 1 */
    uint32_t variance; /* of the label's probability over members, Q32: how much they disagree; at most 2^30 */
} name_answer;

/* Begin with another input. 0, or NAME_ERROR_NULL. */
int name_init(name_ensemble *ensemble);

/* Run the next member on the input, which must be the same for all. 0, or a negative NAME_ERROR_*. */
int name_add(name_ensemble *ensemble, const INPUT_TYPE *input, void *arena);

/* The answer of the members so far: its label, or a negative NAME_ERROR_*. */
int name_result(const name_ensemble *ensemble, name_answer *answer);

/* 1: the label stays the same whatever the remaining members say. 0: it may change, or there is none yet.
 * Or a negative NAME_ERROR_*. */
int name_is_final(const name_ensemble *ensemble);

GATE(/* 1: only the first member has been added, and its probability is at least NAME_GATE: its answer is that of the
 * ensemble, and no other member is to be asked. 0: else. Or a negative NAME_ERROR_*. */
int name_gated(const name_ensemble *ensemble);

)GATE/* Members, one after the other, until the label is settled, or its mean probability is at least `confidence`
 * (Q16; 0: go on whatever it is), or all are used.GATE( No second one where name_gated.)GATE
 * Gives the label, or a negative NAME_ERROR_*. */
int name_predict(const INPUT_TYPE *input, void *arena, name_ensemble *ensemble, uint32_t confidence,
                 name_answer *answer);
"""

_ENSEMBLE = """\
int name_init(name_ensemble *ensemble)
{
    int32_t i;

    if (ensemble == 0) {
        return NAME_ERROR_NULL;
    }
    ensemble->members = 0;
    for (i = 0; i < NAME_CLASSES; ++i) {
        ensemble->log_p[i] = 0;
        ensemble->p[i] = 0;
        ensemble->p_squared[i] = 0;
    }
    return 0;
}

int name_add(name_ensemble *ensemble, const INPUT_TYPE *input, void *arena)
{
    /* A score times multiplier / 2^shift is in bits, Q16. */
    const uint32_t multiplier = MULTIPLIERu;
    const int32_t shift = SHIFT;
    int32_t *scores;
    int status;

    if (ensemble == 0 || arena == 0) {
        return NAME_ERROR_NULL;
    }
    if ((uintptr_t)arena % NAME_ARENA_ALIGN != 0) {
        return NAME_ERROR_ALIGN;
    }
    scores = (int32_t *)arena + SCORES_AT; /* their place in it, which no map needs any more */
    status = name_observe(ensemble->members, input, arena, scores, 0, 0);
    if (status < 0) {
        return status;
    }
    name_blrc_head_add(NAME_CLASSES, multiplier, shift, scores, ensemble->log_p, ensemble->p, ensemble->p_squared);
    ++ensemble->members;
    return 0;
}

int name_result(const name_ensemble *ensemble, name_answer *answer)
{
    int32_t label;

    if (ensemble == 0 || answer == 0) {
        return NAME_ERROR_NULL;
    }
    if (ensemble->members == 0) {
        return NAME_ERROR_EMPTY;
    }
    if (ensemble->members > NAME_MEMBERS) {
        return NAME_ERROR_MEMBERS;
    }
    label = name_blrc_argmax(NAME_CLASSES, ensemble->log_p);
    answer->label = label;
    answer->members = ensemble->members;
    answer->mean = name_blrc_head_mean(ensemble->members, ensemble->p[label]);
    answer->variance =
        name_blrc_head_variance(ensemble->members, ensemble->p[label], ensemble->p_squared[label]);
    return (int)label;
}

int name_is_final(const name_ensemble *ensemble)
{
    if (ensemble == 0) {
        return NAME_ERROR_NULL;
    }
    if (ensemble->members == 0) {
        return 0;
    }
    if (ensemble->members > NAME_MEMBERS) {
        return NAME_ERROR_MEMBERS;
    }
    return (int)name_blrc_head_settled(NAME_CLASSES, NAME_MEMBERS - ensemble->members, ensemble->log_p);
}

GATE(int name_gated(const name_ensemble *ensemble)
{
    if (ensemble == 0) {
        return NAME_ERROR_NULL;
    }
    return ensemble->members == 1 && ensemble->p[name_blrc_argmax(NAME_CLASSES, ensemble->log_p)] >= NAME_GATE;
}

)GATEint name_predict(const INPUT_TYPE *input, void *arena, name_ensemble *ensemble, uint32_t confidence,
                 name_answer *answer)
{
    if (ensemble == 0 || answer == 0) {
        return NAME_ERROR_NULL;
    }
    name_init(ensemble);
    do {
        const int status = name_add(ensemble, input, arena);

        if (status < 0) {
            return status;
        }
        name_result(ensemble, answer);
        if (confidence != 0 && answer->mean >= confidence) {
            break;
        }
GATE(        if (name_gated(ensemble)) {
            break;
        }
)GATE    } while (!name_is_final(ensemble)); /* it is when all members are used */
    return (int)answer->label;
}
"""
