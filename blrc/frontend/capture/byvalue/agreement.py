"""Compare captured layers with the values that the module computed, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.emit import LINEAR, Captured
from blrc.frontend.capture.byvalue.values import AVERAGES, Atom
from blrc.frontend.capture.evaluate import Reals, output
from blrc.frontend.kinds.node import Node
from blrc.net.net import INPUT

CLOSE = 2.0**-6
"""How far from +-1 the module's signs may be: straight-through estimators round, and a wrong sign is off by 2."""


def check_agreement(captured: Captured, x: Reals, dtype: torch.dtype, samples: Sequence[str]) -> None:
    """Evaluate captured layers, each on what the module computed before it, and compare.

    Where the module does not compute a layer's value as it is, such as the integer sums before a scale, the value
    before it is taken, and what rounding may have done to that grows with the scale.

    Args:
        x: the network's input.
        dtype: the type in which the module computed.
        samples: what messages call each sample.

    Raises:
        BlrcError: a layer computes something else (named, with the sample).
    """
    coarser = torch.finfo(dtype).eps / torch.finfo(torch.float64).eps
    underflow = torch.finfo(dtype).tiny
    found: dict[str, tuple[Reals, Reals]] = {INPUT: (x, np.zeros_like(x))}
    for node in captured.nodes:
        atom = captured.atoms[node.name]
        values, slack = found[node.inputs[0]]
        got = output(node, captured.tensors, values)
        own = np.broadcast_to(np.asarray(got.slack) * coarser + underflow, got.values.shape)
        if atom.bits:
            carried = slack if slack.shape == got.values.shape else None
            found[node.name] = _signs(node, atom, values, carried, got.values, samples), np.zeros_like(got.values)
            continue
        slack = own + _carried(captured, node, atom, values, slack, got.values)
        values = got.values
        if atom.tap is not None:
            _same(node.name, atom.tap.values, values, slack, samples)
            values, slack = atom.tap.values, np.zeros_like(slack)
        found[node.name] = values, slack


def _signs(node: Node, atom: Atom, before: Reals, slack: Reals | None, found: Reals, samples: Sequence[str]) -> Reals:
    """Return the module's signs, which may be others than the layer's only where its input is 0 up to rounding."""
    if atom.tap is None:
        return found
    tie = np.zeros(found.shape, dtype=bool) if slack is None else np.abs(before) <= slack
    tie = tie | (found == 0)
    _same(node.name, atom.tap.values, found, np.where(tie, 2 + CLOSE, CLOSE), samples)
    return np.where(atom.tap.values >= 0, 1.0, -1.0)


def _carried(captured: Captured, node: Node, atom: Atom, x: Reals, slack: Reals, y: Reals) -> Any:
    """Return what the rounding of a layer's input does to its output."""
    held: dict[str, Reals] = {
        key.rpartition(".")[2]: value for key, value in captured.tensors.items() if key.startswith(f"{node.name}.")
    }
    column = (1, -1, *[1] * (y.ndim - 2))
    if node.kind in LINEAR:
        weight = np.abs(held["weight"]).reshape(len(held["weight"]), -1).astype(np.float64)
        return (atom.off * np.abs(x).max(initial=0.0) * weight.sum(1)).reshape(column)
    if node.kind == "scale":
        return slack * np.abs(held["factor"] / held["divisor"]).reshape(column)
    if node.kind == "flatten":
        return slack.reshape(y.shape)
    if node.kind in ("plain_norm1d", "plain_norm2d"):
        gain = 1 / np.sqrt(held["running_var"].astype(np.float64) + node.options["eps"])
        return slack * np.abs(gain * held.get("weight", 1.0)).reshape(column)
    if node.kind in ("plain_pool1d", "plain_pool2d"):
        return float(slack.max(initial=0.0))
    if node.kind in AVERAGES:
        return float(slack.max(initial=0.0)) + atom.off
    if node.kind == "prelu":
        return slack * np.maximum(1, np.abs(held["weight"])).reshape(column)
    return slack


def _same(name: str, found: Reals, expected: Reals, slack: NDArray[np.float64], samples: Sequence[str]) -> None:
    if found.shape != expected.shape:
        shapes = f"{found.shape[1:]} in the module, {expected.shape[1:]} as captured"
        raise BlrcError(f"layer {name!r}: gives shape {shapes}; write forward as plain calls of layers")
    with np.errstate(invalid="ignore"):
        close = (np.abs(found - expected) <= slack) | ~(np.isfinite(found) | np.isfinite(expected))
    if close.all():
        return
    place = tuple(int(i) for i in np.argwhere(~close)[0])
    raise BlrcError(
        f"layer {name!r}: the module differs from what was captured on {samples[place[0]]}: it computes "
        f"{found[place]:.9g} at {place[1:]}, captured {expected[place]:.9g} ({int((~close).sum())} of {close.size} "
        "values differ); write forward as plain calls of layers"
    )
