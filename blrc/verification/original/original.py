"""Say what a comparison asks of an original network, whether it is an ONNX file or a module of torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from blrc.net.net import Net
from blrc.net.pieces import Stage


@dataclass(frozen=True)
class Tensor:
    """Name a value that the original computes.

    Attributes:
        name: what the original calls it.
        layer: the layer of the net whose output it is.
        shape: of one sample, as torch lays it out.
    """

    name: str
    layer: str
    shape: tuple[int, ...]


class Part(Protocol):
    """Run a part of the original."""

    def run(self, maps: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the outputs by name, for samples of the tensor that is fed; all are ``(N, *shape)``."""


class Original(Protocol):
    """Give the original network's values."""

    @property
    def name(self) -> str:
        """Return how reports call it."""

    @property
    def sha256(self) -> str | None:
        """Return the digest of its file, or None of a module."""

    @property
    def unit(self) -> float:
        """Return the relative error of one of its operations."""

    @property
    def net(self) -> Net:
        """Return the net that it is read as."""

    @property
    def source(self) -> Tensor:
        """Return the tensor that is fed."""

    @property
    def ends(self) -> tuple[Tensor, ...]:
        """Return the scores of the classes, of each head in order."""

    def bits(self, stage: Stage) -> Tensor:
        """Return what a stage's sign gives."""

    def sums(self, stage: Stage) -> Tensor:
        """Return what a stage's linear layer gives, perhaps with the scales and the bias behind it."""

    def pooled(self, layer: str) -> Tensor:
        """Return what a pool of bits gives."""

    def is_plus(self, tensor: Tensor, values: NDArray[Any]) -> NDArray[Any]:
        """Return which values of a tensor of bits are +1."""

    def fed(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Return what the original is given for raw samples ``(N, *encoding.shape)``.

        Of pixels that are rounded to codes this is what the codes stand for, so that the layers behind can be compared.
        """

    def seen(self, raw: NDArray[Any]) -> NDArray[Any] | None:
        """Return the original's own values of pixels that `fed` rounds to codes, or None if it rounds none."""

    def part(self, source: Tensor, outputs: Sequence[Tensor]) -> Part:
        """Return the part from one tensor to others."""
