"""Write ``<name>.h``, the public interface of an exported model."""

from __future__ import annotations

import re

from blrc.errors import BlrcError
from blrc.program.program import Program
from blrc.reading.schema import shown
from blrc.targets.c.kernels.kernel import Task
from blrc.targets.c.kernels.registry import fitting
from blrc.targets.c.layout.layout import CPUS, HOSTS, PORTABLE, Layout, lay_out
from blrc.targets.c.size import footprint
from blrc.targets.c.text import text
from blrc.targets.c.text.ends import values
from blrc.targets.c.text.ends.ensemble import declarations
from blrc.targets.c.text.symbols import Symbols, describe, element, elements, head


def header(symbols: Symbols, version: str, vectors: int) -> str:
    """Return the text of ``<name>.h``."""
    what = f"{symbols.name}: a binary neural network, in integers."
    body = "#include <stdint.h>\n\n" + _macros(symbols, vectors) + "\n" + text.extern_c(_functions(symbols, vectors))
    return head(symbols, version, what) + text.guarded(f"{symbols.upper}_H", text.of_language(symbols.name, body))


# The parameters of an observer.
OBSERVED = ("void *context", "uint32_t member", "int32_t op", "const void *output", "uint32_t bytes")


def observe_arguments(symbols: Symbols) -> list[str]:
    """Return the parameters of ``<name>_observe``, which are also those of ``<name>_run``."""
    pointer = f"const {element(symbols.layout.program.input)} *input"
    observer = f"{symbols.name}_observer observer"
    return ["uint32_t member", pointer, "void *arena", "int32_t *scores", observer, "void *context"]


def read_layout(program: Program, name: str, header: bytes) -> Layout:
    """Return the layout with which a program's C was written, from the ``<name>.h`` of that C.

    Args:
        header: the contents of ``<name>.h``, which may come from a stranger.

    Raises:
        BlrcError: the header names ops that the program does not have or that cannot be bit-sliced, or an unknown CPU.
    """
    given = re.sub(r" *\\\n *", " ", header.decode("ascii", "replace"))  # long lines of a macro are broken
    file, upper = f"{name}.h", name.upper()
    cpu = _told(rf'{upper}_CPU "([^"\n]*)"', given, PORTABLE)
    if cpu not in CPUS:
        raise BlrcError(f"{file}: is for CPU {shown(cpu)}, and known are {', '.join(CPUS)}; export again")
    sliced = []
    ops = {str(i): op for i, op in enumerate(program.ops)}
    for index in _told(rf'{upper}_SLICED "([0-9 ]*)"', given, "").split():
        op = ops.get(index)
        if op is None or not any(fitting(Task(program, op, CPUS[cpu]), takes_ram=True)):
            raise BlrcError(f"{file}: says that op {shown(index)} is bit-sliced, which it cannot be; export again")
        sliced.append(op.name)
    return lay_out(program, sliced, 1 if _told(rf"{upper}_STRIPS (1)\b", given, "") else None, cpu)


def _told(macro: str, given: str, otherwise: str) -> str:
    found = re.search(f"^#define {macro}", given, re.MULTILINE | re.ASCII)
    return otherwise if found is None else found[1]


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
        *([] if program.values else [("CLASSES", program.classes, "elements (int32_t) of the scores")]),
        ("ARENA_SIZE", layout.arena_bytes, "bytes of scratch memory"),
        ("VECTORS", vectors, "recorded inputs of the self-test"),
        ("ERROR_NULL", "(-1)", "a pointer is null"),
        ("ERROR_ALIGN", "(-2)", "the arena is not aligned"),
        ("ERROR_MEMBERS", "(-3)", "there is no such member: all have been added"),
        ("ERROR_EMPTY", "(-4)", "no member has been added"),
        ("OPS", len(layout.steps), "steps, in this order:"),
    ]
    if layout.cpu != PORTABLE:
        facts.insert(2, ("CPU", f'"{layout.cpu}"', "whose kernels these are"))
    if layout.sliced:
        sliced = " ".join(str(i) for i, op in enumerate(program.ops) if op.name in layout.sliced)
        facts.insert(-1, ("SLICED", f'"{sliced}"', "ops of the program that are bit-sliced"))
    if layout.has_strips_anyway:
        facts.insert(-1, ("STRIPS", 1, "steps run row by row although that saves little"))
    if layout.cpu not in HOSTS:
        bound = footprint.sizes_for(layout).compiler
        stacks = [(f"STACK_{call.upper()}", n, "") for call, n in footprint.call_stacks(layout).items()]
        name, nbytes, _ = stacks[0]
        stacks[0] = (name, nbytes, f"bytes of stack at most of a call, with {bound}")
        facts[-1:-1] = stacks
    if program.gate:
        note = "Q16: where the first member's probability is at least this, it answers alone"
        facts.insert(3, ("GATE", program.gate, note))
    facts[next(i for i, fact in enumerate(facts) if fact[0] == "ARENA_SIZE") : 0] = _heads(program)
    lines = [text.define(f"{upper}_{name}", value, note) for name, value, note in facts]
    align = text.define(f"{upper}_ARENA_ALIGN", layout.align, "bytes: the arena's address is a multiple of it")
    anywhere = text.define(f"{upper}_ARENA_ALIGN", 1, "arrays lie at any address there")
    at = next(i for i, (name, *_) in enumerate(facts) if name == "ARENA_SIZE") + 1
    lines.insert(at, f"#if defined(__AVR__)\n{anywhere}#else\n{align}#endif\n")
    lines += [
        text.define(symbols.index(step), i, f"{step.op.name}: {step.kernel}, gives {describe(step.y)}")
        for i, step in enumerate(layout.steps)
    ]
    names = ", \\\n    ".join(text.string(step.op.name) for step in layout.steps)
    note = f"Their names: static const char *const names[{upper}_OPS] = {upper}_STEP_NAMES;"
    return "".join(lines) + text.comment(note) + f"#define {upper}_STEP_NAMES {{ \\\n    {names} }}\n"


def _heads(program: Program) -> list[tuple[str, object, str]]:
    """Return the macros of a network with several heads: how many, and for each its number and where its scores lie."""
    if program.values:
        return values.macros(program)
    if not program.heads:
        return []
    names = ", ".join(text.string(each.name) for each in program.heads)
    found: list[tuple[str, object, str]] = [
        ("HEADS", len(program.heads), "parts of the scores with a label of their own")
    ]
    for index, (each, part) in enumerate(zip(program.heads, program.parts, strict=True)):
        word = each.name.upper()
        found += [
            (f"HEAD_{word}", index, f"the head {each.name}: its number,"),
            (f"START_{word}", part.place.start, "where its scores begin,"),
            (f"CLASSES_{word}", each.classes, "and how many there are"),
        ]
    return [*found, ("HEADS_NAMES", f"{{{names}}}", "")]


def _label(symbols: Symbols) -> list[str]:
    name, upper = symbols.name, symbols.upper
    says = f"The class of one head ({upper}_HEAD_*) by the scores of a member: the first of the head's largest."
    return [
        text.comment(f"{says}\n\nOr {upper}_ERROR_NULL, or {upper}_ERROR_EMPTY if there is no such head."),
        f"int {name}_label(uint32_t head, const int32_t *scores);\n\n",
    ]


def _functions(symbols: Symbols, vectors: int) -> str:
    name, upper = symbols.name, symbols.upper
    value = symbols.layout.program.input
    pointer = f"const {element(value)} *input"
    layout_of_input = {
        "bits": "each pixel is packed words: channel c is bit c % 32 of word c / 32 (1 is +1), unused bits are 0",
        "uint8": "height, width, channels; raw values from 0 to 255, which nothing has standardised",
        "int8": "height, width, channels; codes, as they are",
    }[value.dtype]
    arena = f"arena: {upper}_ARENA_SIZE bytes at a multiple of {upper}_ARENA_ALIGN; its contents need not be kept."
    parts = [
        text.comment(f"Everywhere:\n\ninput: {upper}_INPUT_SIZE elements; {layout_of_input}.\n{arena}") + "\n",
    ]
    program = symbols.layout.program
    heads = () if program.values else program.heads
    of_first, largest = ("", "of the largest") if not heads else (" by the first head", "of its largest")
    one, gives = "The class of one input", f"scores: {symbols.outputs} results. The class is the first {largest}."
    if program.values:
        one, gives = "0 and the values of one input", f"scores: {symbols.outputs} results, the values."
    function, results = ("values", "values") if program.values else ("classify", "scores")
    if len(program.members) == 1:
        told = gives.replace("scores:", f"{results}:")
        parts += [
            text.comment(f"{one}{of_first}, or a negative {upper}_ERROR_*.\n\n{told}"),
            f"int {name}_{function}({pointer}, void *arena, int32_t *{results});\n\n",
        ]
    alone = "0 and one member's values by itself" if program.values else f"One member's class by itself{of_first}"
    parts += [
        *(_label(symbols) if heads else []),
        declarations(symbols) + "\n",
        text.comment(
            "Called after every step of a member with what it wrote; op is the step's index."
            + (" Of steps that run row by row it is told of every row." if symbols.layout.rows else "")
        ),
        text.wrap(f"typedef void (*{name}_observer)(", OBSERVED, ");") + "\n",
        text.comment(
            f"{alone}, or a negative {upper}_ERROR_*; tells `observer`, if not null, of every step.\n\n{gives}"
        ),
        text.wrap(f"int {name}_observe(", observe_arguments(symbols), ");"),
        "\n",
        text.comment(
            f"To time each step, define {upper}_BEFORE_OP(member, op) and {upper}_AFTER_OP(member, op), which stand "
            f"around every one in {name}.c: op is its index, member a uint32_t. Do so in a header of yours that the "
            f"compiler is told of, for example -D{upper}_HOOKS='\"clock.h\"'. Undefined, they cost nothing."
            + (" Of steps that run row by row they stand around every row." if symbols.layout.rows else "")
        ),
    ]
    if vectors:
        parts += [
            "\n",
            text.comment(
                f"Runs the recorded inputs in {name}_selftest.c and compares every step with what was recorded.\n"
                f"0: all equal; or a negative error; or 1 + member * {upper}_OPS + the index of the first step that "
                f"differs;\nor 1 + {upper}_MEMBERS * {upper}_OPS: only what the members say together differs.\n"
                f"The member is (result - 1) / {upper}_OPS, the step (result - 1) % {upper}_OPS; "
                f"{upper}_STEP_NAMES says what it is called.\n"
                f"Scores and a {name}_ensemble lie on the stack; on AVR an input too."
            ),
            f"int {name}_selftest(void *arena);\n",
        ]
    return "".join(parts)
