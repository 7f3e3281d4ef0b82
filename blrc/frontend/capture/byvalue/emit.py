"""Name the layers that a network's output needs, and write them as nodes and tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.values import AVERAGES, LABELS, OPAQUE, PIXELS, Atom, averages_under
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.padding import is_padding
from blrc.net.encoding import InputEncoding
from blrc.net.heads import Heads
from blrc.net.net import INPUT

LINEAR = (
    *(f"{weights}_{layer}" for weights in ("ste", "whole") for layer in ("conv1d", "conv2d", "linear")),
    "softmax",
)
"""Kinds of layers with weights."""
_WORDS = {
    **{kind: "conv" if "_conv" in kind else "linear" for kind in LINEAR},
    "plain_norm1d": "norm",
    "plain_norm2d": "norm",
    "plain_pool1d": "pool",
    "plain_pool2d": "pool",
    **dict.fromkeys(AVERAGES, "pool"),
    "ste_sign": "sign",
    "strict_sign": "sign",
}
_READERS = {
    "clip": "a clip",
    "relu": "a ReLU",
    "prelu": "a PReLU",
    "threshold": "a sign",
    "ste_sign": "a sign",
    "strict_sign": "a sign",
    "plain_norm1d": "a norm",
    "plain_norm2d": "a norm",
}
"""Name what may stand behind averages and has no form there."""
_READ = (
    "let a binary layer without padding, a pool, or a last linear layer read averages, or take a depthwise convolution "
    "with weights of 1, whose sums a norm and a sign may follow"
)
_MAIN = (*LINEAR, "plain_norm1d", "plain_norm2d")
"""Kinds that bear the name of the module that computes them, whatever else it computes."""


@dataclass(frozen=True, eq=False)
class Captured:
    """Hold captured layers.

    Attributes:
        nodes, tensors: those of a checkpoint.
        atoms: what the module computed, by the name of the layer.
        notes: what is worth telling.
        heads: of a network with several outputs, the layer that gives each.
        at: the thresholds by which a sign makes bits of pixels, for each channel; empty where none does.
    """

    nodes: tuple[Node, ...]
    tensors: Mapping[str, NDArray[Any]]
    atoms: Mapping[str, Atom]
    notes: tuple[str, ...]
    heads: Heads = ()
    at: tuple[int, ...] = ()

    def reads(self, encoding: InputEncoding) -> InputEncoding:
        """Return the input of the layers, from the one that the module was run with."""
        return replace(encoding, at=self.at) if encoding.exact else encoding


def emit(outputs: Mapping[str, Atom], leaves: Sequence[str]) -> Captured:
    """Return the layers from the network's input to its last atoms.

    Args:
        outputs: what the network gives, by the names of its heads. What is computed from the same scores is one head.
        leaves: paths of the modules that hold no others.

    Raises:
        BlrcError: no layer computes one of the atoms; the message is that of the first.
    """
    notes: list[str] = []
    layers: list[Atom] = []
    lasts: dict[str, Atom] = {}
    for head, given in sorted(outputs.items(), key=lambda item: item[1].kind == LABELS):
        last = given
        while last.kind == LABELS and last.x is not None:
            notes.append(
                f"leaves out the {last.options['name']} at the end ({last.path or 'in forward'}): the labels are the "
                "same, and the scores are those before it"
            )
            last = last.x
        if last is not given and last.number in {other.number for other in lasts.values()}:
            continue  # such as the label beside the scores
        last = _as_scores(last)
        chain = _chain(last)
        for atom in chain:
            if atom.kind == OPAQUE or (atom.kind == "softmax" and atom is not last):
                raise BlrcError(atom.what)
            _check_average(atom, atom is last)
            if atom.kind == LABELS:
                raise BlrcError(f"layer {atom.path!r}: computes {atom.options['name']} before the end; leave it out")
        layers += [atom for atom in chain if atom.number not in {other.number for other in layers}]
        lasts[head] = last
    lasts = {head: lasts[head] for head in outputs if head in lasts}
    named = _named(layers, frozenset(leaves))
    names = {atom.number: name for name, atom in named.items()}
    nodes: list[Node] = []
    tensors: dict[str, NDArray[Any]] = {}
    for name, atom in named.items():
        before = INPUT if atom.x is None else names.get(atom.x.number, INPUT)
        nodes.append(Node(name, atom.kind, (before,), atom.options))
        tensors |= {f"{name}.{key}": _single(value) for key, value in atom.tensors.items()}
    heads = tuple((head, names.get(last.number, INPUT)) for head, last in lasts.items() if len(lasts) > 1)
    limits = {_limits(last) for last in lasts.values()}
    if len(limits) > 1:
        raise BlrcError(
            "the heads: read pixels, or bits of them by several thresholds; all heads must read the same bits"
        )
    return Captured(tuple(nodes), tensors, named, tuple(notes), heads, *limits)


def _as_scores(last: Atom) -> Atom:
    """Return a last dense layer of whole numbers, with the scales and shifts behind it, as one of real weights."""
    factor, offset, atom = np.ones(1), np.zeros(1), last
    while atom.kind in ("scale", "shift") and atom.x is not None:
        if atom.kind == "scale":
            factor = factor * atom.tensors["factor"] / atom.tensors["divisor"]
        else:
            offset = offset + factor * atom.tensors["by"]
        atom = atom.x
    if atom.kind != "whole_linear":
        return last
    weights = atom.tensors["weight"].astype(np.float64) * factor.reshape(-1, 1)
    bias = np.broadcast_to(offset + factor * atom.tensors.get("bias", np.zeros(1)), (len(weights),)).copy()
    tensors = {"weight": weights, "bias": bias}
    return replace(
        last,
        kind="softmax",
        path=atom.path,
        x=atom.x,
        options={**atom.options, "bias": True},
        tensors=tensors,
        off=atom.off,
    )


def _check_average(atom: Atom, last: bool) -> None:
    """Refuse averages that something else reads than a linear layer or a pool, or that nothing reads."""
    read = atom if last else atom.x
    pool = None if read is None else averages_under(read)
    if pool is None or atom.kind in LINEAR or (not last and averages_under(atom) is not None):
        return
    reader = "they end the network" if last else f"{_READERS.get(atom.kind, atom.kind)} follows"
    where = f" in layer {atom.path!r}" if atom.path and not last else ""
    while not pool.what and pool.x is not None:
        pool = pool.x
    raise BlrcError(f"{pool.what}, and {reader}{where}; {_READ}")


def _limits(atom: Atom) -> tuple[int, ...]:
    """Return the thresholds of pixels at the beginning of what an atom is computed from."""
    while atom.kind != PIXELS:
        if atom.x is None:
            return ()
        atom = atom.x
    return tuple(atom.tensors["at"].tolist())


def _chain(last: Atom) -> list[Atom]:
    chain = []
    atom: Atom | None = last
    while atom is not None:
        chain.append(atom)
        atom = atom.x
    while chain and chain[-1].kind in (INPUT, PIXELS):
        chain.pop()
    return chain[::-1]


def _named(chain: Sequence[Atom], leaves: frozenset[str]) -> dict[str, Atom]:
    named: dict[str, Atom] = {}
    owners: dict[str, Atom] = {}  # of each module that is a layer: the atom that bears its name
    for atom in chain:
        if atom.path in leaves and (atom.path not in owners or _rank(atom) > _rank(owners[atom.path])):
            owners[atom.path] = atom
    owned = {id(atom) for atom in owners.values()}
    taken = {INPUT, *leaves}
    for atom in chain:
        pads = is_padding(atom.kind, atom.options)
        word = "pad" if pads else _WORDS.get(atom.kind, atom.kind)
        if id(atom) in owned:
            name = atom.path if atom.path != INPUT else f"{atom.path}_"
        else:
            joint = "_" if atom.path in leaves else "."
            same = atom.path in leaves and atom.kind == owners[atom.path].kind and not pads
            wanted = atom.path if same else f"{atom.path}{joint}{word}" if atom.path else word
            name, count = wanted, 1
            while name in taken:
                count += 1
                name = f"{wanted}_{count}"
        taken.add(name)
        named[name] = atom
    return named


def _rank(atom: Atom) -> int:
    return 1 if atom.kind in _MAIN and not is_padding(atom.kind, atom.options) else 0


def _single(values: NDArray[Any]) -> NDArray[Any]:
    """Return real numbers in float32 where that rounds none."""
    if values.dtype != np.float64:
        return values
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    return single if np.array_equal(single, values, equal_nan=True) else values
