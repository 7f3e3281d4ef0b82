"""Define linear maps with random discrete weights, and the real-valued softmax layer (paper, sections 4.1 and 4.2).

By the central limit theorem a sum of many independent terms B_i a_i is close to a Gaussian with

    mean = f(E[B], a),    variance = f(V[B], a^2),

where f is the linear map. If all inputs are +-1, then a^2 = 1 and all samples of a batch have the same variance. It is
then computed once, with a first dimension of 1, and has no gradient with respect to the input.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from blrc.nn.gaussian import Gaussian, expect_tensor
from blrc.nn.layers.geometry import ConvLayer, DenseLayer, Device, all_signs
from blrc.nn.weights.bernoulli import Bernoulli
from blrc.nn.weights.distribution import WeightDistribution
from blrc.nn.weights.table import new_distribution


class BinaryLinear(DenseLayer):
    """Apply a dense layer with discrete weights, from a tensor ``(N, in)`` to a `Gaussian` of ``(N, out)``.

    Weights are in {-1, +1} or {-1, 0, +1}. The result has ``mean = a E[B]^T + bias`` and ``var = a^2 V[B]^T`` (paper,
    section 4.2, the equation of the pre-activation).

    Args:
        in_features, out_features, bias: as in `torch.nn.Linear`. A bias is useless before a norm.
        weight: ``binary`` (`blrc.nn.Bernoulli`) or ``ternary`` (`blrc.nn.Ternary`).

    Attributes:
        weight: a `WeightDistribution` of shape ``(out, in)``.
        bias: real parameter ``(out,)`` or None.

    Raises:
        BlrcError: a number of features is no positive whole number, there are no weights of that name, or the input
            is no tensor ``(N, in)``.

    Example:
        >>> layer = BinaryLinear(784, 10)
        >>> mean, var = layer(torch.randn(5, 784))
        >>> mean.shape, var.shape
        (torch.Size([5, 10]), torch.Size([5, 10]))
    """

    weight: WeightDistribution

    def new_weight(self, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None) -> WeightDistribution:
        return Bernoulli(shape, device=device, dtype=dtype)

    def named_weight(
        self, name: str, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None
    ) -> WeightDistribution:
        return new_distribution(type(self).__name__, name, shape, device, dtype)

    def forward(self, x: Tensor) -> Gaussian:
        x = self.expect(x)
        expected, variance = self.weight.moments()
        signs = all_signs(x)
        mean = self.multiply(x, expected, signs)
        if signs:
            return Gaussian(mean, variance.sum(1)[None])
        return Gaussian(mean, F.linear(x * x, variance))


class _BinaryConv(ConvLayer):
    """Implement what convolutions with random weights share, whatever their dimensions."""

    weight: WeightDistribution

    def new_weight(self, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None) -> WeightDistribution:
        return Bernoulli(shape, device=device, dtype=dtype)

    def named_weight(
        self, name: str, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None
    ) -> WeightDistribution:
        return new_distribution(type(self).__name__, name, shape, device, dtype)

    def forward(self, x: Tensor) -> Gaussian:
        x = self.expect(x)
        expected, variance = self.weight.moments()
        signs = all_signs(x)
        mean = self.convolve(x, expected, self.bias, signs)
        squares = torch.ones_like(x[:1]) if signs else x * x
        return Gaussian(mean, self.convolve(squares, variance, None))


class BinaryConv1d(_BinaryConv):
    """Apply a convolution over time with discrete weights, from ``(N, C, L)`` to a `Gaussian` of ``(N, C', L')``.

    Formulas, arguments and errors are those of `BinaryConv2d`, with the options of `torch.nn.Conv1d`.

    Example:
        >>> mean, var = BinaryConv1d(6, 32, 5, padding="same")(torch.randn(4, 6, 100))
        >>> mean.shape, var.shape
        (torch.Size([4, 32, 100]), torch.Size([4, 32, 100]))
    """

    dims = 1


class BinaryConv2d(_BinaryConv):
    """Apply a convolution with discrete weights, from ``(N, C, H, W)`` to a `Gaussian` of ``(N, C', H', W')``.

    Weights are in {-1, +1} or {-1, 0, +1}. The result has ``mean = conv(a, E[B]) + bias`` and
    ``var = conv(a^2, V[B])``. Zero padding adds nothing to either, so units at the border have a smaller variance
    (paper, section 4.2).

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias: as in `torch.nn.Conv2d`. The
            padding may also be four numbers: top, left, bottom, right.
        weight: ``binary`` (`blrc.nn.Bernoulli`) or ``ternary`` (`blrc.nn.Ternary`).

    Attributes:
        weight: a `WeightDistribution` of shape ``(C', C / groups, kH, kW)``.
        bias: real parameter ``(C',)`` or None.
        kernel_size, stride, dilation: pairs of whole numbers.
        padding: a pair of whole numbers, or four where opposite sides differ, ``'same'`` or ``'valid'``.

    Raises:
        BlrcError: an option is no whole number (or pair of them) in its range, the groups do not divide the channels,
            'same' padding is combined with a stride, there are no weights of that name, or the input has another
            shape.

    Example:
        >>> layer = BinaryConv2d(1, 32, 3, padding="same")
        >>> mean, var = layer(torch.randn(5, 1, 28, 28))
        >>> mean.shape, var.shape
        (torch.Size([5, 32, 28, 28]), torch.Size([5, 32, 28, 28]))
        >>> layer(torch.ones(5, 1, 28, 28)).var.shape  # +-1 input: one map for all samples
        torch.Size([1, 32, 28, 28])
    """


class SoftmaxLinear(nn.Linear):
    """Compute the logits ``(N, classes)`` of the last layer from inputs ``(N, in)``, with real weights.

    The inputs are +-1, or the values of levels. The layer computes what `torch.nn.Linear` computes. It is a class of
    its own because the compiler must know which dense layer gives the scores (paper, section 5.1, "SM10").

    Example:
        >>> SoftmaxLinear(512, 10)(torch.ones(5, 512)).shape
        torch.Size([5, 10])
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(expect_tensor(x, "SoftmaxLinear"))
