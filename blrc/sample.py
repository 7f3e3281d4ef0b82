"""A checkpoint to one net: the most likely weights (MAP), or a sample keyed by (seed, member)."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc import logits
from blrc.checkpoint import Checkpoint
from blrc.errors import BlrcError
from blrc.graph import Node
from blrc.net import Conv, Dense, Flatten, Layer, MaxPool, Moments, Net, Norm, Reals, Sign, Softmax
from blrc.window import conv_window, count, pool_window

SEED_LIMIT = 2**64
MEMBER_LIMIT = 2**32


@dataclass(frozen=True)
class Member:
    """Which network to take: MAP where ``seed`` is None, else sample number ``index`` of ``seed``.

    Raises:
        BlrcError: a seed that is no whole number below 2^64, or an index that is none below 2^32.
    """

    seed: int | None = None
    index: int = 0

    def __post_init__(self) -> None:
        if self.seed is not None and not (_is_whole(self.seed) and 0 <= self.seed < SEED_LIMIT):
            raise BlrcError(f"seed {self.seed!r}: must be from 0 to 2^64 - 1, a whole number")
        if not (_is_whole(self.index) and 0 <= self.index < MEMBER_LIMIT):
            raise BlrcError(f"member {self.index!r}: must be from 0 to 2^32 - 1, a whole number")

    @staticmethod
    def parse(text: str) -> Member:
        """Inverse of ``str``."""
        if text == "map":
            return MAP
        seed, _, index = text.removeprefix("sample ").partition(":")
        return Member(int(seed), int(index))

    def __str__(self) -> str:
        return "map" if self.seed is None else f"sample {self.seed}:{self.index}"


def _is_whole(number: Any) -> bool:
    try:
        return not isinstance(number, bool) and operator.index(number) == number
    except TypeError:
        return False


MAP = Member()


def sample(checkpoint: Checkpoint, member: Member = MAP, running: bool = False) -> Net:
    """The net of one member.

    Args:
        running: keep the running norm statistics of training, as they are; otherwise norms come without statistics,
        to be
            re-estimated by `calibrate` (paper, section 5: "re-estimating the batch norm statistics").
    """
    layers = tuple(_layer(checkpoint, node, index, member, running) for index, node in enumerate(checkpoint.nodes))
    return Net(checkpoint.encoding, layers, str(member))


def _layer(checkpoint: Checkpoint, node: Node, index: int, member: Member, running: bool) -> Layer:
    if len(node.inputs) != 1:
        raise BlrcError(f"{checkpoint.source}: layer {node.name!r} has {len(node.inputs)} inputs; layers take one")
    x, options = node.inputs[0], node.options
    who = f"{checkpoint.source}: layer {node.name!r}"
    match node.kind:
        case "binary_conv2d":
            signs = _signs(checkpoint, node.name, index, member)
            window = conv_window(
                who, options["kernel_size"], options["stride"], options["padding"], options["dilation"]
            )
            groups = count(who, "groups", options["groups"])
            return Conv(node.name, x, signs, _optional(checkpoint, f"{node.name}.bias"), window, groups)
        case "binary_linear":
            signs = _signs(checkpoint, node.name, index, member)
            return Dense(node.name, x, signs, _optional(checkpoint, f"{node.name}.bias"))
        case "batch_norm1d" | "batch_norm2d":
            return _norm(checkpoint, node, who, running)
        case "max_pool2d":
            return MaxPool(
                node.name, x, pool_window(who, options["kernel_size"], options["stride"], options["padding"])
            )
        case "sign":
            return Sign(node.name, x)
        case "flatten":
            return Flatten(node.name, x)
        case "softmax":
            weights = _reals(checkpoint, f"{node.name}.weight")
            bias = _optional(checkpoint, f"{node.name}.bias")
            return Softmax(node.name, x, weights, np.zeros(len(weights)) if bias is None else bias)
        case _:
            raise BlrcError(
                f"{checkpoint.source}: layer {node.name!r} ({node.kind}) is unknown to this version of blrc"
            )


def _signs(checkpoint: Checkpoint, name: str, index: int, member: Member) -> NDArray[np.int8]:
    codes = checkpoint.logit_codes(name)
    if member.seed is None:
        return logits.map_signs(codes)
    return logits.sample_signs(codes, member.seed, member.index, index)


def _norm(checkpoint: Checkpoint, node: Node, who: str, running: bool) -> Norm:
    channels, eps = count(who, "num_features", node.options["num_features"]), node.options["eps"]
    if not (isinstance(eps, int | float) and math.isfinite(eps) and eps >= 0):
        raise BlrcError(f"{who}: eps {eps!r}: must be finite and not negative; train with 1e-5, say")
    gamma = _optional(checkpoint, f"{node.name}.weight")
    beta = _optional(checkpoint, f"{node.name}.bias")
    statistics = None
    if running:
        statistics = Moments(
            _reals(checkpoint, f"{node.name}.running_mean"), _reals(checkpoint, f"{node.name}.running_var")
        )
    return Norm(
        node.name,
        node.inputs[0],
        np.ones(channels) if gamma is None else gamma,
        np.zeros(channels) if beta is None else beta,
        float(eps),
        statistics,
    )


def _reals(checkpoint: Checkpoint, key: str) -> Reals:
    return np.asarray(checkpoint.tensors[key], dtype=np.float64)


def _optional(checkpoint: Checkpoint, key: str) -> Reals | None:
    return _reals(checkpoint, key) if key in checkpoint.tensors else None
