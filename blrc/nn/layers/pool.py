"""Apply max pooling to random variables (paper, section 4.2)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from blrc.errors import BlrcError
from blrc.net.window import of_line, padding_option, pool_window
from blrc.nn.gaussian import Gaussian, expect_gaussian
from blrc.nn.layers.geometry import Pair, Sides, last, padded
from blrc.nn.noise import Noise, Noisy


class _StochasticMaxPool(Noisy):
    """Implement what pools of random variables share, whatever their dimensions."""

    dims: ClassVar[int] = 2

    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair | Sides = 0) -> None:
        super().__init__()
        window = pool_window(type(self).__name__, **self._over_maps(kernel_size, stride, padding))
        self.kernel_size, self.stride = last(window.kernel, self.dims), last(window.stride, self.dims)
        self.padding = padding_option(window.padding, self.dims)
        self.noise = Noise(torch.Tensor.normal_)

    def forward(self, x: Gaussian) -> Gaussian:
        name = type(self).__name__
        mean, var = expect_gaussian(x, name)
        if mean.ndim != 2 + self.dims:
            sizes = "L" if self.dims == 1 else "H, W"
            raise BlrcError(f"{name} takes maps (N, C, {sizes}), got {tuple(mean.shape)}")
        if self.dims == 1:
            mean, var = self._pool(mean[:, :, None], var[:, :, None])
            return Gaussian(mean[:, :, 0], var[:, :, 0])
        return self._pool(mean, var)

    def _over_maps(self, kernel_size: Any, stride: Any, padding: Any) -> dict[str, Any]:
        """Return the options as those of a pool over maps."""
        options = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
        return of_line(options) if self.dims == 1 else options

    def _pool(self, mean: Tensor, var: Tensor) -> Gaussian:
        options = self._over_maps(self.kernel_size, self.stride, self.padding)
        with torch.no_grad():
            samples = torch.addcmul(mean, self.noise.like(mean), var.sqrt())
            framed, padding = padded(samples, options["padding"], 2, -math.inf)
            index = F.max_pool2d(framed, **{**options, "padding": padding}, return_indices=True)[1]
            if framed is not samples:  # back to positions in the map
                top, left = options["padding"][:2]
                row, column = index // framed.shape[3], index % framed.shape[3]
                index = (row - top) * samples.shape[3] + column - left
        if var.shape == (1, *mean.shape[1:]):
            return Gaussian(_take(mean, index), _take_shared(var, index))
        return Gaussian(_take(mean, index), _take(var.expand_as(mean), index))

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class StochasticMaxPool1d(_StochasticMaxPool):
    """Keep the Gaussian of each window over time whose sample is largest: ``(N, C, L)`` to ``(N, C, L')``.

    Arguments and errors are those of `StochasticMaxPool2d`, with the options of `torch.nn.MaxPool1d`.

    Example:
        >>> from blrc.nn.gaussian import Gaussian
        >>> StochasticMaxPool1d(2)(Gaussian(torch.arange(6.0).reshape(1, 1, 6), torch.zeros(1, 1, 6))).mean
        tensor([[[1., 3., 5.]]])
    """

    dims = 1


class StochasticMaxPool2d(_StochasticMaxPool):
    """Keep the Gaussian of each window whose sample is largest: ``(N, C, H, W)`` to ``(N, C, H', W')``.

    The layer draws ``s = mean + sqrt(var) n``, n ~ N(0, 1), at every position and returns the (mean, var) at the
    largest s of each window. So each position is chosen with the probability that its variable is the largest. The
    choice itself has no gradient. Noise comes from torch's default generator, in training and in evaluation.

    Args:
        kernel_size, stride, padding: as in `torch.nn.MaxPool2d`. The stride defaults to the kernel's size. The padding
            may also be four numbers (top, left, bottom, right). It is never chosen.

    Raises:
        BlrcError: an option is no whole number (or pair of them) in its range, the padding is more than half of the
            kernel (of four: not less than the kernel), or the input is no Gaussian over maps.

    Source: paper, section 4.2 ("stochastic max pooling").

    Example:
        >>> from blrc.nn.gaussian import Gaussian
        >>> pool = StochasticMaxPool2d(2)
        >>> mean, var = pool(Gaussian(torch.arange(16.0).reshape(1, 1, 4, 4), torch.zeros(1, 1, 4, 4)))
        >>> mean
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
    """


class MaxPool1d(nn.MaxPool1d):
    """Apply `torch.nn.MaxPool1d`, with a padding that may also be two numbers, before and behind.

    Example:
        >>> MaxPool1d(2, padding=(0, 1))(torch.arange(3.0)[None])
        tensor([[1., 2.]])
    """

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__(kernel_size, stride, padding)
        pool_window("MaxPool1d", **of_line({"kernel_size": kernel_size, "stride": stride, "padding": padding}))

    def forward(self, x: Tensor) -> Tensor:
        x, padding = padded(x, self.padding, 1, -math.inf)
        return F.max_pool1d(x, self.kernel_size, self.stride, padding)


class MaxPool2d(nn.MaxPool2d):
    """Apply `torch.nn.MaxPool2d`, with a padding that may also be four numbers: top, left, bottom, right.

    Example:
        >>> MaxPool2d(2, padding=(0, 0, 1, 1))(torch.arange(9.0).reshape(1, 1, 3, 3))
        tensor([[[[4., 5.],
                  [7., 8.]]]])
    """

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__(kernel_size, stride, padding)
        pool_window("MaxPool2d", kernel_size, stride, padding)

    def forward(self, x: Tensor) -> Tensor:
        x, padding = padded(x, self.padding, 2, -math.inf)
        return F.max_pool2d(x, self.kernel_size, self.stride, padding)


def _take(x: Tensor, index: Tensor) -> Tensor:
    """Return the values of each (N, C) plane at flat positions `index`.

    The result, and therefore the gradient, has the memory layout of `x`.
    """
    if x.is_contiguous(memory_format=torch.channels_last):
        rows = x.permute(0, 2, 3, 1).flatten(1, 2)
        at = index.permute(0, 2, 3, 1)
        return rows.gather(1, at.flatten(1, 2)).view(at.shape).permute(0, 3, 1, 2)
    return x.flatten(2).gather(2, index.flatten(2)).view(index.shape)


def _take_shared(x: Tensor, index: Tensor) -> Tensor:
    """Do the same as `_take` for a map ``(1, C, H, W)`` that all samples share, without copying it.

    The result has channels-last layout.
    """
    rows = x[0].permute(1, 2, 0).flatten(0, 1)
    at = index.permute(0, 2, 3, 1)
    return rows.gather(0, at.reshape(-1, at.shape[3])).view(at.shape).permute(0, 3, 1, 2)
