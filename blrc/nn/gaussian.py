"""Define the value that stochastic layers pass on: independent Gaussians, one per unit."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from torch import Tensor

from blrc.errors import BlrcError


class Gaussian(NamedTuple):
    """Hold the mean and the variance of a map of independent normal variables.

    It is a tuple, so that layers which take and return it can be composed in `torch.nn.Sequential`.

    Attributes:
        mean: ``(N, C)`` or ``(N, C, H, W)``.
        var: non-negative, of a shape that broadcasts to the mean's. With +-1 inputs the variance is the same for all
            samples of a batch, and the layers then give it a first dimension of 1.
    """

    mean: Tensor
    var: Tensor

    def __repr__(self) -> str:
        return f"Gaussian(mean={tuple(self.mean.shape)}, var={tuple(self.var.shape)}, {self.mean.dtype})"

    def __add__(self, other: object) -> NoReturn:
        raise TypeError(
            "a Gaussian (mean and variance) takes no +, which would only join two tuples; a sum of independent "
            "variables is Gaussian(a.mean + b.mean, a.var + b.var)"
        )

    def __radd__(self, other: object) -> NoReturn:
        self.__add__(other)

    def __mul__(self, other: object) -> NoReturn:
        raise TypeError(
            "a Gaussian (mean and variance) takes no *, which would only repeat a tuple; c times a variable is "
            "Gaussian(c * a.mean, c**2 * a.var)"
        )

    def __rmul__(self, other: object) -> NoReturn:
        self.__mul__(other)


def expect_gaussian(x: object, layer: str) -> Gaussian:
    """Return `x`, or raise a `BlrcError` that says what is missing before `layer` if it is no `Gaussian`."""
    if not isinstance(x, Gaussian):
        raise BlrcError(f"{layer} takes a Gaussian (mean and variance), got {type(x).__name__}: put a BinaryLinear or "
                        "BinaryConv2d before it")  # fmt: skip
    return x


def expect_tensor(x: object, layer: str) -> Tensor:
    """Return `x`, or raise a `BlrcError` if it is no tensor, which says what is missing before `layer`."""
    if isinstance(x, Gaussian):
        raise BlrcError(f"{layer} takes a tensor, got a Gaussian: put a StochasticSign before it, or a GaussianSample")
    if not isinstance(x, Tensor):
        raise BlrcError(f"{layer} takes a tensor, got {type(x).__name__}")
    return x
