"""Check whether an export fits a device; if not, show what is used where, and what would help, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

from blrc.display import table
from blrc.errors import DiffersError
from blrc.inspection import what_if
from blrc.program.program import Conv, Program
from blrc.targets.c.layout.layout import PORTABLE
from blrc.targets.c.size import footprint
from blrc.targets.c.size.choose import choose
from blrc.targets.c.size.footprint import Memory, Part
from blrc.targets.requests import Optimize

_WIDTHS = [Fraction(eighths, 8) for eighths in range(7, 0, -1)]


@dataclass(frozen=True)
class Budget:
    """Hold the bytes that one model may take; None stands for no limit."""

    flash: int | None = None
    ram: int | None = None

    def over(self, found: Memory) -> tuple[int, int]:
        """Return how many bytes of flash and of RAM are too many; 0 where it fits."""
        flash = 0 if self.flash is None else max(0, found.flash_bytes - self.flash)
        ram = 0 if self.ram is None else max(0, found.ram_bytes - self.ram)
        return flash, ram

    def fits(self, found: Memory) -> bool:
        return self.over(found) == (0, 0)


@dataclass(frozen=True)
class Form:
    """Describe how the C of an export is made (`blrc.targets.c.size.choose.choose`), which decides what it takes."""

    optimize: Optimize = "size"
    cpu: str = PORTABLE

    def measure(self, program: Program, budget: Budget) -> Memory:
        return footprint.measure(choose(program, self.optimize, budget.ram, self.cpu, budget.flash))

    def others(self) -> Iterator[tuple[str, Form]]:
        """Yield other forms, and the options that ask for them."""
        for optimize in get_args(Optimize):
            if optimize != self.optimize and optimize != "speed":
                yield f"--optimize {optimize}", Form(optimize, self.cpu)
        if self.cpu != PORTABLE:
            yield f"--cpu {PORTABLE}", Form(self.optimize)


def check_budget(name: str, program: Program, budget: Budget, all_sampled: bool, form: Form = Form()) -> None:
    """Refuse a program that does not fit its budget.

    Args:
        name: what the user calls it.
        all_sampled: whether all binary layers of the sampled members are sampled, so that ``--sample conv`` would let
            the members share some.
        form: the form of the C.

    Raises:
        DiffersError: it does not fit; the message has the tables and the remedies.
    """
    if budget == Budget():
        return
    found = form.measure(program, budget)
    if not budget.fits(found):
        raise DiffersError("\n".join(_refusal(name, program, budget, found, all_sampled, form)))


def _refusal(
    name: str, program: Program, budget: Budget, found: Memory, all_sampled: bool, form: Form
) -> Iterator[str]:
    verdicts = [
        _verdict("flash", found.flash_bytes, budget.flash),
        _verdict("RAM", found.ram_bytes, budget.ram),
    ]
    yield f"{name} does not fit: {'; '.join(filter(None, verdicts))}. Nothing was written."
    yield ""
    yield from to_text(found)
    yield ""
    convolutions = [op for op in program.ops if isinstance(op, Conv) and not op.is_dense]
    whole = [op.name for op in convolutions if op.x.is_codes or op.y.is_codes]
    if whole and budget.ram is not None and found.ram_bytes > budget.ram:
        yield f"Layers that read or write codes keep whole maps, since they have no row strips: {', '.join(whole)}."
        yield ""
    helpful = list(remedies(program, budget, found, all_sampled, form))
    if helpful:
        yield "What would help:"
        yield from (f"  {line}" for line in table([remedy.row(budget) for remedy in helpful]))
    else:
        yield "No option of blrc export makes it fit: train a smaller network."


def _verdict(what: str, used: int, limit: int | None) -> str:
    if limit is None:
        return ""
    if used <= limit:
        return f"{what} {used:,} of {limit:,} bytes fits"
    return f"{what} {used:,} of {limit:,} bytes, {used - limit:,} too many"


def to_text(found: Memory) -> list[str]:
    """Return lines for a person that show what is used, and where."""
    layers: dict[str, dict[str, int]] = {}
    for part in found.flash:
        if part.layer:
            sizes = layers.setdefault(part.layer, {})
            sizes[part.what] = sizes.get(part.what, 0) + part.nbytes
    roles = {"weights": ("weights", "lists", "columns"), "thresholds": ("thresholds", "limits", "scales")}
    rows: list[tuple[str, ...]] = [("flash", *roles, "other tables", "bytes")]
    for layer, sizes in layers.items():
        known = [sum(sizes.get(name, 0) for name in names) for names in roles.values()]
        others = sum(sizes.values()) - sum(known)
        rows.append((layer, *map(_cell, known), _cell(others), f"{sum(sizes.values()):,}"))
    gaps = sum(part.nbytes for part in found.flash if part.what == "alignment")
    rows.append(("code", "", "", "", f"{found.code_bytes:,}"))
    rows.append(("alignment, at most", "", "", "", f"{gaps:,}"))
    rows.append(("total", "", "", "", f"{found.flash_bytes:,}"))
    slots = {part.layer: part.nbytes for part in found.slots}
    ram = [("RAM", "map in the arena", "stack while it runs", "bytes")]
    ram += [(layer, _cell(slots.get(layer, 0)), f"{stack:,}", "") for layer, stack in found.step_stack.items()]
    for part in found.ram:
        whose = "" if part.what in ("arena", "stack") else "caller's "
        ram.append((f"{whose}{_called(part, found)}", "", "", f"{part.nbytes:,}"))
    ram.append(("total", "", "", f"{found.ram_bytes:,}"))
    return [*table(rows), "", *table(ram)]


def _called(part: Part, found: Memory) -> str:
    """Return what a part of the RAM is for. For the stack, name the deepest call, and what the other call takes."""
    if part.what != "stack":
        return part.what
    deepest = max(found.calls, key=lambda call: found.calls[call])
    others = [f" ({call}: {nbytes:,})" for call, nbytes in found.calls.items() if call != deepest]
    return f"stack of {deepest}{''.join(others)}"


def _cell(nbytes: int) -> str:
    return f"{nbytes:,}" if nbytes else ""


@dataclass(frozen=True)
class Remedy:
    """Describe a change that would take less memory, and how much the export would take then."""

    what: str
    memory: Memory

    def row(self, budget: Budget) -> tuple[str, str, str]:
        over = budget.over(self.memory)
        lacking = [f"{nbytes:,} bytes of {kind}" for nbytes, kind in zip(over, ("flash", "RAM"), strict=True) if nbytes]
        verdict = f"still {' and '.join(lacking)} too many" if lacking else "fits"
        return f"{self.what}: {verdict}", f"flash {self.memory.flash_bytes:,}", f"RAM {self.memory.ram_bytes:,}"


def remedies(
    program: Program, budget: Budget, found: Memory, all_sampled: bool, form: Form = Form()
) -> Iterator[Remedy]:
    """Yield what takes less of the memory that is exceeded: options of the export, then narrower networks.

    All options that help are given. Of the narrower networks, only the widest that fits is given; if none fits, the
    narrowest that helps.
    """
    over = budget.over(found)

    def helps(other: Memory) -> bool:
        less = budget.over(other)
        return all(b < a or a == 0 for a, b in zip(over, less, strict=True)) and not (over[0] == 0 < less[0])

    forms = [Remedy(what, other.measure(program, budget)) for what, other in form.others()]
    options = [*forms, *_fewer(program, budget, all_sampled, form)]
    yield from (remedy for remedy in options if helps(remedy.memory))
    widths = [Remedy(what, form.measure(thin, budget)) for what, thin in _narrower(program)]
    helpful = [remedy for remedy in widths if helps(remedy.memory)]
    yield from [remedy for remedy in helpful if budget.fits(remedy.memory)][:1] or helpful[-1:]


def _fewer(program: Program, budget: Budget, all_sampled: bool, form: Form) -> Iterator[Remedy]:
    """Yield fewer members, and members that share the dense layers."""
    stored = len(program.members)
    if stored == 1:
        return
    gated = 1 if program.gate else 0
    yield Remedy("--members map", form.measure(what_if.first_members(program, 1), budget))
    yield from _as_many_as_fit(program, budget, gated, "", form)
    convolutions = {op.name for op in program.ops if isinstance(op, Conv) and not op.is_dense}
    dense = {op.name for op in program.ops if op.name not in convolutions}
    if all_sampled and convolutions:
        shared = what_if.shared_weights(program, dense)
        remedy = Remedy(f"--members {stored - gated} --sample conv", form.measure(shared, budget))
        yield remedy
        if not budget.fits(remedy.memory):
            yield from _as_many_as_fit(shared, budget, gated, " --sample conv", form)


def _as_many_as_fit(program: Program, budget: Budget, gated: int, options: str, form: Form) -> Iterator[Remedy]:
    def of(count: int) -> Memory:
        return form.measure(what_if.first_members(program, count), budget)

    most = what_if.largest(2, len(program.members) - 1, lambda count: budget.fits(of(count)))
    if most is not None and len(program.members) > 2:
        yield Remedy(f"--members {most - gated}{options}", of(most))


def _narrower(program: Program) -> Iterator[tuple[str, Program]]:
    for width in _WIDTHS:
        thin = what_if.narrower(program, width)
        if thin is not None:
            yield f"trained anew with {width} of the channels in every layer", thin
