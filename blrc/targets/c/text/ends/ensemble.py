"""Write the functions of an export that combine the answers of all members, one member at a time."""

from __future__ import annotations

import re

from blrc.program.program import Program
from blrc.targets.c.text import text
from blrc.targets.c.text.ends import values
from blrc.targets.c.text.symbols import Symbols, element


def definitions(symbols: Symbols) -> str:
    """Return the functions for ``<name>.c``."""
    layout = symbols.layout
    parts = layout.program.parts
    common = {
        **text.model(symbols.name),
        "INPUT_TYPE": element(layout.program.input),
        "SCORES_AT": str(layout.arena.offsets[layout.program.output.name] // 4),
    }
    if layout.program.values:
        return text.fill(values.DEFINITIONS, common)
    return text.fill(
        chosen(_ENSEMBLE, layout.program),
        {
            **common,
            "MULTIPLIER": str(parts[0].scale.multiplier),
            "SHIFT": str(parts[0].scale.shift),
            "STARTS": ", ".join(str(n) for n in (0, *(part.place.stop for part in parts))),
            "MULTIPLIERS": ", ".join(f"{part.scale.multiplier}u" for part in parts),
            "SHIFTS": ", ".join(str(part.scale.shift) for part in parts),
        },
    )


def declarations(symbols: Symbols) -> str:
    """Return the declarations of the ensemble's functions and types for ``<name>.h``."""
    program = symbols.layout.program
    words = {**text.model(symbols.name), "INPUT_TYPE": element(program.input)}
    return text.fill(_ALIGNED + (values.DECLARATIONS if program.values else chosen(_DECLARATIONS, program)), words)


def chosen(template: str, program: Program) -> str:
    """Return the template with those of its passages that a program needs.

    They lie between GATE( and )GATE if there is a gate, HEADS( and )HEADS if there are several heads, and between ONE(
    and )ONE if there is one. A network of values has only those between VALUES( and )VALUES, and one of labels those
    between LABELS( and )LABELS.
    """
    labels = not program.values
    kept = {
        "GATE": program.gate > 0,
        "HEADS": labels and bool(program.heads),
        "ONE": labels and not program.heads,
        "LABELS": labels,
        "VALUES": not labels,
    }
    for word, keep in kept.items():
        template = re.sub(rf"{word}\((.*?)\){word}", r"\1" if keep else "", template, flags=re.DOTALL)
    return template


_ALIGNED = """\
/* Sums lie where they would by themselves, even where structs are packed (-fpack-struct). */
#if defined(__GNUC__) && !defined(__AVR__)
#define NAME_ALIGNED(bytes) __attribute__((aligned(bytes)))
#else
#define NAME_ALIGNED(bytes)
#endif

"""

_DECLARATIONS = """\
/* What the members so far say of one input: sums over members for each class. Yours to keep; the functions fill it. */
typedef struct name_ensemble {
    uint32_t members; /* how many have been added */
    NAME_ALIGNED(4) int32_t log_p[NAME_CLASSES]; /* log2 of the probability, Q16; each member's is at least -24 */
    NAME_ALIGNED(4) uint32_t p[NAME_CLASSES]; /* the probability, Q16 */
    NAME_ALIGNED(8) uint64_t p_squared[NAME_CLASSES]; /* its square, Q32 */
} name_ensemble;

HEADS(/* What they say of one head. Functions that take a name_answer *answer give one for each head, in their order. */
)HEADStypedef struct name_answer {
ONE(    int32_t label; /* the first largest of log_p */
)ONEHEADS(    int32_t label; /* the first largest of log_p among the head's own, counted from its first */
)HEADS    uint32_t members; /* how many were used */
    uint32_t mean; /* mean probability of the label, Q16: 65536 is 1 */
    uint32_t variance; /* of the label's probability over members, Q32: how much they disagree; at most 2^30 */
} name_answer;

/* Begin with another input. 0, or NAME_ERROR_NULL. */
int name_init(name_ensemble *ensemble);

/* Run the next member on the input, which must be the same for all. 0, or a negative NAME_ERROR_*. */
int name_add(name_ensemble *ensemble, const INPUT_TYPE *input, void *arena);

ONE(/* The answer of the members so far: its label, or a negative NAME_ERROR_*. */
)ONEHEADS(/* The answers of the members so far for all heads: the label of the first head, or a negative NAME_ERROR_*.
 *
 * answer: NAME_HEADS results. */
)HEADSint name_result(const name_ensemble *ensemble, name_answer *answer);

/* 1: ONE(the label stays the same whatever the remaining members say. 0: it may change, or there is none yet.
)ONEHEADS(no label changes whatever the remaining members say. 0: one may change, or there is none yet.
)HEADS * Or a negative NAME_ERROR_*. */
int name_is_final(const name_ensemble *ensemble);

GATE(/* 1: only the first member has been added, and its probability is at least NAME_GATE: its answer is that of the
 * ensemble, and no other member is to be asked. 0: else. Or a negative NAME_ERROR_*.HEADS(
 * Every head has to reach it.)HEADS */
int name_gated(const name_ensemble *ensemble);

)GATEONE(/* Members, one after the other, until the label is settled, or its mean probability is at least `confidence`
 * (Q16; 0: go on whatever it is), or all are used.GATE( No second one where name_gated.)GATE
 * Gives the label, or a negative NAME_ERROR_*. */
)ONEHEADS(/* Members, one after the other, until every label is settled, or the mean probability of each is at least
 * `confidence` (Q16; 0: go on whatever it is), or all are used.GATE( No second one where name_gated.)GATE
 * Gives the label of the first head, or a negative NAME_ERROR_*.
 *
 * answer: NAME_HEADS results. */
)HEADSint name_predict(const INPUT_TYPE *input, void *arena, name_ensemble *ensemble, uint32_t confidence,
                 name_answer *answer);
"""

_ENSEMBLE = """\
HEADS(/* Where the scores of each head begin, and the end of the last. */
static const int32_t name_starts[NAME_HEADS + 1] = {STARTS};

int name_label(uint32_t head, const int32_t *scores)
{
    if (scores == 0) {
        return NAME_ERROR_NULL;
    }
    if (head >= NAME_HEADS) {
        return NAME_ERROR_EMPTY;
    }
    return (int)name_blrc_argmax(name_starts[head + 1] - name_starts[head], scores + name_starts[head]);
}

)HEADSint name_init(name_ensemble *ensemble)
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
ONE(    /* A score times multiplier / 2^shift is in bits, Q16. */
    const uint32_t multiplier = MULTIPLIERu;
    const int32_t shift = SHIFT;
)ONEHEADS(    /* For each head: a score times multiplier / 2^shift is in bits, Q16. */
    static const uint32_t multipliers[NAME_HEADS] = {MULTIPLIERS};
    static const int32_t shifts[NAME_HEADS] = {SHIFTS};
    int32_t head;
)HEADS    int32_t *scores;
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
ONE(    name_blrc_head_add(NAME_CLASSES, multiplier, shift, scores, ensemble->log_p, ensemble->p, ensemble->p_squared);
)ONEHEADS(    for (head = 0; head < NAME_HEADS; ++head) {
        const int32_t at = name_starts[head];

        name_blrc_head_add(name_starts[head + 1] - at, multipliers[head], shifts[head], scores + at,
                           ensemble->log_p + at, ensemble->p + at, ensemble->p_squared + at);
    }
)HEADS    ++ensemble->members;
    return 0;
}

int name_result(const name_ensemble *ensemble, name_answer *answer)
{
    int32_t label;
HEADS(    int32_t head;
)HEADS
    if (ensemble == 0 || answer == 0) {
        return NAME_ERROR_NULL;
    }
    if (ensemble->members == 0) {
        return NAME_ERROR_EMPTY;
    }
    if (ensemble->members > NAME_MEMBERS) {
        return NAME_ERROR_MEMBERS;
    }
ONE(    label = name_blrc_argmax(NAME_CLASSES, ensemble->log_p);
    answer->label = label;
    answer->members = ensemble->members;
    answer->mean = name_blrc_head_mean(ensemble->members, ensemble->p[label]);
    answer->variance =
        name_blrc_head_variance(ensemble->members, ensemble->p[label], ensemble->p_squared[label]);
    return (int)label;
)ONEHEADS(    for (head = 0; head < NAME_HEADS; ++head) {
        const int32_t at = name_starts[head];

        label = name_blrc_argmax(name_starts[head + 1] - at, ensemble->log_p + at);
        answer[head].label = label;
        answer[head].members = ensemble->members;
        answer[head].mean = name_blrc_head_mean(ensemble->members, ensemble->p[at + label]);
        answer[head].variance =
            name_blrc_head_variance(ensemble->members, ensemble->p[at + label], ensemble->p_squared[at + label]);
    }
    return (int)answer[0].label;
)HEADS}

int name_is_final(const name_ensemble *ensemble)
{
HEADS(    int32_t head;

)HEADS    if (ensemble == 0) {
        return NAME_ERROR_NULL;
    }
    if (ensemble->members == 0) {
        return 0;
    }
    if (ensemble->members > NAME_MEMBERS) {
        return NAME_ERROR_MEMBERS;
    }
ONE(    return (int)name_blrc_head_settled(NAME_CLASSES, NAME_MEMBERS - ensemble->members, ensemble->log_p);
)ONEHEADS(    for (head = 0; head < NAME_HEADS; ++head) {
        const int32_t at = name_starts[head];

        if (!name_blrc_head_settled(name_starts[head + 1] - at, NAME_MEMBERS - ensemble->members,
                                    ensemble->log_p + at)) {
            return 0;
        }
    }
    return 1;
)HEADS}

GATE(int name_gated(const name_ensemble *ensemble)
{
HEADS(    int32_t head;

)HEADS    if (ensemble == 0) {
        return NAME_ERROR_NULL;
    }
ONE(    return ensemble->members == 1 && ensemble->p[name_blrc_argmax(NAME_CLASSES, ensemble->log_p)] >= NAME_GATE;
)ONEHEADS(    for (head = 0; head < NAME_HEADS; ++head) {
        const int32_t at = name_starts[head];

        if (ensemble->p[at + name_blrc_argmax(name_starts[head + 1] - at, ensemble->log_p + at)] < NAME_GATE) {
            return 0;
        }
    }
    return ensemble->members == 1;
)HEADS}

)GATEint name_predict(const INPUT_TYPE *input, void *arena, name_ensemble *ensemble, uint32_t confidence,
                 name_answer *answer)
{
HEADS(    int32_t head;

)HEADS    if (ensemble == 0 || answer == 0) {
        return NAME_ERROR_NULL;
    }
    name_init(ensemble);
    do {
        const int status = name_add(ensemble, input, arena);

        if (status < 0) {
            return status;
        }
        name_result(ensemble, answer);
ONE(        if (confidence != 0 && answer->mean >= confidence) {
            break;
        }
)ONEHEADS(        head = 0;
        while (head < NAME_HEADS && answer[head].mean >= confidence) {
            ++head;
        }
        if (confidence != 0 && head == NAME_HEADS) {
            break;
        }
)HEADSGATE(        if (name_gated(ensemble)) {
            break;
        }
)GATE    } while (!name_is_final(ensemble)); /* it is when all members are used */
    return (int)answer->label;
}
"""
