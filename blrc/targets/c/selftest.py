"""``<name>_vectors.c``: recorded inputs with what every step must give for them, and a main function that runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.targets.c import text
from blrc.targets.c.symbols import Symbols, element, elements, head
from blrc.vectors import Vectors, layer_digest, memory

MOST = 16  # vectors in the self-test: enough to see a wrong kernel, few enough for a small device


def count(vectors: Vectors) -> int:
    """How many of the recorded vectors the self-test holds."""
    return min(len(vectors.inputs), MOST)


def vectors_file(symbols: Symbols, version: str, vectors: Vectors) -> str:
    """The text of ``<name>_vectors.c``."""
    layout, name, upper = symbols.layout, symbols.name, symbols.upper
    n, program = count(vectors), layout.program
    values = {key: value[:n] for key, value in vectors.values[0].items()}
    digests = np.stack([layer_digest(step.y, values[step.y.name]) for step in layout.steps], axis=1)
    inputs = memory(program.input, vectors.inputs[:n])

    def table(role: str, array: NDArray[Any]) -> str:
        c_type = text.c_type(array.dtype)
        return text.array(f"static const {c_type} {name}_vector_{role}[{array.size}]", array.reshape(-1))

    what = f"{name}: the self-test. Compile it only where it is wanted."
    return (
        head(symbols, version, what)
        + f'#include "{name}.h"\n#include "{name}_blrc.h"\n\n{symbols.refuse()}\n'
        + text.comment(f"{n} inputs, one after the other")
        + table("inputs", inputs)
        + text.comment("for each input the digest of what each step gives")
        + table("digests", digests)
        + text.comment("and the scores")
        + table("scores", values[program.output.name].reshape(n, -1))
        + "\n"
        + _digest(symbols)
        + _SELFTEST.replace("NAME_", f"{upper}_")
        .replace("name_", f"{name}_")
        .replace("element", element(program.input))
    )


def _digest(symbols: Symbols) -> str:
    """A function that gives the digest of any step's output."""
    name = symbols.name
    cases = "".join(
        f"    if (op == {symbols.index(step)}) {{\n"
        f"        return {symbols.runtime('digest_' + step.y.dtype)}({elements(step.y)}, "
        f"(const {element(step.y)} *)output);\n    }}\n"
        for step in symbols.layout.steps
        if step.y.dtype != "bits"
    )
    return (
        f"static uint32_t {name}_vector_digest(int32_t op, const void *output, uint32_t bytes)\n{{\n{cases}"
        f"    return {symbols.runtime('digest_bits')}(bytes / 4, (const uint32_t *)output);\n}}\n\n"
    )


_SELFTEST = """\
typedef struct name_vector_state {
    const uint32_t *digests;
    int32_t first; /* index of the first step that differs, or NAME_OPS */
} name_vector_state;

static void name_vector_compare(void *context, int32_t op, const void *output, uint32_t bytes)
{
    name_vector_state *const state = (name_vector_state *)context;

    if (state->first == NAME_OPS && name_vector_digest(op, output, bytes) != state->digests[op]) {
        state->first = op;
    }
}

int name_selftest(void *arena)
{
    int32_t scores[NAME_CLASSES];
    int32_t vector, i;

    for (vector = 0; vector < NAME_VECTORS; ++vector) {
        const element *const input = name_vector_inputs + vector * NAME_INPUT_SIZE;
        const int32_t *const expected = name_vector_scores + vector * NAME_CLASSES;
        name_vector_state state = {name_vector_digests + vector * NAME_OPS, NAME_OPS};
        const int label = name_observe(input, arena, scores, name_vector_compare, &state);

        if (label < 0) {
            return label;
        }
        if (state.first != NAME_OPS) {
            return (int)state.first + 1;
        }
        for (i = 0; i < NAME_CLASSES; ++i) {
            if (scores[i] != expected[i] || expected[i] > expected[label] - (i < label)) {
                return NAME_OPS;
            }
        }
    }
    return 0;
}
"""


def main_file(symbols: Symbols, version: str) -> str:
    """The text of ``<name>_selftest.c``: a main function for the host; no part of the library."""
    what = f"{symbols.name}: runs the self-test on the host (make selftest). No part of the library."
    body = _MAIN.replace("NAME_", f"{symbols.upper}_").replace("name_", f"{symbols.name}_")
    return head(symbols, version, what) + f'#include <stdio.h>\n\n#include "{symbols.name}.h"\n\n{body}'


_MAIN = """\
static uint32_t name_selftest_arena[(NAME_ARENA_SIZE + 3) / 4];

int main(void)
{
    const int result = name_selftest(name_selftest_arena);

    if (result == 0) {
        printf("selftest: %d inputs, %d steps: equal\\n", NAME_VECTORS, NAME_OPS);
        return 0;
    }
    if (result > 0) {
        printf("selftest: step %d differs from the reference (see the list in the header)\\n", result - 1);
    } else {
        printf("selftest: error %d\\n", result);
    }
    return 1;
}
"""
