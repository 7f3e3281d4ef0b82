"""Run a module as its author wrote it, and return the layers that it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.capture.allowed import check_materialised
from blrc.frontend.capture.byvalue.agreement import check_agreement
from blrc.frontend.capture.byvalue.book import Book
from blrc.frontend.capture.byvalue.emit import Captured, emit
from blrc.frontend.capture.byvalue.rules.entry import begin
from blrc.frontend.capture.byvalue.rules.linear import ROUNDINGS
from blrc.frontend.capture.byvalue.rules.meaning import explain
from blrc.frontend.capture.byvalue.tape import Tape
from blrc.frontend.capture.byvalue.values import Atom, Reals
from blrc.frontend.capture.check import Inputs
from blrc.frontend.capture.copies import copied
from blrc.frontend.capture.recording import begin_evaluation, first_line, head_names, outputs
from blrc.frontend.capture.trace import undisturbed
from blrc.frontend.capture.walk import named_modules
from blrc.net.encoding import InputEncoding
from blrc.net.standardising import RAW_VALUES

FEW = 3  # samples of the second run, which shows that nothing but the values depends on the input
ALIKE = 1e-3  # relative distance of real numbers that were computed in float64 from those in the module's own type


@dataclass(frozen=True, eq=False)
class Run:
    """Hold the layers that one run of a module showed, its outputs, and the names of all operations in order."""

    captured: Captured
    results: tuple[torch.Tensor, ...]
    steps: tuple[str, ...]


def read(
    model: nn.Module,
    encoding: InputEncoding,
    inputs: Inputs,
    example: torch.Tensor | None,
    names: Sequence[str] | None = None,
) -> Captured:
    """Return the layers of a module, compared with what it computes.

    Args:
        inputs: on which the module is compared with what was captured.
        example: another batch of inputs.
        names: names for the heads, in their order; None takes those that the forward gives them.

    Raises:
        BlrcError: a step has no exact integer form (the layer, the reason and what to do are named), the module takes
            other steps or weights for other inputs, or it does not compute what was captured.
    """
    x = inputs.real
    modules = named_modules(model)
    check_materialised(modules)
    dtype = next((value.dtype for value in values_of(model) if value.is_floating_point()), torch.float32)
    with undisturbed(), torch.autocast("cpu", enabled=False), torch.device("cpu"):
        first = run(model, encoding, torch.from_numpy(x).to(dtype), None, names)
        for other in _others(x, example):
            _check_constant(first.captured, run(model, encoding, other.to("cpu", dtype), None, names).captured)
        check_agreement(first.captured, inputs.codes(first.captured.reads(encoding)), dtype, inputs.names)
        if dtype != torch.float64:
            _check_exact(model, encoding, first.captured, inputs, dtype, names)
        for what, mode in (("in inference mode", torch.inference_mode), ("with gradients", torch.enable_grad)):
            _check_plain(model, first.results, torch.from_numpy(x).to(dtype), what, mode)
    return first.captured


def _others(x: Reals, example: torch.Tensor | None) -> list[torch.Tensor]:
    turned = torch.from_numpy(np.resize(x[::-1], (FEW if len(x) != FEW else FEW + 1, *x.shape[1:])).copy())
    if example is None:
        return [turned]
    if tuple(example.shape[1:]) != x.shape[1:]:
        raise BlrcError(
            f"example: has shape {tuple(example.shape)}, but the input is described as (N, "
            f"{', '.join(map(str, x.shape[1:]))}); describe the input as forward takes it"
        )
    return [turned, example.detach()]


def values_of(model: nn.Module) -> list[torch.Tensor]:
    """Return the parameters and buffers that a module and those in it hold."""
    held = named_modules(model).values()
    return [value for module in held for value in (*module._parameters.values(), *module._buffers.values())
            if value is not None]  # fmt: skip


def twin_of(model: nn.Module, dtype: torch.dtype | None) -> nn.Module:
    """Return a copy of a module on the CPU, in evaluation mode, with real numbers of `dtype`, if given."""

    def convert(value: torch.Tensor) -> torch.Tensor:
        return value.to("cpu", dtype if value.is_floating_point() else None, copy=True)

    twin = copied(model, convert)
    begin_evaluation(twin)
    return twin


def run(
    model: nn.Module,
    encoding: InputEncoding,
    x: torch.Tensor,
    dtype: torch.dtype | None,
    names: Sequence[str] | None = None,
) -> Run:
    """Run a copy of a module on real inputs `x`, watch it, and return the layers that its result needs.

    Args:
        dtype: type of the copy's real numbers; None leaves them as they are.
        names: names for the heads, in their order; None takes those that the forward gives them.
    """
    twin = twin_of(model, dtype)
    modules = named_modules(twin)
    bits = encoding.kind == "bits"
    book = Book(encoding.shape, bits, {name: type(module).__name__ for name, module in modules.items()})
    tape = Tape(lambda op: explain(book, op), book.unknown, len(x))
    tape.hold(x, begin(book, encoding, x.dtype))
    with torch.no_grad(), tape.watching(modules):
        result = _called(twin, x, lambda: book.who(tape.path[-1]))
    who = f"{type(model).__name__}.forward"
    found = outputs(result, type(model).__name__)
    atoms = {}
    for name, output in found.items():
        if not isinstance(output, torch.Tensor):
            raise BlrcError(
                f"{who} returns a {type(output).__name__}; it must return one tensor, the scores of the classes, or a "
                "dictionary of them by the names of its heads"
            )
        held = tape.held(output)
        if held is None:
            raise BlrcError(f"{who} returns values that do not depend on its input, or that left torch (NumPy?)")
        atoms[name] = book.atom(book.firm(held, output, ""), output, "")
    leaves = [name for name, module in modules.items() if name and not any(True for _ in module.children())]
    captured = emit(atoms, leaves)
    if names is not None:
        heads = head_names(list(found), [head for head, _ in captured.heads], type(model).__name__, names)
        layers = (layer for _, layer in captured.heads)
        captured = replace(captured, heads=tuple(zip(heads, layers, strict=True)))
    _check_first(book, captured)
    return Run(captured, tuple(output.clone() for output in found.values()), tuple(tape.steps))


def _check_first(book: Book, captured: Captured) -> None:
    """Refuse what standardised pixels are taken for by another layer than a linear one, or a sign of theirs."""
    atoms = list(captured.atoms.values())
    if book.pixels is not None and any(atom.x is book.input and atom.kind in ("shift", "scale") for atom in atoms):
        first = next((atom for atom in atoms if atom.kind not in ("shift", "scale", "flatten")), atoms[-1])
        raise BlrcError(
            f"{book.who(first.path)}: computes {first.kind} of pixels; before the first linear layer, or the sign of "
            "pixels, only multiply and add numbers by channel"
        )


def _called(model: nn.Module, x: torch.Tensor, who: Callable[[], str]) -> Any:
    try:
        return model(x)
    except BaseException as error:
        if isinstance(error, BlrcError | KeyboardInterrupt):
            raise
        raise BlrcError(
            f"{who()}: fails on an input of shape {tuple(x.shape)}, {x.dtype}: {first_line(error)}"
        ) from error


def _check_constant(first: Captured, again: Captured) -> None:
    """Refuse steps or numbers that another input changes."""
    if (first.nodes, first.heads) != (again.nodes, again.heads):
        pairs = zip(first.nodes, again.nodes, strict=False)
        name = next((a.name for a, b in pairs if a != b), (*first.nodes, *again.nodes)[-1].name)
        raise BlrcError(
            f"layer {name!r}: is another for another input; forward must take the same steps for all inputs"
        )
    if first.at != again.at:
        raise BlrcError(
            "the sign of pixels: is another for another input, or at each call; only constant numbers can be compiled"
        )
    for key, value in first.tensors.items():
        if not np.array_equal(value, again.tensors[key], equal_nan=value.dtype.kind == "f"):
            name, _, what = key.rpartition(".")
            raise BlrcError(
                f"layer {name!r}: its {what} is another for another input, or at each call; only constant numbers can "
                "be compiled"
            )


def _check_exact(
    model: nn.Module,
    encoding: InputEncoding,
    captured: Captured,
    inputs: Inputs,
    dtype: torch.dtype,
    names: Sequence[str] | None,
) -> None:
    """Compare with the module in float64, unless its code mixes types and cannot run so."""
    try:
        exact = run(model, encoding, torch.from_numpy(inputs.real), torch.float64, names).captured
    except BlrcError:
        return
    steps, others = _steps(captured), _steps(exact)
    if [(atom.kind, atom.path) for _, atom, _ in steps] != [(atom.kind, atom.path) for _, atom, _ in others]:
        raise BlrcError("the module has other layers in float64 than in its own type; write it without regard to types")
    for (name, _, held), (_, _, likewise) in zip(steps, others, strict=True):
        for key, value in held.items():
            other = likewise[key]
            if not np.allclose(value, other, rtol=ALIKE, atol=ALIKE * float(np.abs(other).max(initial=0.0))):
                raise BlrcError(f"layer {name!r}: has another {key} in float64")
    nearly = 1 + RAW_VALUES * ROUNDINGS * torch.finfo(dtype).eps
    if any(abs(at - other) > nearly for at, other in zip(captured.at, exact.at, strict=True)):
        raise BlrcError("the sign of pixels: has another threshold in float64; write forward without regard to types")
    check_agreement(exact, inputs.codes(exact.reads(encoding)), torch.float64, inputs.names)


def _steps(captured: Captured) -> list[tuple[str, Atom, dict[str, NDArray[Any]]]]:
    """Return the layers with their tensors; shifts that follow each other are one, whose float64 they are parts of."""
    found: list[tuple[str, Atom, dict[str, NDArray[Any]]]] = []
    for name, atom in captured.atoms.items():
        if found and atom.kind == found[-1][1].kind == "shift" and atom.x is found[-1][1]:
            first, _, held = found.pop()
            found.append((first, atom, {"by": held["by"] + atom.tensors["by"]}))
        else:
            found.append((name, atom, dict(atom.tensors)))
    return found


def _check_plain(
    model: nn.Module,
    expected: Sequence[torch.Tensor],
    x: torch.Tensor,
    what: str,
    mode: type[AbstractContextManager[Any]],
) -> None:
    """Run the module unwatched, and compare its outputs."""
    twin = twin_of(model, None)
    with mode():
        result = _called(twin, x, lambda: type(model).__name__)
    found = list(outputs(result, type(model).__name__).values())
    if [getattr(each, "shape", None) for each in found] != [each.shape for each in expected]:
        raise BlrcError(f"{type(model).__name__}.forward returns something else {what} than without gradients")
    for ours, theirs in zip(found, expected, strict=True):
        ours, theirs = ours.detach().double(), theirs.double()  # labels are whole numbers
        slack = ALIKE * float(theirs.abs().max())
        if not torch.allclose(ours, theirs, rtol=ALIKE, atol=slack, equal_nan=True):
            raise BlrcError(f"{type(model).__name__}.forward computes something else {what} than without gradients")
