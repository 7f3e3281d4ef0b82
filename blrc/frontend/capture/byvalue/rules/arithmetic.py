"""Say what elementwise operations make of atoms, tables and sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from blrc.frontend.capture.byvalue.book import Book
from blrc.frontend.capture.byvalue.tape import Operation
from blrc.frontend.capture.byvalue.values import Atom, Held, Reals, Sum, Table, added, by_channel, origin
from blrc.frontend.kinds.rounding import ROUNDINGS, Layer, step_of

_COMPARISONS = ("ge", "gt", "le", "lt", "eq", "ne")
# Operations that compute each value from those in the same place alone.
ELEMENTWISE = frozenset(
    [
        "add",
        "sub",
        "rsub",
        "mul",
        "div",
        "neg",
        "sign",
        "sgn",
        "relu",
        "hardtanh",
        "hardsigmoid",
        "clamp",
        "clamp_min",
        "clamp_max",
        "leaky_relu",
        "_prelu_kernel",
        "where",
        "masked_fill",
        "index_put",
        "maximum",
        "minimum",
        "logical_not",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_not",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "abs",
        "_to_copy",
        "heaviside",
        "pow",
        "tanh",
        "round",
        "floor",
        "ceil",
        "threshold",
        "square",
        "copy",
    ]
) | set(_COMPARISONS)


def elementwise(book: Book, op: Operation) -> Held:
    """Return what an elementwise operation gives."""
    first = next(iter(op.held.values()))
    values = [held.value for held in op.held.values()]
    if any(held.seen != first.seen or held.flat != first.flat for held in op.held.values()) or (
        tuple(op.out.shape[1:]) != first.seen or len(op.out) != op.samples
    ):
        several = f"computes {op.name} of tensors of several shapes", "make the network a chain of layers"
        reason = _reason(op, values) if len(values) > 1 else several
        seen = tuple(op.out.shape[1:])
        only = values[0] if len(values) == 1 and isinstance(values[0], Atom) else None
        return Held(book.opaque(*reason, op.path, seen, only), seen)
    if op.name == "copy":
        return op.held["src"] if "src" in op.held else book.unknown("writes over a tensor", first.seen, op.path)
    bases = {value.base.number for value in values if isinstance(value, Table)}
    if all(isinstance(value, Table) for value in values) and len(bases) == 1:
        assert isinstance(values[0], Table)
        rows = _rows(op, first)
        if rows is not None:
            return replace(first, value=Table(values[0].base, rows, op.path))
    if len(values) == 2 and op.name in ("add", "sub"):
        times = float(op.given.get("alpha", 1)) * (1 if op.name == "add" else -1)
        total = added(op.held["self"].value, op.held["other"].value, times)
        if isinstance(total, Sum) and len(total.atoms) == 1 and not total.tables:
            atom, count = total.atoms[0]
            total = book.scaled(atom, np.array([count]), np.ones(1), op.path, op.out)
        return replace(first, value=total)
    if len(values) == 1:
        role = next(iter(op.held))
        atom = book.atom(first, op.tensor(role), op.path)
        result = _of_atom(book, op, atom, role, first)
        if result is not None:
            return replace(first, value=result)
    if first.flat:  # numbers for each feature
        return elementwise(
            book, replace(op, held={name: book.firm(held, op.tensor(name), op.path) for name, held in op.held.items()})
        )
    only = origin(values[0]) if len(values) == 1 else None
    return replace(first, value=book.opaque(*_reason(op, values), op.path, first.shape, only))


def _reason(op: Operation, values: list[Any]) -> tuple[str, str]:
    if len(values) > 1 and op.name in ("mul", "div"):
        return (
            "multiplies two values that both depend on the input, as a scale that is computed from the data (K of "
            "XNOR-Net, squeeze-and-excitation)",
            "no integers can hold it; train with constant scales",
        )
    if len(values) > 1:
        return f"combines two values that both depend on the input ({op.name})", "make the network a chain of layers"
    if op.name in ("add", "sub", "mul", "div", *_COMPARISONS):
        return (
            f"combines it ({op.name}) with numbers that are not one for each channel, or that sampling draws",
            "give one number for each channel; drop values in training only: F.dropout(x, training=self.training)",
        )
    if op.name in ROUNDINGS:
        return (
            f"rounds ({op.name}) values that no clip before it keeps between two whole numbers",
            "clip before it, as in ((x + 1) / 2).clamp(0, 1).round(), or take their sign instead",
        )
    if op.name == "_to_copy":
        return "turns real values into whole numbers", "take their sign instead"
    return (
        f"computes {op.name} of real values, which no layer of a binary network does",
        "only constants by channel, norms, ReLU, PReLU, clamp and max pooling may stand before a sign",
    )


def _rows(op: Operation, first: Held) -> torch.Tensor | None:
    """Return the operation on tables of one atom as a table, by computing it for each of their three values."""

    def row(name: str, value: Any) -> Any:
        if name in op.held:
            table = op.held[name].value
            assert isinstance(table, Table)
            return table.rows.to(value.dtype).clone()
        if isinstance(value, torch.Tensor):
            numbers = by_channel(value, first)
            if numbers is None:
                raise ValueError
            return torch.from_numpy(numbers).to(value.dtype)
        return value

    try:
        if op.name == "index_put":
            return _filled(op, row)
        given = {name: row(name, value) for name, value in op.given.items() if name != "out"}
        if "out" in op.given:
            given["out"] = torch.empty(0, dtype=op.given["out"].dtype)
        rows: torch.Tensor = op.func(**given).expand(3, first.shape[0])
    except ValueError:
        return None
    return rows.clone()


def _filled(op: Operation, row: Callable[[str, Any], Any]) -> torch.Tensor | None:
    """Return a table after ``x[mask] = number``."""
    mask = op.given["indices"][0]
    held = op.held["indices"].value if "indices" in op.held else None
    if len(op.given["indices"]) != 1 or mask.dtype != torch.bool or not isinstance(held, Table):
        return None
    if op.given["values"].numel() != 1 or op.given["accumulate"]:
        return None
    try:
        rows: torch.Tensor = row("self", op.given["self"]).expand(held.rows.shape)
    except ValueError:  # torch.empty_like, which is yet to be filled
        rows = torch.full(held.rows.shape, torch.nan)
    return rows.masked_fill(held.rows.bool(), op.given["values"].item())


def _of_atom(book: Book, op: Operation, atom: Atom, role: str, held: Held) -> Atom | Table | None:
    """Return what an operation makes of one atom and of constants."""

    def constant(value: Any) -> Reals | None:
        """Return a constant as numbers of the type in which torch computes with it."""
        if isinstance(value, torch.Tensor):
            return by_channel(value, held)
        kind = op.out.dtype if op.out.dtype.is_floating_point else operand.dtype
        return np.array([float(torch.tensor(float(value), dtype=kind))])

    operand = op.given[role]
    other = op.given.get("self" if role == "other" else "other")
    if op.name in _COMPARISONS:
        by = constant(other)
        if by is None:
            return None
        base = signed(book, atom, by, op.path)
        steps = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)[:, None]
        compare: Callable[..., torch.Tensor] = getattr(torch, op.name)
        rows = compare(steps, 0.0) if role == "self" else compare(0.0 * steps, steps)
        return Table(base, rows.expand(3, base.channels).clone(), op.path)
    if op.name in ("sign", "sgn", "heaviside"):
        at_zero = constant(op.given["values"]) if op.name == "heaviside" else np.zeros(1)
        if at_zero is None or role != "self":
            return None
        base = signed(book, atom, np.zeros(1), op.path)
        rows = torch.zeros(3, base.channels, dtype=torch.float64)
        rows[0], rows[1], rows[2] = 0.0 if op.name == "heaviside" else -1.0, torch.from_numpy(at_zero), 1.0
        return Table(base, rows, op.path)
    if op.name in ("add", "sub", "rsub", "mul", "div"):
        by = constant(other)
        return None if by is None else _affine(book, op, atom, role, by)
    if op.name in ROUNDINGS:
        return _rounded(book, op, atom)
    return _bent(book, op, atom, constant)


def signed(book: Book, atom: Atom, at: Reals, path: str) -> Atom:
    """Return the atom whose sign tells on which side of `at` another atom lies."""
    if not at.any():
        while atom.odd and atom.x is not None:
            atom = atom.x
        return atom
    return book.shifted(atom, -at, path, None)


def _affine(book: Book, op: Operation, atom: Atom, role: str, by: Reals) -> Atom | None:
    one = np.ones(1)
    alpha = float(op.given.get("alpha", 1))
    if op.name == "mul":
        return book.scaled(atom, by, one, op.path, op.out)
    if op.name == "div":
        if role != "self" or op.given.get("rounding_mode") is not None or not by.all():
            return None
        return book.scaled(atom, one, by, op.path, op.out)
    turned = (op.name == "rsub") != (op.name == "sub" and role == "other")
    if alpha != 1.0:
        if role == "other" or op.name == "rsub":
            return None
        by = by * alpha
    if turned:
        return book.shifted(book.scaled(atom, -one, one, op.path, None), by, op.path, op.out)
    return book.shifted(atom, -by if op.name == "sub" else by, op.path, op.out)


def _rounded(book: Book, op: Operation, atom: Atom) -> Table | None:
    """Return the rounding of what a clip keeps between two whole numbers, a function of two values."""
    layers: list[Layer] = []
    above: Atom | None = atom
    while above is not None:
        layers.insert(0, (above.kind, above.options, above.tensors))
        above = above.x
    step = step_of(op.name, layers) if not op.given.get("decimals") else None
    if step is None:
        return None
    base = signed(book, atom, np.array([float(step.at)]), op.path)
    rows = torch.tensor([step.low, step.low + (not step.strict), step.low + 1], dtype=torch.float64)
    return Table(base, rows[:, None].expand(3, base.channels).clone(), op.path)


def _bent(book: Book, op: Operation, atom: Atom, constant: Callable[[Any], Reals | None]) -> Atom | None:
    """Return ReLU, PReLU, clips and what passes values on."""

    def clip(low: Any, high: Any) -> Atom | None:
        bounds: list[float | None] = []
        for bound in (low, high):
            numbers = None if bound is None else constant(bound)
            if bound is not None and (numbers is None or (numbers != numbers[0]).any()):
                return None
            bounds.append(None if numbers is None or not np.isfinite(numbers[0]) else float(numbers[0]))
        options = {"min_val": bounds[0], "max_val": bounds[1]}
        return book.layer("clip", op.path, atom, options=options, out=op.out)

    given = op.given
    match op.name:
        case "neg":
            return book.scaled(atom, -np.ones(1), np.ones(1), op.path, op.out)
        case "relu":
            return book.layer("relu", op.path, atom, out=op.out)
        case "threshold" if given["threshold"] == 0 and given["value"] == 0:
            return book.layer("relu", op.path, atom, out=op.out)
        case "hardsigmoid":
            moved, six = book.shifted(atom, np.array([3.0]), op.path, None), np.array([6.0])
            clipped = book.layer("clip", op.path, moved, options={"min_val": 0.0, "max_val": 6.0})
            return book.scaled(clipped, np.ones(1), six, op.path, op.out)
        case "hardtanh":
            return clip(given["min_val"], given["max_val"])
        case "clamp" | "clamp_min" | "clamp_max":
            return clip(given.get("min"), given.get("max"))
        case "maximum" | "minimum":
            other = given["other"] if isinstance(given["self"], torch.Tensor) and "self" in op.held else given["self"]
            return clip(other, None) if op.name == "maximum" else clip(None, other)
        case "leaky_relu" | "_prelu_kernel":
            slope = constant(given["weight"] if op.name == "_prelu_kernel" else given["negative_slope"])
            if slope is None:
                return None
            tensors = {"weight": slope}
            return book.layer("prelu", op.path, atom, options={"num_parameters": len(slope)}, tensors=tensors,
                              out=op.out)  # fmt: skip
        case "_to_copy" if op.out.is_floating_point():
            return atom
        case "tanh":
            return book.opaque(*_reason(op, [atom]), op.path, atom.shape, atom, odd=True)
        case _:
            return None
