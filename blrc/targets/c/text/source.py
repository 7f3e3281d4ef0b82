"""Write ``<name>.c``: one readable function for every step, and the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blrc.program.program import Conv, Pool, SumPool, Window
from blrc.targets.c.kernels.kernel import Number
from blrc.targets.c.layout.layout import Layout, Step, Table
from blrc.targets.c.layout.strips import scratch_of
from blrc.targets.c.text import stored, tables, text
from blrc.targets.c.text.ends import ensemble
from blrc.targets.c.text.header import OBSERVED, observe_arguments
from blrc.targets.c.text.symbols import Symbols, describe, element, head

_NO_POOL = Window((1, 1))

_HOOKS = """\
/* Around every step, for a clock: see the header. */
#ifdef NAME_HOOKS
#include NAME_HOOKS
#endif
#ifndef NAME_BEFORE_OP
#define NAME_BEFORE_OP(member, op) ((void)0)
#endif
#ifndef NAME_AFTER_OP
#define NAME_AFTER_OP(member, op) ((void)0)
#endif

"""


def source(symbols: Symbols, version: str, runtime: str) -> str:
    """Return the text of ``<name>.c``.

    Args:
        runtime: the number of the runtime that the file is written for.
    """
    name, upper = symbols.name, symbols.upper
    parts = [
        f'#include "{name}_blrc.h"\n\n',
        symbols.refuse(),
        f"#if {upper}_BLRC_NUMBER != {runtime}\n"
        '#error "files of two exports: run blrc export again and copy all its files"\n'
        "#endif\n",
        _too_large(symbols),
        "\n",
        text.comment(f"The tables in {name}_weights.c."),
        tables.declarations(symbols),
        "\n",
        text.fill(_HOOKS, text.model(name)),
        *(_step(symbols, step) for step in symbols.layout.steps),
        _tell(symbols),
        *(_strips(symbols, first, end) for first, end in symbols.layout.groups if end - first > 1),
        _run(symbols),
        _public(symbols),
        "\n",
        ensemble.definitions(symbols),
    ]
    what = f"{name}: the steps of the network, in order, and what its members say together."
    return head(symbols, version, what) + symbols.source("".join(parts))


def _too_large(symbols: Symbols) -> str:
    """Return lines that refuse AVR if the caller could not declare an array for the arena or the input.

    Arrays have at most 32,767 bytes there.
    """
    for what, nbytes in (("arena", symbols.layout.arena_bytes), ("input", symbols.layout.program.input.nbytes)):
        if nbytes > stored.AVR_OBJECT:
            return (
                "#if defined(__AVR__)\n"
                f'#error "AVR: the {what} has {nbytes} bytes; an array has at most 32767 there: take a smaller model"\n'
                "#endif\n"
            )
    return ""


def _step(symbols: Symbols, step: Step) -> str:
    title = f"{step.op.name}: {describe(step.x)} -> {describe(step.y)}. Kernel {step.kernel}: {step.why}."
    shape = _shape(symbols, step)
    function = symbols.step(step)
    in_strips = symbols.layout.in_strips(step)
    part = f"const {symbols.runtime('conv')} *shape" if in_strips else ""
    given = [_table(symbols, step, table) for table in step.tables]
    arguments = step.record.arguments(step, "shape" if in_strips else f"&{symbols.shape(step)}", given)
    scratch = "uint32_t *scratch" if step.scratch else ""
    numbers = [argument for argument in arguments if isinstance(argument, Number)]
    names = [argument.name if isinstance(argument, Number) else argument for argument in arguments]
    body = text.call(symbols.runtime(step.kernel), names)
    if not any(len(table.arrays) > 1 for table in step.tables):
        body = "    (void)member; /* all members share these tables */\n" + body
    if numbers:
        body = f"    const int32_t {', '.join(f'{one.name} = {one.value}' for one in numbers)};\n\n" + body
    return (
        text.comment(title)
        + shape
        + text.wrap(
            f"static void {function}(",
            ["uint32_t member", *filter(None, [part, f"const {element(step.x)} *x", scratch]), f"{element(step.y)} *y"],
            ")",
        )
        + f"{{\n{body}}}\n\n"
    )


def _table(symbols: Symbols, step: Step, table: Table) -> str:
    name = symbols.table(step, table)
    if len(table.arrays) == 1:
        return f"{symbols.upper}_BLRC_FAR({name})"
    c_type, length = text.c_type(table.arrays[0].dtype), stored.length(symbols.upper, table.arrays[0])
    return f"{symbols.upper}_BLRC_MEMBER({c_type}, {name}, {length}, member)"


def _shape(symbols: Symbols, step: Step) -> str:
    op, kind = step.op, step.record.geometry
    if not kind:
        return ""
    if isinstance(op, Conv):
        lines = [
            _field(op.x.shape, "input: height, width, channels"),
            _field(op.unpooled[:2], "map before pooling: height, width"),
            _field(op.y.shape, "output: height, width, channels"),
            _field([op.groups], "groups of channels"),
            _field([step.rows], "outputs that share taps" if _shares(step) else "rows of a block of weights"),
            *_window("kernel", op.window),
            *_window("pooling", op.pool or _NO_POOL),
        ]
    else:
        assert isinstance(op, Pool | SumPool)
        lines = [
            _field(op.x.shape, "input: height, width, channels"),
            _field(op.y.shape[:2], "output: height, width"),
            *_window("pooling", op.window),
        ]
    return f"static const {symbols.runtime(kind)} {symbols.shape(step)} = {{\n{''.join(lines)}}};\n"


def _shares(step: Step) -> bool:
    """Return whether a kernel's rows are the outputs that share taps."""
    return step.scratch > 0 and not (step.record.levels or step.record.ternary or step.record.whole)


def _window(what: str, window: Window) -> list[str]:
    """Return the lines of a struct that describes a window."""
    return [
        "    {\n",
        *(
            f"    {_field(numbers, meaning)}"
            for numbers, meaning in (
                (window.kernel, f"{what}: height, width"),
                (window.stride, "stride: vertical, horizontal"),
                (window.padding[:2], "padding: top, left"),
                (window.dilation, "dilation: vertical, horizontal"),
            )
        ),
        "    },\n",
    ]


def _field(values: Sequence[int], meaning: str) -> str:
    """Return numbers of a struct on a line of their own, with what they mean."""
    return f"    {', '.join(map(str, values))}, /* {meaning} */\n"


# The arguments that functions which run steps pass on to the observer.
WATCHING = ("observer", "context")


def _tell(symbols: Symbols) -> str:
    name = symbols.name
    return (
        text.wrap(f"static void {name}_tell(", [f"{name}_observer observer", *OBSERVED], ")")
        + "{\n    if (observer != 0) {\n        observer(context, member, op, output, bytes);\n    }\n}\n\n"
    )


def _one_step(
    symbols: Symbols, step: Step, maps: Mapping[str, str], part: str = "", nbytes: int = 0, indent: str = "    "
) -> str:
    """Return a step's call with the hooks around it and the call of the observer.

    Args:
        maps: the C names of values.
        part: the C expression for the geometry of a part of the rows, or "" for all of them.
        nbytes: the bytes of that part, or 0 for the whole output.
    """
    index = symbols.index(step)
    arguments = ["member", *([part] if part else []), maps[step.x.name], maps[step.y.name]]
    if step.scratch:
        arguments.insert(-1, f"words + {symbols.layout.arena.offsets[scratch_of(step.y)] // 4}")
    told = [*WATCHING, "member", index, maps[step.y.name], str(nbytes or step.y.nbytes)]
    return (
        f"{indent}{symbols.upper}_BEFORE_OP(member, {index});\n"
        + text.call(symbols.step(step), arguments, indent)
        + f"{indent}{symbols.upper}_AFTER_OP(member, {index});\n"
        + text.call(f"{symbols.name}_tell", told, indent)
    )


def _strips(symbols: Symbols, first: int, end: int) -> str:
    """Return a C function that runs several convolutions row by row."""
    layout = symbols.layout
    steps = layout.steps[first:end]
    x = steps[0].x
    maps = [symbols.maps[step.y.name] for step in steps]
    layers = "".join(
        f"        {{&{symbols.shape(step)}, {name}, {layout.rows.get(step.y.name, step.y.shape[0])}, 0, 0}},\n"
        for step, name in zip(steps, maps, strict=True)
    )
    cases = "".join(
        f"        case {i}:\n"
        + _one_step(
            symbols,
            step,
            {step.x.name: f"(const {element(step.x)} *)from", step.y.name: "to"},
            "&part",
            step.y.nbytes // step.y.shape[0],
            "            ",
        )
        + "            break;\n"
        for i, step in enumerate(steps)
    )
    names = ", ".join(step.op.name for step in steps)
    arguments = [f"const {element(x)} *x", *(f"uint32_t *{name}" for name in maps)]
    observer = [f"{symbols.name}_observer observer", "void *context"]
    following = ["strips", str(len(steps)), "x", str(x.nbytes // x.shape[0]), "&part", "&from", "&to"]
    return (
        text.comment(f"Row by row: {names}. Of the maps between them only the rows in use are kept.")
        + text.wrap(f"static void {symbols.strips(steps[0])}(", ["uint32_t member", *arguments, *observer], ")")
        + f"{{\n    {symbols.runtime('strip')} strips[{len(steps)}] = {{\n{layers}    }};\n"
        + f"    {symbols.runtime('conv')} part;\n    const void *from;\n    uint32_t *to;\n    int32_t next;\n\n"
        + text.wrap(f"    while ((next = {symbols.runtime('strips_next')}(", following, ")) >= 0) {")
        + f"        switch (next) {{\n{cases}        default:\n            break;\n        }}\n    }}\n}}\n\n"
    )


def _run(symbols: Symbols) -> str:
    name, layout = symbols.name, symbols.layout
    program = layout.program
    maps = {program.input.name: "input", program.output.name: "scores", **symbols.maps}
    declarations = [
        f"    {element(step.y)} *const {maps[step.y.name]} = "
        f"{_address(step, layout.arena.offsets[step.y.name])}; {text.comment(_kept(layout, step))}"
        for step in layout.steps[:-1]
    ]
    calls = [
        _one_step(symbols, layout.steps[first], maps)
        if end - first == 1
        else text.call(
            symbols.strips(layout.steps[first]),
            ["member", maps[layout.steps[first].x.name], *(maps[s.y.name] for s in layout.steps[first:end]), *WATCHING],
        )
        for first, end in layout.groups
    ]
    words_line = "    uint32_t *const words = (uint32_t *)arena;\n" if declarations else ""
    return (
        text.comment("One member on one input. Maps that are not needed at the same time share memory.")
        + text.wrap(f"static void {name}_run(", observe_arguments(symbols), ")")
        + "{\n"
        + words_line
        + "".join(declarations)
        + "\n"
        + ("" if declarations else "    (void)arena;\n")
        + "".join(calls)
        + "}\n\n"
    )


def _kept(layout: Layout, step: Step) -> str:
    rows = layout.rows.get(step.y.name)
    if rows is not None:
        return f"{describe(step.y)}, {rows} rows of it"
    return f"{step.y.nbytes} bytes: {describe(step.y)}"


def _address(step: Step, offset: int) -> str:
    place = f"words + {offset // 4}"
    return place if element(step.y) == "uint32_t" else f"({element(step.y)} *)({place})"


def _public(symbols: Symbols) -> str:
    name, upper = symbols.name, symbols.upper
    observe = text.wrap(f"int {name}_observe(", observe_arguments(symbols), ")")
    pointer = f"const {element(symbols.layout.program.input)} *input"
    values = bool(symbols.layout.program.values)
    given = "0" if values else f"(int){symbols.runtime('argmax')}({_first_classes(symbols)}, scores)"
    function, results = ("values", "values") if values else ("classify", "scores")
    classify = (
        f"\nint {name}_{function}({pointer}, void *arena, int32_t *{results})\n{{\n"
        f"    return {name}_observe(0, input, arena, {results}, 0, 0);\n}}\n"
    )
    return (
        f"{observe}{{\n"
        f"    if (input == 0 || arena == 0 || scores == 0) {{\n        return {upper}_ERROR_NULL;\n    }}\n"
        f"    if ((uintptr_t)arena % {upper}_ARENA_ALIGN != 0) {{\n        return {upper}_ERROR_ALIGN;\n    }}\n"
        f"    if (member >= {upper}_MEMBERS) {{\n        return {upper}_ERROR_MEMBERS;\n    }}\n"
        f"    {name}_run(member, input, arena, scores, observer, context);\n"
        f"    return {given};\n}}\n" + (classify if len(symbols.layout.program.members) == 1 else "")
    )


def _first_classes(symbols: Symbols) -> str:
    """Return how many scores the label of a member is taken from: those of the first head."""
    heads = symbols.layout.program.heads
    return f"{symbols.upper}_CLASSES_{heads[0].name.upper()}" if heads else f"{symbols.upper}_CLASSES"
