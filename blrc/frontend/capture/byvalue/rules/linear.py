"""Recognise linear maps by their weights: two values, or whole numbers times a scale, for each output channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from blrc.frontend.capture.byvalue.book import Book, Padded
from blrc.frontend.capture.byvalue.rules.entry import first_layer
from blrc.frontend.capture.byvalue.steps import Step, composed, steps_of
from blrc.frontend.capture.byvalue.tape import Operation
from blrc.frontend.capture.byvalue.values import Atom, Held, Reals, Table, averages_under, off_grid, taps_of
from blrc.frontend.kinds.linear import counted, unheld
from blrc.frontend.kinds.padding import padding_layers
from blrc.net.window import padding_option

ROUNDINGS = 8
"""Units in the last place, of values up to 1, by which a straight-through estimator may leave weights or signs off."""


@dataclass(frozen=True, eq=False)
class Binary:
    """Hold weights as ``signs`` times ``scale`` (outputs,), and how far they are off, relative to the scale.

    Where ``whole``, they are whole numbers up to 127 and no signs.
    """

    signs: Reals
    scale: Reals
    off: float
    whole: bool = False

    def kind(self, of_signs: str) -> str:
        """Return the kind of a layer of these weights, of which `of_signs` is that of a layer of signs."""
        return of_signs.replace("ste_", "whole_") if self.whole else of_signs


def discrete(weight: torch.Tensor) -> Binary | str:
    """Return weights as signs or whole numbers, and scales; or say why they are neither."""
    found = binary(weight)
    if not isinstance(found, str):
        return found
    held = weight.detach()
    plain = (held.float() if held.dtype == torch.bfloat16 else held).numpy()
    numbers = counted(plain) or counted(plain, ROUNDINGS * torch.finfo(weight.dtype).eps)
    if numbers is None:
        return found
    if (why := unheld(numbers[0])) is not None:
        return f"{why}: keep them from -127 to 127"
    rows, scale = numbers[0].astype(np.float64), numbers[1]
    column = scale.reshape(-1, *[1] * (rows.ndim - 1))
    off = np.abs(held.double().numpy() - rows * column).max(initial=0.0) / scale.min(initial=1.0)
    return Binary(rows, scale, float(off), whole=True)


def binary(weight: torch.Tensor) -> Binary | str:
    """Return weights as signs and scales, or say why they are not binary."""
    rows = weight.detach().double().numpy().reshape(len(weight), -1)
    if not np.isfinite(rows).all():
        return "are not finite"
    size = np.abs(rows)
    scale = size.max(axis=1)
    if not (size == scale[:, None]).all():
        slack = ROUNDINGS * torch.finfo(weight.dtype).eps * (1 + scale.max(initial=0.0))
        middle = np.median(size, axis=1)
        close = np.abs(size - middle[:, None]) <= slack
        if not close.all() or (slack > middle / 100).any():
            zeros = rows == 0
            largest = np.abs(size - scale[:, None]) <= slack
            if zeros.any() and (largest | zeros).all():
                return f"are 0 in {int(zeros.sum())} places, and +-1 times a scale elsewhere up to rounding"
            channel = int(np.argmax(~close.all(axis=1)))
            distinct = len(np.unique(rows[channel]))
            return f"take {distinct} values in output channel {channel}, where two of them, -s and +s, can be held"
        scale = middle
    signs = np.where(rows < 0, -1.0, 1.0)
    off = np.abs(rows - signs * scale[:, None]).max(initial=0.0) / (scale.min(initial=1.0) or 1.0)
    return Binary(signs.reshape(tuple(weight.shape)), scale, float(off))


def convolution(book: Book, op: Operation) -> Held:
    """Return what a convolution gives."""
    given, seen = op.given, tuple(op.out.shape[1:])
    who = "a convolution"
    axes = len(given["stride"])
    if given["transposed"] or axes > 2:
        kind = "a transposed convolution" if given["transposed"] else f"a {axes}-D convolution"
        return Held(book.opaque(f"is {kind}", "use convolutions of one or two dimensions", op.path, seen), seen)
    if "input" in op.held and op.held["input"].row:
        why, shape = f"reads {op.held['input'].shape} as a map of one row", op.held["input"].seen
        remedy = f"use a convolution of one dimension, or describe the input of the device with the shape {shape}"
        return Held(book.opaque(why, remedy, op.path, seen), seen)
    weight = given["weight"]
    around = book.inside(op.held["input"], given["input"]) if "input" in op.held else None
    own = [(0, *map(int, given["padding"]))[-2:][i % 2] for i in range(4)]
    if around is not None and any(around.sides):
        padded = bits_around(book, op, around)
        if padded is None and around.value:
            why = f"{who} whose input was padded with {around.value:g}, which is no value of bits before it"
            remedy = "pad bits, behind the sign, with 0 or with one of their values"
            return Held(book.opaque(why, remedy, op.path, seen), seen)
        if padded is None:
            own = [n + side for n, side in zip(own, around.sides, strict=True)]
            op = replace(op, given={**given, "input": around.tensor}, held={**op.held, "input": around.held})
        else:
            op = replace(op, held={**op.held, "input": padded})
    if around is not None and any(own):
        padded = bits_around(book, op, Padded(op.held["input"], op.given["input"], (own[0], own[1], own[2], own[3])))
        if padded is not None:
            op, own = replace(op, held={**op.held, "input": padded}), [0, 0, 0, 0]
    options = {
        "in_channels": int(weight.shape[1]) * int(given["groups"]),
        "out_channels": int(weight.shape[0]),
        "kernel_size": list(map(int, weight.shape[2:])),
        "stride": list(map(int, given["stride"])),
        "padding": list(padding_option((own[0], own[1], own[2], own[3]), axes)),
        "dilation": list(map(int, given["dilation"])),
        "groups": int(given["groups"]),
    }
    return _linear(book, op, "ste_conv1d" if axes == 1 else "ste_conv2d", who, "input", weight, given["bias"], options)


def bits_around(book: Book, op: Operation, around: Padded) -> Held | None:
    """Return a map of bits with bits around it, or None where the number around it is not one of their values."""
    found = book.bits(around.held, around.tensor, op.path)
    if found is None:
        return None
    atom, factor, offset = found
    plus = offset + factor == around.value
    if not (plus | (offset - factor == around.value)).all():
        return None
    top, left, bottom, right = around.sides
    axes = len(atom.shape) - 1
    size = zip(atom.shape[1:], (top + bottom, left + right)[-axes:], strict=True)
    shape = (atom.channels, *(n + more for n, more in size))
    layers = padding_layers(around.sides, list(plus), axes)
    for kind, options, tensors in layers:
        atom = book.layer(kind, op.path, atom, options, tensors, shape, bits=kind == "threshold")
    rows = torch.from_numpy(np.stack([offset - factor, offset + factor, offset + factor]))
    return Held(Table(atom, rows, op.path), shape)


def dense(book: Book, op: Operation) -> Held:
    """Return what a product of matrices gives, with a bias or without."""
    left, right = ("mat1", "mat2") if op.name == "addmm" else ("self", "mat2")
    weight, bias = op.given[right], op.given["self"] if op.name == "addmm" else None
    if left not in op.held or op.given.get("alpha", 1) != 1 or op.given.get("beta", 1) != 1:
        return book.unknown(f"multiplies matrices ({op.name}) in another way than a linear layer", (1,), op.path)
    options = {"in_features": int(weight.shape[0]), "out_features": int(weight.shape[1])}
    return _linear(book, op, "ste_linear", "a linear layer", left, weight.t(), bias, options)


def _linear(
    book: Book,
    op: Operation,
    kind: str,
    who: str,
    role: str,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    options: Mapping[str, Any],
) -> Held:
    seen = tuple(op.out.shape[1:])
    tensor = op.given[role]
    if set(op.held) != {role}:
        why = "computes with weights or a bias that depend on the input"
        return Held(book.opaque(why, "no integers can hold them; train with constant weights", op.path, seen), seen)
    held = op.held[role]
    x = book.firm(held, tensor, op.path)
    found, recognised = book.bits(x, tensor, op.path), discrete(weight)
    kind = kind if isinstance(recognised, str) else recognised.kind(kind)
    if found is None:
        atom = book.atom(x, tensor, op.path)
        under = averages_under(atom)
        if under is not None:
            return Held(_of_averages(book, op, kind, atom, under, weight, bias, recognised, options), seen)
        steps = steps_of(atom, book.input)
        if steps is None:
            why = f"{who} whose input is not binary: {_origin(book, atom)}"
            remedy = "put a sign, such as torch.where(x >= 0, 1.0, -1.0), before it"
            return Held(book.opaque(why, remedy, op.path, seen, atom), seen)
        if steps and not isinstance(recognised, str):
            codes = book.input if book.input.shape == atom.shape else book.flattened(book.input, op.path)
            behind = recognised.scale, None if bias is None else bias.detach().double().numpy()
            made = first_layer(book, kind, op.path, codes, steps, recognised.signs, behind, options, tensor, op.out)
            return Held(made, seen)
        found = atom, np.ones(atom.channels), np.zeros(atom.channels)
    atom, factor, _ = found
    if isinstance(recognised, str):
        return Held(_real(book, op, kind, found, weight, bias, recognised, options), seen)
    size = np.abs(factor)
    if (size != size[0]).any():
        why = f"{who} whose input is +-1 times another number for each channel"
        return Held(book.opaque(why, "move such scales behind the layer", op.path, seen, atom), seen)
    turned = _by_input(np.sign(factor), recognised.signs, options)
    return Held(_binary(book, op, kind, found, recognised, turned, bias, options), seen)


def _of_averages(
    book: Book,
    op: Operation,
    kind: str,
    x: Atom,
    under: Atom,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    recognised: Binary | str,
    options: Mapping[str, Any],
) -> Atom:
    """Return a layer that reads averages, `under`, and behind it what was done to them since, which is `x`."""
    given, seen = op.given["input" if op.name == "convolution" else "mat1" if op.name == "addmm" else "self"], op.out
    if np.any(options.get("padding", 0)):
        why = "pads averages of two values with zeros, for which there is no count"
        return book.opaque(why, "leave the padding out, or pad before the average", op.path, tuple(seen.shape[1:]), x)
    one = np.ones(x.channels)
    steps, taps = steps_of(x, under) or [Step(one, one, 0 * one)], taps_of(under)
    assert taps is not None
    codes = under if under.shape == x.shape else book.flattened(under, op.path)
    if isinstance(recognised, str):
        found = codes, *composed(steps, x.channels)
        return _real(book, op, kind, found, weight, bias, recognised, options)
    behind = recognised.scale, None if bias is None else bias.detach().double().numpy()
    return first_layer(book, kind, op.path, codes, steps, recognised.signs, behind, options, given, op.out, float(taps))


def _binary(
    book: Book,
    op: Operation,
    kind: str,
    found: tuple[Atom, Reals, Reals],
    weights: Binary,
    turned: Reals,
    bias: torch.Tensor | None,
    options: Mapping[str, Any],
) -> Atom:
    """Return a layer of signs, the scales behind it, and its bias."""
    atom, factor, offset = found
    signs = weights.signs * turned
    shift = None if bias is None else bias.detach().double().numpy()
    if offset.any():
        if np.any(options.get("padding", 0)):
            why = "pads with zeros an input of two values that are not -s and +s"
            return book.opaque(why, "binarise activations as +-1", op.path, tuple(op.out.shape[1:]), atom)
        more = (weights.signs * _by_input(offset, weights.signs, options)).reshape(len(signs), -1).sum(1)
        shift = more * weights.scale + (0.0 if shift is None else shift)
    size = float(abs(factor[0]))
    plain = (weights.scale == 1).all() and size == 1
    tensors = {"weight": signs.astype(np.float32)}
    if plain and shift is not None:
        tensors["bias"] = shift
    inner = {**options, "bias": "bias" in tensors}
    off = weights.off + _off(op, found)
    one = np.ones(1)
    if plain:
        return book.layer(kind, op.path, atom, inner, tensors, tuple(op.out.shape[1:]), out=op.out, off=off)
    made = book.layer(kind, op.path, atom, inner, tensors, tuple(op.out.shape[1:]), off=off)
    last = shift is None or not shift.any()
    made = book.scaled(made, np.array([size]), one, op.path, op.out if last and (weights.scale == 1).all() else None)
    made = book.scaled(made, weights.scale, one, op.path, op.out if last else None)
    return made if last or shift is None else book.shifted(made, shift, op.path, op.out)


def _real(
    book: Book,
    op: Operation,
    kind: str,
    found: tuple[Atom, Reals, Reals],
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    why: str,
    options: Mapping[str, Any],
) -> Atom:
    """Return a last layer of real weights, or say why it is none."""
    atom, factor, offset = found
    seen = tuple(op.out.shape[1:])
    remedy = "binarise them, as sign(w) or sign(w) times a scale for each output channel"
    reason = f"its weights {why}", f"{remedy}; only a last linear layer may have real ones", op.path, seen, atom
    refused = book.opaque(*reason)
    reads = atom.bits or taps_of(atom) is not None
    if kind != "ste_linear" or not reads or not bool(torch.isfinite(weight).all()):
        return refused
    real = weight.detach().double().numpy()
    shift = np.zeros(len(real)) if bias is None else bias.detach().double().numpy()
    tensors = {"weight": real * factor, "bias": shift + real @ offset}
    whole = {**options, "bias": True}
    made = book.layer("softmax", op.path, atom, whole, tensors, seen, out=op.out, off=_off(op, found))
    return replace(made, what=refused.what)


def _off(op: Operation, found: tuple[Atom, Reals, Reals]) -> float:
    """Return how far the module's values are from two, or from averages of two, in units of their scale."""
    atom, factor, offset = found
    taps = taps_of(atom)
    if not atom.bits and (taps is None or not factor.all()):
        return 0.0
    tensor = op.given["input" if op.name == "convolution" else "mat1" if op.name == "addmm" else "self"]
    column = (-1, *[1] * (tensor.ndim - 2))
    numbers = tensor.detach().double().numpy()
    bits = (numbers - offset.reshape(column)) / factor.reshape(column)
    return float(np.abs(np.abs(bits) - 1).max(initial=0.0)) if taps is None else off_grid(bits, taps)


def _by_input(values: Reals, signs: Reals, options: Mapping[str, Any]) -> Reals:
    """Return numbers for each input channel in the shape of weights (out, in / groups, ...)."""
    groups = int(options.get("groups", 1))
    rows = np.repeat(values.reshape(groups, -1), len(signs) // groups, axis=0)
    return rows.reshape(*rows.shape, *[1] * (signs.ndim - 2))


def _origin(book: Book, atom: Atom) -> str:
    """Say where values come from."""
    while atom.kind == "flatten" and atom.x is not None:
        atom = atom.x
    return f"it is computed by {book.who(atom.path)}" if atom.path else f"it is the output of {atom.kind!r} in forward"
