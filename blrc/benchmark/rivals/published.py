"""Hold figures of the paper's networks in int8 on microcontrollers, for comparison with ours.

They were measured once for this project, in the same emulator and with the same count of instructions. Nothing here
measures them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from blrc.program.program import Conv, Program, WeightedOp

SOURCE = "CMSIS-NN 99f736a6, gcc 12.2 -Ofast, QEMU 7.2; measured once for this project, not by this command"
Signature = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Int8:
    """Hold what one inference of a network in int8 costs.

    Attributes:
        whole: instructions of the network, by machine.
        flash, ram: bytes.
        layers: instructions of each layer with its pooling, by machine, where they were counted.
    """

    whole: Mapping[str, int]
    flash: int
    ram: int
    layers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


_MNIST: Signature = (
    (28, 28, 1, 3, 3, 32, 14, 14),
    (14, 14, 32, 3, 3, 64, 7, 7),
    (7, 7, 64, 7, 7, 512, 1, 1),
    (512, 10),
)
_CIFAR10: Signature = (
    (32, 32, 3, 3, 3, 128, 32, 32),
    (32, 32, 128, 3, 3, 128, 16, 16),
    (16, 16, 128, 3, 3, 256, 16, 16),
    (16, 16, 256, 3, 3, 256, 8, 8),
    (8, 8, 256, 3, 3, 512, 8, 8),
    (8, 8, 512, 3, 3, 512, 4, 4),
    (4, 4, 512, 4, 4, 1024, 1, 1),
    (1024, 10),
)
_M4 = (1_975_000 + 243_000, 6_702_000 + 114_000, 3_036_000, 10_000)
_KNOWN: Mapping[Signature, Int8] = {
    _MNIST: Int8(
        {"cortex-m4": 12_080_000, "cortex-m7": 12_080_000, "cortex-m55": 2_320_000},
        1_650_000,
        32_500,
        {"cortex-m4": _M4},
    ),
    _CIFAR10: Int8(
        {"cortex-m4": 1_035_000_000, "cortex-m7": 1_035_000_000, "cortex-m55": 116_000_000}, 13_000_000, 281_000
    ),
}


def int8_of(program: Program) -> Int8 | None:
    """Return the figures of the int8 network with the program's shapes, or None if there are none."""
    return _KNOWN.get(tuple(_shape(op) for op in program.ops if isinstance(op, WeightedOp)))


def _shape(op: WeightedOp) -> tuple[int, ...]:
    """Return an op's shapes: those of input, kernel, outputs and pooled map; for scores the inputs and outputs."""
    if isinstance(op, Conv):
        return (*op.x.shape, *op.window.kernel, op.y.shape[2], *op.y.shape[:2])
    return op.fan_in, op.y.shape[2]
