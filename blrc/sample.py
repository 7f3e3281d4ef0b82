"""A checkpoint to one net: the most likely weights (MAP), or a sample keyed by (seed, member)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc import logits
from blrc.checkpoint import Checkpoint
from blrc.errors import BlrcError
from blrc.graph import Node
from blrc.net import Conv, Dense, Flatten, Layer, MaxPool, Moments, Net, Norm, Reals, Sign, Softmax
from blrc.window import Window

SEED_LIMIT = 2**64
MEMBER_LIMIT = 2**32


@dataclass(frozen=True)
class Member:
    """Which network to take: MAP where ``seed`` is None, else sample number ``index`` of ``seed``."""

    seed: int | None = None
    index: int = 0

    def __post_init__(self) -> None:
        if self.seed is not None and not 0 <= self.seed < SEED_LIMIT:
            raise BlrcError(f"seed {self.seed}: must be from 0 to 2^64 - 1")
        if not 0 <= self.index < MEMBER_LIMIT:
            raise BlrcError(f"member {self.index}: must be from 0 to 2^32 - 1")

    @staticmethod
    def parse(text: str) -> Member:
        """Inverse of ``str``."""
        if text == "map":
            return MAP
        seed, _, index = text.removeprefix("sample ").partition(":")
        return Member(int(seed), int(index))

    def __str__(self) -> str:
        return "map" if self.seed is None else f"sample {self.seed}:{self.index}"


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
    match node.kind:
        case "binary_conv2d":
            signs = _signs(checkpoint, node.name, index, member)
            window = Window(
                _pair(options["kernel_size"]), _pair(options["stride"]), _padding(options), _pair(options["dilation"])
            )
            return Conv(node.name, x, signs, _optional(checkpoint, f"{node.name}.bias"), window, options["groups"])
        case "binary_linear":
            signs = _signs(checkpoint, node.name, index, member)
            return Dense(node.name, x, signs, _optional(checkpoint, f"{node.name}.bias"))
        case "batch_norm1d" | "batch_norm2d":
            return _norm(checkpoint, node, running)
        case "max_pool2d":
            kernel = _pair(options["kernel_size"])
            stride = _pair(options["stride"]) if options["stride"] is not None else kernel
            vertical, horizontal = _pair(options["padding"])
            return MaxPool(node.name, x, Window(kernel, stride, (vertical, horizontal, vertical, horizontal)))
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


def _norm(checkpoint: Checkpoint, node: Node, running: bool) -> Norm:
    channels = int(node.options["num_features"])
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
        float(node.options["eps"]),
        statistics,
    )


def _padding(options: Any) -> tuple[int, int, int, int]:
    padding = options["padding"]
    if padding == "valid":
        return (0, 0, 0, 0)
    kernel, dilation = _pair(options["kernel_size"]), _pair(options["dilation"])
    if padding == "same":
        # As torch: the odd pixel goes to the bottom and the right.
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        top, left = total[0] // 2, total[1] // 2
        return (top, left, total[0] - top, total[1] - left)
    vertical, horizontal = _pair(padding)
    return (vertical, horizontal, vertical, horizontal)


def _pair(value: Any) -> tuple[int, int]:
    return (int(value[0]), int(value[1])) if isinstance(value, list | tuple) else (int(value), int(value))


def _reals(checkpoint: Checkpoint, key: str) -> Reals:
    return np.asarray(checkpoint.tensors[key], dtype=np.float64)


def _optional(checkpoint: Checkpoint, key: str) -> Reals | None:
    return _reals(checkpoint, key) if key in checkpoint.tensors else None
