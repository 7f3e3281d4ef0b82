"""Define the op that packs a map's bits without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from numpy.typing import NDArray

from blrc.net.bits import words
from blrc.program.ops.op import BaseOp, Context, Shape, Table, Value


def saves_words(shape: Shape) -> bool:
    """Return whether the bits of a map take fewer words without gaps; then a binary dense layer reads them so."""
    height, width, channels = shape
    return words(prod(shape)) < height * width * words(channels)


@dataclass(frozen=True)
class Flatten(BaseOp):
    """Make one vector of a map of bits, in the order H, W, C.

    A map holds each pixel in whole words, and a vector has no gaps. So a dense layer behind it takes fewer words.
    """

    kind = "flatten"
    title = "flatten"
    format = 3

    def tables(self) -> tuple[Table, ...]:
        return ()

    def check(self) -> None:
        self.require(self.x.dtype == "bits" and self.y.dtype == "bits", "flatten takes and gives bits")
        self.require(self.y.shape == (1, 1, prod(self.x.shape)), "flatten must make one vector of its map")

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        return x.reshape(len(x), *self.y.shape)

    def resized(self, x: Value, outputs: int) -> Flatten:
        return Flatten(self.name, x, Value(self.y.name, "bits", (1, 1, prod(x.shape))))
