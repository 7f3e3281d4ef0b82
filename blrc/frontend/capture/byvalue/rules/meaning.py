"""Say what each operation of torch means for a binary network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.book import Book, Padded
from blrc.frontend.capture.byvalue.rules.arithmetic import ELEMENTWISE, elementwise
from blrc.frontend.capture.byvalue.rules.average import adaptive_pool, average_pool, mean, moved, pair
from blrc.frontend.capture.byvalue.rules.linear import convolution, dense
from blrc.frontend.capture.byvalue.steps import composed, steps_of
from blrc.frontend.capture.byvalue.tape import Operation
from blrc.frontend.capture.byvalue.values import LABELS, Atom, Held, Table, Tap, averages_under, origin, table_of_bits
from blrc.net.window import padding_option, pool_window

Rule = Callable[[Book, Operation], Held]
_CHAIN = "make the network a chain of layers"
_REMEDIES = {
    "cat": _CHAIN,
    "slice": _CHAIN,
    "select": _CHAIN,
    "permute": "keep maps as (N, C, H, W)",
    "transpose": "keep maps as (N, C, H, W)",
    "bernoulli": "drop values in training only: F.dropout(x, training=self.training)",
    "native_dropout": "drop values in training only: F.dropout(x, training=self.training)",
}


def explain(book: Book, op: Operation) -> Held:
    """Return what the result of an operation stands for."""
    book.number = op.number
    if op.name in ELEMENTWISE:
        return elementwise(book, op)
    return _RULES.get(op.name, _refused)(book, op)


def _refused(book: Book, op: Operation) -> Held:
    held = next(iter(op.held.values()))
    seen = tuple(op.out.shape[1:]) or (1,)
    above = origin(held.value)
    remedy = _REMEDIES.get(op.name, "use binary layers, norms, ReLU, PReLU, clamp, max pooling and signs")
    return Held(book.opaque(f"computes {op.name}, which has no binary form", remedy, op.path, seen, above), seen)


def _reshaped(book: Book, op: Operation) -> Held:
    held, seen = op.held["self"], tuple(op.out.shape[1:])
    if len(op.out) != op.samples or op.out.numel() != op.given["self"].numel():
        return book.unknown("mixes samples of a batch, or repeats values", seen, op.path)
    if seen == held.seen:
        return held
    if (held.flat or held.row) and seen == held.shape:
        return replace(held, flat=False, row=False)
    if seen == (math.prod(held.seen),):
        return replace(held, flat=True, row=False, at=op.path)
    if len(held.shape) == 2 and not held.flat and seen == (held.shape[0], 1, held.shape[1]):
        return replace(held, row=True)
    why = f"reshapes {held.seen} to {seen}"
    remedy = "only flattening has a form, as nn.Flatten() or x.view(len(x), -1)"
    if origin(held.value) is book.input:
        remedy = f"describe the input of the device as it is used: shape {seen}"
    above = origin(held.value)
    return Held(book.opaque(why, remedy, op.path, seen, above), seen)


def _norm(book: Book, op: Operation) -> Held:
    given, held = op.given, op.held
    if set(held) != {"input"}:
        return book.unknown("normalises by numbers that depend on the input", tuple(op.out.shape[1:]), op.path)
    if given.get("training"):
        why = "normalises by the statistics of its batch, in evaluation, too"
        remedy = "let it track running statistics, and use them in evaluation"
        seen = held["input"].seen
        return Held(book.opaque(why, remedy, op.path, seen), seen)
    firm = book.firm(held["input"], given["input"], op.path)
    x = book.atom(firm, given["input"], op.path)
    rows = {key: None if given[key] is None else given[key].detach().double().numpy()
            for key in ("weight", "bias", "running_mean", "running_var")}  # fmt: skip
    mean, variance = rows["running_mean"], rows["running_var"]
    assert mean is not None and variance is not None
    affine = rows["weight"] is not None or rows["bias"] is not None
    gamma = np.ones_like(mean) if rows["weight"] is None else rows["weight"]
    beta = np.zeros_like(mean) if rows["bias"] is None else rows["bias"]
    if x.kind == "softmax":
        factor = gamma / np.sqrt(variance + float(given["eps"]))
        scaled = book.scaled(x, factor, np.ones(1), op.path, None)
        return Held(book.shifted(scaled, beta - mean * factor, op.path, op.out), x.shape)
    options = {"num_features": len(mean), "eps": float(given["eps"]), "momentum": 0.1, "affine": affine}
    tensors = {"running_mean": mean, "running_var": variance, "num_batches_tracked": np.array(0, np.int64)}
    if affine:
        tensors |= {"weight": gamma, "bias": beta}
    kind = "plain_norm2d" if len(x.shape) == 3 else "plain_norm1d"
    return replace(firm, value=book.layer(kind, op.path, x, options, tensors, out=op.out))


def _padded(book: Book, op: Operation) -> Held:
    """Return a map with numbers around it, which the next convolution or pool takes over."""
    seen, pad, value = tuple(op.out.shape[1:]), list(map(int, op.given["pad"])), float(op.given["value"])
    if not any(pad):
        return op.held["self"]
    before = book.inside(op.held["self"], op.given["self"])
    left, right, top, bottom = (*pad, 0, 0, 0, 0)[:4]
    axes, held = len(seen) - 1, op.held["self"]
    over_maps = axes in (1, 2) and not held.flat and not held.row and not any(pad[2 * axes :]) and min(pad) >= 0
    if not over_maps or (any(before.sides) and before.value != value):
        above = origin(op.held["self"].value)
        why = "pads by negative numbers, other dimensions than height and width, or by several values"
        return Held(book.opaque(why, "pad height and width with zeros", op.path, seen, above), seen)
    top, left, bottom, right = map(sum, zip(before.sides, (top, left, bottom, right), strict=True))
    return book.padded(replace(before, sides=(top, left, bottom, right), value=value), op.path, seen)


def _max_pool(book: Book, op: Operation) -> Held:
    given, held = op.given, op.held["self"]
    seen = tuple(op.out.shape[1:])
    around = book.inside(held, given["self"])
    tall = held.row and seen[1] != 1  # padding gave a line more rows
    if held.flat or tall or pair(given["dilation"]) != [1, 1]:
        why = "pools with dilation, or over several rows of a line"
        return Held(book.opaque(why, "use plain max pooling", op.path, seen, origin(held.value)), seen)
    kernel, own = pair(given["kernel_size"]), pair(given["padding"])
    stride = pair(given["stride"]) if given["stride"] else kernel
    sides = [n + own[i % 2] for i, n in enumerate(around.sides)]
    for axis, size in enumerate(around.held.seen[1:]):  # with ceil_mode, windows may reach farther
        reached = (seen[1 + axis] - 1) * stride[axis] + kernel[axis]
        sides[2 + axis] = max(sides[2 + axis], reached - size - sides[axis])
    padding = padding_option((sides[0], sides[1], sides[2], sides[3]))
    options = {"kernel_size": kernel, "stride": stride, "padding": list(padding)}
    try:
        pool_window("max pooling", **options)
    except BlrcError as error:
        why, _, remedy = str(error).removeprefix("max pooling: ").partition(": ")
        return Held(book.opaque(f"pools with {why}", remedy, op.path, seen), seen)
    return _pooled(book, op, around, options)


def _adaptive_pool(book: Book, op: Operation) -> Held:
    size = list(op.held["self"].seen[1:])
    if list(op.given["output_size"]) == size:
        return op.held["self"]
    if op.held["self"].flat or list(op.given["output_size"]) != [1] * len(size) or len(size) != 2:
        return book.unknown("pools to another size than 1 x 1 (adaptive pooling)", tuple(op.out.shape[1:]), op.path)
    around = book.inside(op.held["self"], op.given["self"])
    padding = list(padding_option(around.sides))
    return _pooled(book, op, around, {"kernel_size": size, "stride": size, "padding": padding})


def _pooled(book: Book, op: Operation, around: Padded, options: Mapping[str, Any]) -> Held:
    """Return the largest value of each window; of two values that is an OR of bits."""
    held, tensor, seen, kind = around.held, around.tensor, tuple(op.out.shape[1:]), "plain_pool2d"
    if held.row:
        seen, kind = (seen[0], seen[2]), "plain_pool1d"
        options = {name: sides[1::2] for name, sides in options.items()}
    found = book.bits(held, tensor, op.path, positive=True) if isinstance(held.value, Table) else None
    least = -math.inf if found is None else float((found[2] - found[1]).min())
    if any(around.sides) and around.value > max(least, torch.finfo(tensor.dtype).min):
        why = f"pools what was padded with {around.value:g}, which may be the largest value of a window"
        return Held(book.opaque(why, "pad with -inf before max pooling", op.path, seen), seen)
    if found is None:
        x = book.atom(held, tensor, op.path)
        under = averages_under(x)
        if under is not None:
            return _of_averages(book, op, x, under, kind, options, seen, held)
        pool = book.layer(kind, op.path, x, options, shape=seen, bits=x.bits, out=op.out)
        return Held(table_of_bits(pool) if pool.bits else pool, seen, row=held.row)
    bits, factor, offset = found
    tap = Tap.of(op.number, op.out, seen, offset, factor)
    pool = book.layer(kind, op.path, bits, options, shape=seen, bits=True, tap=tap)
    rows = torch.from_numpy(np.stack([offset - factor, offset + factor, offset + factor]))
    return Held(Table(pool, rows, op.path), seen, row=held.row)


def _of_averages(
    book: Book, op: Operation, x: Atom, under: Atom, kind: str, options: Mapping[str, Any], seen: tuple[int, ...],
    held: Held,
) -> Held:  # fmt: skip
    """Return the largest averages, and then what was done to the averages before, where it keeps their order."""
    steps = steps_of(x, under) or []
    factor, offset = composed(steps, x.channels)
    if (factor <= 0).any():
        why = "pools averages that were multiplied by a number that is not positive"
        return Held(book.opaque(why, "multiply behind the next layer", op.path, seen, x), seen)
    tap = Tap.of(op.number, op.out, seen, offset, factor)
    pool = book.layer(kind, op.path, under, options, shape=seen, tap=tap, off=under.off)
    return Held(moved(book, replace(pool, what=under.what), steps, op.path), seen, row=held.row)


def _softmax(book: Book, op: Operation) -> Held:
    held = op.held["self"]
    seen = held.seen
    if len(seen) != 1 or op.given["dim"] not in (1, -1):
        return book.unknown("takes a softmax along another dimension than that of the classes", seen, op.path)
    firm = book.firm(held, op.given["self"], op.path)
    return Held(book.layer(LABELS, op.path, book.atom(firm, op.given["self"], op.path), {"name": "softmax"}), seen)


def _labels(book: Book, op: Operation) -> Held:
    """Return the label, or what has the order of the scores, as a softmax has."""
    held, seen = op.held["self"], tuple(op.out.shape[1:]) or (1,)
    along = op.name == "sigmoid" or op.given.get("dim") in (1, -1)
    if len(held.seen) != 1 or not along or not op.given.get("largest", True):
        return book.unknown(f"takes {op.name} along another dimension than that of the classes", seen, op.path)
    firm = book.firm(held, op.given["self"], op.path)
    return Held(book.layer(LABELS, op.path, book.atom(firm, op.given["self"], op.path), {"name": op.name}), seen)


def _sigmoid(book: Book, op: Operation) -> Held:
    """Return the sigmoid of scores, whose order it keeps; one before a sign has no form."""
    atom = origin(op.held["self"].value)
    return _labels(book, op) if atom is not None and atom.kind == "softmax" else _refused(book, op)


def _same(book: Book, op: Operation) -> Held:
    return next(iter(op.held.values()))


_SAME = ["detach", "alias", "clone", "contiguous", "lift_fresh", "lift"]
_RESHAPES = [
    "view",
    "_unsafe_view",
    "_reshape_alias",
    "reshape",
    "unsqueeze",
    "squeeze",
    "expand",
    "flatten",
    "view_copy",
]
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_RESHAPES, _reshaped),
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"), _norm),
    "convolution": convolution,
    "addmm": dense,
    "mm": dense,
    "constant_pad_nd": _padded,
    "max_pool2d_with_indices": _max_pool,
    "adaptive_max_pool2d": _adaptive_pool,
    "avg_pool2d": average_pool,
    "_adaptive_avg_pool2d": adaptive_pool,
    **dict.fromkeys(("mean", "sum"), mean),
    "_log_softmax": _softmax,
    **dict.fromkeys(("argmax", "max", "topk"), _labels),
    "sigmoid": _sigmoid,
    "_softmax": _softmax,
}
