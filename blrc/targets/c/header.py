"""``<name>.h``: the public interface of an exported model."""

from __future__ import annotations

from blrc.targets.c import text
from blrc.targets.c.symbols import Symbols, describe, element, elements, head


def header(symbols: Symbols, version: str, vectors: int) -> str:
    """The text of ``<name>.h``."""
    what = f"{symbols.name}: a binary neural network, in integers."
    body = "#include <stdint.h>\n\n" + _macros(symbols, vectors) + "\n" + text.extern_c(_functions(symbols, vectors))
    return head(symbols, version, what) + text.guarded(f"{symbols.upper}_H", body)


def _macros(symbols: Symbols, vectors: int) -> str:
    layout, upper = symbols.layout, symbols.upper
    program = layout.program
    height, width, channels = program.input.shape
    facts: list[tuple[str, object, str]] = [
        ("DIGEST", f'"{symbols.digest}"', "of the program"),
        ("DIGEST_HEAD", symbols.digest_head, "its start, for #if"),
        ("MEMBERS", len(program.members), "networks in the ensemble"),
        ("INPUT_HEIGHT", height, ""),
        ("INPUT_WIDTH", width, ""),
        ("INPUT_CHANNELS", channels, ""),
        ("INPUT_SIZE", elements(program.input), f"elements ({element(program.input)}) of the input"),
        ("CLASSES", program.classes, "elements (int32_t) of the scores"),
        ("ARENA_SIZE", layout.arena_bytes, "bytes of scratch memory"),
        ("ARENA_ALIGN", layout.align, "bytes: the arena's address is a multiple of it"),
        ("VECTORS", vectors, "recorded inputs of the self-test"),
        ("ERROR_NULL", "(-1)", "a pointer is null"),
        ("ERROR_ALIGN", "(-2)", "the arena is not aligned"),
        ("OPS", len(layout.steps), "steps, in this order:"),
    ]
    lines = [text.define(f"{upper}_{name}", value, note) for name, value, note in facts]
    lines += [
        text.define(symbols.index(step), i, f"{step.op.name}: {step.kernel}, gives {describe(step.y)}")
        for i, step in enumerate(layout.steps)
    ]
    return "".join(lines)


def _functions(symbols: Symbols, vectors: int) -> str:
    name, upper = symbols.name, symbols.upper
    value = symbols.layout.program.input
    pointer = f"const {element(value)} *input"
    layout_of_input = (
        "each pixel is packed words: channel c is bit c % 32 of word c / 32 (1 is +1), unused bits are 0"
        if value.dtype == "bits"
        else "height, width, channels"
    )
    arena = f"arena: {upper}_ARENA_SIZE bytes at a multiple of {upper}_ARENA_ALIGN; its contents need not be kept."
    parts = [
        text.comment(
            f"The class of one input, or a negative {upper}_ERROR_*.\n\n"
            f"input: {upper}_INPUT_SIZE elements; {layout_of_input}.\n{arena}\n"
            f"scores: {upper}_CLASSES results. The class is the first of the largest."
        ),
        f"int {name}_classify({pointer}, void *arena, int32_t *scores);\n\n",
        text.comment("Called after every step with what it wrote; op is the step's index."),
        f"typedef void (*{name}_observer)(void *context, int32_t op, const void *output, uint32_t bytes);\n\n",
        text.comment(f"The same as {name}_classify, and tells `observer` of every step."),
        text.wrap(
            f"int {name}_observe(",
            [pointer, "void *arena", "int32_t *scores", f"{name}_observer observer", "void *context"],
            ");",
        ),
    ]
    if vectors:
        parts += [
            "\n",
            text.comment(
                f"Runs the recorded inputs in {name}_vectors.c and compares every step with what was recorded.\n"
                "0: all equal; 1 + the index of the first step that differs; or a negative error. "
                "The scores lie on the stack."
            ),
            f"int {name}_selftest(void *arena);\n",
        ]
    return "".join(parts)
