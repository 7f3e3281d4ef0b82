"""Collect the layers of a checkpoint while the graph is walked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.rounding import Layer
from blrc.importing.declared import Declared
from blrc.importing.file import Op
from blrc.importing.flow import Flow
from blrc.importing.inputs import Encode
from blrc.importing.numbers import Reals, quotient
from blrc.importing.refusal import RefusalError
from blrc.net.encoding import InputEncoding, bits
from blrc.net.net import INPUT
from blrc.net.parts import parts

LONGEST = 60
"""Characters of a layer's name that come from the file's node."""
_SINGLE = float(np.finfo(np.float32).max)
_LARGE = "use a network whose training did not diverge"
Some = TypeVar("Some", bound=Flow)


@dataclass
class Builder:
    """Hold the layers and tensors so far.

    Attributes:
        declared: what the raw input is, as the user or the first nodes say; None while nobody does.
        encode: gives the input's encoding, as soon as it is decided; bits while it is not.
        encoding: the input's encoding, as soon as a layer reads the input.
        notes: what a user has to know about the input.
        folded: bytes of the constants that were computed.
    """

    declared: Declared | None
    encode: Encode | None = None
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    encoding: InputEncoding | None = None
    notes: list[str] = field(default_factory=list)
    folded: int = 0
    _taken: set[str] = field(default_factory=lambda: {INPUT})

    def add(
        self, op: Op, kind: str, x: Flow, options: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]] | None = None
    ) -> str:
        """Add a layer that reads what `x` describes, and return its name.

        Raises:
            RefusalError: the raw input has thresholds along an axis that is not its channels.
        """
        if x.layer == INPUT and self.encoding is None:
            if x.bound:
                raise RefusalError(
                    f"thresholds or tables of the raw input lie along its axis {x.bound + 1}, not along its channels",
                    "transpose it to (N, C, H, W), or give all values the same",
                )
            self.encoding = (self.encode or bits)(x.shape)
        name = self._name(op)
        self.nodes.append(Node(name, kind, (x.layer,), dict(options)))
        self.tensors.update({f"{name}.{key}": value for key, value in (tensors or {}).items()})
        return name

    def note(self, text: str) -> None:
        """Tell the user something once; nothing where the text is empty."""
        if text and text not in self.notes:
            self.notes.append(text)

    def ends_in(self, layer: str, kind: str) -> bool:
        """Return whether a layer is the last one so far, and of a kind."""
        return bool(self.nodes) and (self.nodes[-1].name, self.nodes[-1].kind) == (layer, kind)

    def chain(self, layer: str) -> list[Layer]:
        """Return the layers from the raw input to one of them, in order."""
        by_name = {node.name: node for node in self.nodes}
        found: list[Layer] = []
        while (node := by_name.get(layer)) is not None:
            own = {key.rpartition(".")[2]: held for key, held in self.tensors.items() if key.startswith(f"{layer}.")}
            found.insert(0, (node.kind, node.options, own))
            layer = node.inputs[0]
        return found

    def take_whole(self, layer: str) -> tuple[Reals, Reals, str] | None:
        """Take out a last dense layer of whole numbers, and the scales and shifts behind it, for one of real weights.

        Returns:
            its weights and its bias, and the layer that it reads; None if the layers that `layer` ends are others.
        """
        place = len(self.nodes)
        factor, offset = np.ones(1), np.zeros(1)
        while place and self.nodes[place - 1].name == layer:
            place -= 1
            node = self.nodes[place]
            held = {
                key: self.tensors[f"{node.name}.{key}"]
                for key in ("factor", "divisor", "by", "weight")
                if f"{node.name}.{key}" in self.tensors
            }
            if node.kind == "scale":
                factor = factor * held["factor"] / held["divisor"]
            elif node.kind == "shift":
                offset = offset + factor * held["by"]
            elif node.kind == "whole_linear":
                weights = held["weight"].astype(np.float64) * factor.reshape(-1, 1)
                gone = self.nodes[place:]
                del self.nodes[place:]
                for each in gone:
                    for key in [key for key in self.tensors if key.startswith(f"{each.name}.")]:
                        del self.tensors[key]
                return weights, np.broadcast_to(offset, (len(weights),)).copy(), node.inputs[0]
            else:
                return None
            layer = node.inputs[0]
        return None

    def _name(self, op: Op) -> str:
        stem = re.sub(r"[^A-Za-z0-9]+", "_", op.name).strip("_")[-LONGEST:].strip("_")
        if not stem or stem[0].isdigit():
            stem = f"{re.sub(r'[^A-Za-z0-9]+', '', op.kind).lower()[:LONGEST] or 'node'}_{stem}".strip("_")
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        return name

    def multiply(self, op: Op, layer: str, rows: Sequence[Sequence[Fraction]]) -> str:
        """Multiply each channel of a layer's output by all `rows`, each with one value for each channel or one for all.

        Raises:
            RefusalError: a product is beyond float32.
        """
        product: list[Fraction] = [Fraction(1)]
        for row in rows:
            longer = _times(product, row)
            if all(quotient(number) is not None for number in longer):
                product = longer
            else:
                layer, product = self._scale(op, layer, product), list(row)
        return self._scale(op, layer, product)

    def _scale(self, op: Op, layer: str, row: Sequence[Fraction]) -> str:
        if all(number == 1 for number in row):
            return layer
        pairs = [quotient(number) for number in row]
        if any(pair is None or max(map(abs, pair)) > _SINGLE for pair in pairs):
            raise RefusalError("its factor is beyond what float32 holds", _LARGE)
        factor, divisor = np.array(pairs, dtype=np.float64).T.copy()
        return self._after(op, layer, "scale", {"channels": len(row)}, {"factor": factor, "divisor": divisor})

    def shift(self, op: Op, layer: str, row: Sequence[Fraction]) -> str:
        """Add to each channel of a layer's output, exactly."""
        found = [parts(number) for number in row]
        sums = [held for held in found if held is not None]
        if len(sums) < len(found) or any(abs(held[0]) > _SINGLE for held in sums if held):
            raise RefusalError("what it adds is no sum of a few floats", "give constants that float32 holds")
        for depth in range(max(map(len, sums))):
            by = np.array([held[depth] if depth < len(held) else 0.0 for held in sums])
            layer = self._after(op, layer, "shift", {"channels": len(row)}, {"by": by})
        return layer

    def _after(
        self, op: Op, layer: str, kind: str, options: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]
    ) -> str:
        return self.add(op, kind, Flow(layer, (), ()), options, tensors)

    def checkpoint(self, source: str) -> Checkpoint:
        """Return what was collected."""
        if self.encoding is None:
            raise BlrcError(f"{source}: no layer reads the input")
        return Checkpoint(tuple(self.nodes), self.tensors, self.encoding, None, source)


def _times(first: Sequence[Fraction], second: Sequence[Fraction]) -> list[Fraction]:
    length = max(len(first), len(second))
    return [first[i % len(first)] * second[i % len(second)] for i in range(length)]
