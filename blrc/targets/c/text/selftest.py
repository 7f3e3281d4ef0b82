"""Write the self-test of an export, ``<name>_selftest.c``.

It holds recorded inputs with what every step must give for them, functions that compare, and for the host a main
function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.vectors import Vectors, memory
from blrc.targets.c.text import stored, text
from blrc.targets.c.text.ends import values
from blrc.targets.c.text.ends.ensemble import chosen
from blrc.targets.c.text.ends.recorded import LABELS, expected
from blrc.targets.c.text.reflow import reflow
from blrc.targets.c.text.symbols import Symbols, element, elements, head

MOST = 16  # the most vectors in the self-test: enough to see a wrong kernel, few enough for a small device


def count(vectors: Vectors) -> int:
    """Return how many of the recorded vectors the self-test holds."""
    return min(len(vectors.inputs), MOST)


def selftest_file(symbols: Symbols, version: str, vectors: Vectors) -> str:
    """Return the text of ``<name>_selftest.c``."""
    layout, name, upper = symbols.layout, symbols.name, symbols.upper
    n, program = count(vectors), layout.program
    digests = np.array([[member.digests[s.y.name][:n] for s in layout.steps] for member in vectors.members]).transpose(
        2, 0, 1
    )
    scores = [member.scores[:n] for member in vectors.members]
    answer = program.together(scores)
    inputs = memory(program.input, vectors.inputs[:n])

    def table(role: str, array: NDArray[Any]) -> str:
        return stored.define(upper, f"{name}_vector_{role}", array.reshape(-1), static=True)

    what = (
        f"{name}: the self-test. Compile it only where it is wanted.\n\n"
        f"With -D{upper}_SELFTEST_MAIN it is a program for the host, which make selftest runs."
    )
    body = (
        f'#include "{name}_blrc.h"\n\n{symbols.refuse()}\n'
        + text.comment(f"{n} inputs, one after the other")
        + table("inputs", inputs)
        + text.comment("for each input and each member the digest of what each step gives")
        + table("digests", digests)
        + expected(program, answer, table)
        + "\n"
        + reflow(_functions(symbols))
    )
    return head(symbols, version, what) + symbols.source(body)


def _functions(symbols: Symbols) -> str:
    name, program = symbols.name, symbols.layout.program
    return (
        _digest(symbols)
        + text.fill(
            chosen(_MEMBER + (values.SELFTEST if program.values else LABELS) + _ALL, program),
            {
                **text.model(name),
                "NAME_CLASSES": symbols.outputs,
                " GATED": f" && {name}_gated(&ensemble) != 1" if program.gate else "",
                "INPUT_TYPE": element(program.input),
                "ENDS": ", ".join(str(part.place.stop) for part in program.parts),
            },
        )
        + text.fill(_MAIN, text.model(name))
    )


def _digest(symbols: Symbols) -> str:
    """Return a C function that continues the digest of any step's output.

    Only output of bits, or of codes whose bits lie apart, may come in pieces.
    """
    name = symbols.name
    cases = "".join(
        f"    if (op == {symbols.index(step)}) {{\n"
        f"        return {symbols.runtime('digest_' + step.y.dtype)}({elements(step.y)}, "
        f"(const {element(step.y)} *)output);\n    }}\n"
        for step in symbols.layout.steps
        if not step.y.element.planes and not step.y.is_codes
    )
    cases += "".join(
        f"    if (op == {symbols.index(step)}) {{\n"
        f"        return {name}_vector_bytes({elements(step.y)}, (const uint8_t *)output);\n    }}\n"
        for step in symbols.layout.steps
        if not step.y.element.planes and step.y.is_codes
    )
    of_bytes = text.fill(_OF_BYTES, text.model(name)) if f"{name}_vector_bytes" in cases else ""
    more = text.call(
        f"    return {symbols.runtime('digest_more')}", ["state", "bytes / 4", "(const uint32_t *)output"], ""
    )
    return (
        of_bytes
        + text.wrap(
            f"static uint32_t {name}_vector_digest(",
            ["uint32_t state", "int32_t op", "const void *output", "uint32_t bytes"],
            ")",
        )
        + f"{{\n{cases}{more}}}\n\n"
    )


_OF_BYTES = """\
static uint32_t name_vector_bytes(uint32_t count, const uint8_t *map)
{
    uint32_t state = NAME_BLRC_DIGEST_START;
    uint32_t element;

    for (; count > 0; --count) {
        element = *map++;
        state = name_blrc_digest_more(state, 1, &element);
    }
    return state;
}

"""

_MEMBER = """\
static void name_vector_add(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    uint32_t *const digests = (uint32_t *)context;

    (void)member;
    digests[op] = name_vector_digest(digests[op], op, output, bytes);
}

HEADS(/* Whether the label of every head is the first largest of its scores. */
static int name_vector_labels(const int32_t *scores)
{
    static const int32_t ends[NAME_HEADS] = {ENDS};
    int32_t i = 0;
    uint32_t head;

    for (head = 0; head < NAME_HEADS; ++head) {
        const int32_t from = i;
        const int32_t label = from + name_label(head, scores);

        for (; i < ends[head]; ++i) {
            if (label < from || label >= ends[head] || scores[i] > scores[label] ||
                (i < label && scores[i] == scores[label])) {
                return 0;
            }
        }
    }
    return 1;
}

)HEADS/* One member's steps on one input. */
static int name_vector_member(int32_t vector, uint32_t member, const INPUT_TYPE *input, void *arena)
{
    const uint32_t at = (uint32_t)vector * NAME_MEMBERS + member;
    NAME_BLRC_TABLE(uint32_t) const expected =
        NAME_BLRC_SKIP(uint32_t, NAME_BLRC_FAR(name_vector_digests), at * NAME_OPS);
    int32_t scores[NAME_CLASSES];
    uint32_t digests[NAME_OPS];
    int32_t first, i;
    int label;

    for (i = 0; i < NAME_OPS; ++i) {
        digests[i] = NAME_BLRC_DIGEST_START;
    }
    label = name_observe(member, input, arena, scores, name_vector_add, digests);
    if (label < 0) {
        return label;
    }
    for (first = 0; first < NAME_OPS && digests[first] == NAME_BLRC_READ(uint32_t, expected, first);) {
        ++first;
    }
ONE(    for (i = 0; i < NAME_CLASSES && first == NAME_OPS; ++i) {
        if (scores[i] > scores[label] || (i < label && scores[i] == scores[label])) {
            first = NAME_OPS - 1;
        }
    }
)ONEHEADS(    if (first == NAME_OPS && (label != name_label(0, scores) || !name_vector_labels(scores))) {
        first = NAME_OPS - 1;
    }
)HEADS    return first == NAME_OPS ? 0 : (int)(1 + (int32_t)member * NAME_OPS + first);
}

"""
_ALL = """
#if defined(NAME_BLRC_FAR_TABLES)
/* A recorded input, copied from flash to where the model reads inputs. */
static const INPUT_TYPE *name_vector_input(int32_t vector, INPUT_TYPE *copy)
{
    NAME_BLRC_TABLE(INPUT_TYPE) const from =
        NAME_BLRC_SKIP(INPUT_TYPE, NAME_BLRC_FAR(name_vector_inputs), vector * NAME_INPUT_SIZE);
    int32_t i;

    for (i = 0; i < NAME_INPUT_SIZE; ++i) {
        copy[i] = NAME_BLRC_READ(INPUT_TYPE, from, i);
    }
    return copy;
}
#endif

int name_selftest(void *arena)
{
#if defined(NAME_BLRC_FAR_TABLES)
    INPUT_TYPE copy[NAME_INPUT_SIZE];
#endif
    int32_t vector;
    uint32_t member;
    int status = 0;

    for (vector = 0; vector < NAME_VECTORS && status == 0; ++vector) {
#if defined(NAME_BLRC_FAR_TABLES)
        const INPUT_TYPE *const input = name_vector_input(vector, copy);
#else
        const INPUT_TYPE *const input = name_vector_inputs + vector * NAME_INPUT_SIZE;
#endif

        for (member = 0; member < NAME_MEMBERS && status == 0; ++member) {
            status = name_vector_member(vector, member, input, arena);
        }
        if (status == 0) {
            status = name_vector_ensemble(vector, input, arena);
        }
    }
    return status;
}
"""


_MAIN = """
#if defined(NAME_SELFTEST_MAIN)
#include <stdio.h>

static uint32_t name_selftest_arena[(NAME_ARENA_SIZE + 3) / 4];
static const char *const name_selftest_ops[NAME_OPS] = NAME_STEP_NAMES;

int main(void)
{
    const int result = name_selftest(name_selftest_arena);

    if (result == 0) {
        printf("selftest: inputs %d, members %d, steps %d, and what they say together: equal\\n",
               NAME_VECTORS, NAME_MEMBERS, NAME_OPS);
        return 0;
    }
    if (result < 0) {
        printf("selftest: error %d\\n", result);
    } else if (result > NAME_MEMBERS * NAME_OPS) {
        printf("selftest: what the members say together differs from the reference\\n");
    } else {
        printf("selftest: member %d, step %d differs from the reference: %s\\n",
               (result - 1) / NAME_OPS, (result - 1) % NAME_OPS, name_selftest_ops[(result - 1) % NAME_OPS]);
    }
    return 1;
}
#endif
"""
