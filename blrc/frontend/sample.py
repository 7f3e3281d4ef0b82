"""Turn a checkpoint into one net: with the most likely weights (MAP), or with a sample keyed by (seed, member)."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.table import kind_of
from blrc.frontend.weights.table import coding_of
from blrc.net.net import Layer, Net, Reals

SEED_LIMIT = 2**64
MEMBER_LIMIT = 2**32
NONE = Fraction(0)
_PLAIN = r"[A-Za-z0-9_.-]+"
_NAME = rf"(?:{_PLAIN}|\"(?:[^\"\\]|\\.)*\")"
_TEXT = re.compile(rf"sample (\d+):(\d+)(?: layers ({_NAME}(?:,{_NAME})*))?(?: freeze (\d+(?:/[1-9]\d*)?))?", re.ASCII)


@dataclass(frozen=True)
class Member:
    """Say which network to take: MAP if ``seed`` is None, else sample number ``index`` of ``seed``.

    Attributes:
        layers: names of the binary layers that are sampled, while the others stay at MAP; None samples all of them.
        freeze: weights that take another value than the likeliest with a probability below `freeze` stay at MAP: of
            binary ones where min(p, 1-p) < freeze. 0 freezes none, and 1/2 all binary ones.

    The random bits of a weight do not depend on `layers` and `freeze`, so every sampled weight is as in
    `Member(seed, index)`.

    Raises:
        BlrcError: `seed` is no whole number below 2^64, `index` is none below 2^32, `layers` is empty or names a layer
            twice, `freeze` is outside 0 to 1/2, or MAP, of which nothing is sampled, has `layers` or `freeze`.
    """

    seed: int | None = None
    index: int = 0
    layers: tuple[str, ...] | None = None
    freeze: Fraction = NONE

    def __post_init__(self) -> None:
        if self.seed is not None and not (_is_whole(self.seed) and 0 <= self.seed < SEED_LIMIT):
            raise BlrcError(f"seed {self.seed!r}: must be from 0 to 2^64 - 1, a whole number")
        if not (_is_whole(self.index) and 0 <= self.index < MEMBER_LIMIT):
            raise BlrcError(f"member {self.index!r}: must be from 0 to 2^32 - 1, a whole number")
        if self.layers is not None and (not self.layers or len(set(self.layers)) < len(self.layers)):
            raise BlrcError(f"sampled layers {list(self.layers)}: name at least one, and each once")
        if not isinstance(self.freeze, Fraction):
            raise BlrcError(f"freeze {self.freeze!r}: must be a Fraction; blrc.frontend.sample.parse_freeze makes one")
        if not 0 <= self.freeze <= Fraction(1, 2):
            raise BlrcError(f"freeze {self.freeze}: must be from 0 to 1/2, a probability of the less likely values")
        if self.seed is None and (self.layers is not None or self.freeze):
            raise BlrcError("map: nothing of it is sampled, so it takes no layers and no freeze")

    @staticmethod
    def parse(text: str) -> Member:
        """Return the member that ``str`` wrote as `text`. Raise a `ValueError` if it describes none."""
        if text == "map":
            return MAP
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"no member: {text!r}")
        seed, index, names, freeze = found.groups()
        layers = None if names is None else tuple(_unquote(name) for name in re.findall(_NAME, names))
        return Member(int(seed), int(index), layers, NONE if freeze is None else Fraction(freeze))

    def __str__(self) -> str:
        """Return ``map`` or ``sample SEED:INDEX [layers NAME,...] [freeze N/D]``.

        Unusual names are written as JSON strings in ASCII.
        """
        if self.seed is None:
            return "map"
        text = f"sample {self.seed}:{self.index}"
        if self.layers is not None:
            text += (
                f" layers {','.join(name if re.fullmatch(_PLAIN, name) else json.dumps(name) for name in self.layers)}"
            )
        return f"{text} freeze {self.freeze}" if self.freeze else text


def _unquote(name: str) -> str:
    return str(json.loads(name)) if name.startswith('"') else name


def _is_whole(number: Any) -> bool:
    try:
        return not isinstance(number, bool) and operator.index(number) == number
    except TypeError:
        return False


MAP = Member()


def binary_layers(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the kind of each layer that can be sampled, such as ``binary_linear``, by name, in order."""
    return {node.name: node.kind for node in checkpoint.nodes if coding_of(node.kind) is not None}


def binary_convolutions(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the names of the convolutions that can be sampled, in order."""
    return tuple(name for name, kind in binary_layers(checkpoint).items() if "_conv" in kind)


def sampled_layers(checkpoint: Checkpoint, choice: str | Sequence[str]) -> tuple[str, ...] | None:
    """Return the `Member.layers` of a choice: ``all``, ``conv`` (every binary convolution), ``LAYER,LAYER``, or names.

    Returns:
        the names in the network's order; None if they are all of its binary layers.

    Raises:
        BlrcError: the choice is empty, or a name is none of the checkpoint's binary layers (which the message lists).
    """
    known = binary_layers(checkpoint)
    who = f"{checkpoint.source}: cannot sample"
    names = ", ".join(map(repr, known))
    have = f"its binary layers are {names}" if known else "no weight of it is random (a Binarized NN)"
    if choice == "all":
        return None
    if choice == "conv":
        chosen = set(binary_convolutions(checkpoint))
        if not chosen:
            raise BlrcError(f"{who} its binary convolutions: it has none; {have}")
    elif isinstance(choice, str):
        chosen = {choice} if choice in known else {name.strip() for name in choice.split(",")} - {""}
    else:
        chosen = set(choice)
    unknown = sorted(chosen - set(known))
    if unknown or not chosen:
        raise BlrcError(f"{who} {', '.join(map(repr, unknown)) or 'no layers'}: {have}")
    return None if chosen == set(known) else tuple(name for name in known if name in chosen)


def shown(share: object) -> str:
    """Return a share as a message shows it: a fraction as a number, and anything else as Python writes it."""
    return f"{float(share):g}" if isinstance(share, Fraction) else repr(share)


def parse_freeze(freeze: str | float | Fraction) -> Fraction:
    """Return the exact rational number that a decimal text, ``N/D`` or the shortest decimal form of a float says.

    Raises:
        BlrcError: it is not a number from 0 to 1/2.
    """
    try:
        value = exact(freeze)
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if not 0 <= value <= Fraction(1, 2):
        raise BlrcError(f"freeze {shown(freeze)}: expected a probability from 0 to 0.5, such as 0.1")
    return value


def exact(number: str | float | Fraction) -> Fraction:
    """Return the number as it was written, not its nearest double.

    Raises:
        ValueError, ZeroDivisionError: it is no number, or has so many digits that it would take too long.
    """
    text = str(number).lower()
    exponent = text.partition("e")[2].lstrip("+-")
    if not isinstance(number, Fraction) and (len(text) > 64 or len(exponent) > 3 or "_" in text):
        raise ValueError(text)
    return number if isinstance(number, Fraction) else Fraction(text)


def sample(checkpoint: Checkpoint, member: Member = MAP, running: bool = False) -> Net:
    """Return the net of one member.

    Args:
        running: keep the running norm statistics of training; otherwise norms come without statistics, to be
            re-estimated by `blrc.lowering.calibrate` (paper, section 5: "re-estimating the batch norm statistics").

    Raises:
        BlrcError: the member names layers that the checkpoint does not have, or a node is no valid layer.
    """
    if member.layers is not None:
        sampled_layers(checkpoint, member.layers)  # refuses unknown names
    layers: list[Layer] = []
    passed: dict[str, str] = {}  # a layer that passes a value on, and which value
    for index, node in enumerate(checkpoint.nodes):
        layer = _layer(checkpoint, node, index, member, running)
        if layer is None:
            passed[node.name] = passed.get(node.inputs[0], node.inputs[0])
        else:
            layers.append(replace(layer, x=passed.get(layer.x, layer.x)))
    net = Net(checkpoint.encoding, tuple(layers), str(member), heads=checkpoint.heads, values=checkpoint.values)
    return net.upto(net.heads[0][1]) if len(net.heads) == 1 else net


def _layer(checkpoint: Checkpoint, node: Node, index: int, member: Member, running: bool) -> Layer | None:
    who = f"{checkpoint.source}: layer {node.name!r}"
    if len(node.inputs) != 1:
        raise BlrcError(f"{who} has {len(node.inputs)} inputs; layers take one")
    kind = kind_of(node)
    kind.check(who, node.options)
    return kind.layer(who, node, _Numbers(checkpoint, node, index, member, running))


@dataclass(frozen=True)
class _Numbers:
    """Give the numbers that one layer of one member computes with (see `blrc.frontend.kinds.record.Values`)."""

    checkpoint: Checkpoint
    node: Node
    index: int
    member: Member
    running: bool

    def weights(self) -> NDArray[np.int8]:
        name, member = self.node.name, self.member
        if coding_of(self.node.kind) is None:  # a Binarized NN: every member is the same network
            return self.checkpoint.signs(name)
        weights = self.checkpoint.coded(name)
        if member.seed is None or (member.layers is not None and name not in member.layers):
            return weights.likeliest()
        drawn = weights.sampled(member.seed, member.index, self.index)
        return np.where(weights.frozen(member.freeze), weights.likeliest(), drawn) if member.freeze else drawn

    def reals(self, tensor: str) -> Reals:
        return np.asarray(self.checkpoint.tensors[f"{self.node.name}.{tensor}"], dtype=np.float64)

    def optional(self, tensor: str) -> Reals | None:
        return self.reals(tensor) if f"{self.node.name}.{tensor}" in self.checkpoint.tensors else None
