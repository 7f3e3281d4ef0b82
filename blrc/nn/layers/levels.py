"""Define activations of a few bits: codes that count thresholds, and the sampling of real activations before them.

With a positive step s and k bits, the threshold t = 1 .. 2^k - 1 lies at s (t - 1/2). The code c of an activation is
the number of thresholds that it reaches, and its value is s c. Code 0 has value 0, as padding has.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from blrc.net.choices import level_bits, level_ends, level_step
from blrc.nn.gaussian import Gaussian, expect_gaussian, expect_tensor
from blrc.nn.layers.activation import VAR_FLOOR, Decided
from blrc.nn.noise import Noise, Noisy


class _Levels(nn.Module):
    """Hold the options of levels; the step is a buffer, so that a state_dict has it."""

    bits: int
    step: Tensor

    def _set(self, bits: int, step: float) -> None:
        name = type(self).__name__
        self.bits = level_bits(name, bits)
        self.register_buffer("step", torch.tensor(level_step(name, step)))

    @property
    def top(self) -> int:
        """Return the largest code, which is the number of thresholds."""
        return int(2**self.bits - 1)

    def extra_repr(self) -> str:
        return f"bits={self.bits}, step={float(self.step):g}"


class SteLevels(_Levels):
    """Round activations to codes of `bits` bits and return their values: a tensor of any shape to one of its shape.

        c = min(max(floor(a / s + 1/2), 0), 2^k - 1),    h = s c

    A ReLU before it changes nothing. The gradient passes unchanged where 0 < a < s (2^k - 1) and is 0 elsewhere. A tie
    goes up, unlike in `torch.round`.

    Args:
        bits: k, from 1 to 8.
        step: s, a buffer of type float32 that is given and not trained, since the norm behind the next linear map
            divides it out and a last layer's weights take it up.

    Raises:
        BlrcError: an option is out of range, or the input is no tensor.

    Source: LR-net, paper, section 2.1, with activations of k bits.

    Example:
        >>> SteLevels(bits=2, step=0.5)(torch.tensor([-1.0, 0.2, 0.25, 0.75, 9.0]))
        tensor([0.0000, 0.0000, 0.5000, 1.0000, 1.5000])
    """

    def __init__(self, bits: int, step: float = 1.0) -> None:
        super().__init__()
        self._set(bits, step)

    def forward(self, x: Tensor) -> Tensor:
        x = expect_tensor(x, "SteLevels")
        return _Rounded.apply(x, float(self.step), self.top)  # type: ignore[no-untyped-call, no-any-return]


class EvenLevels(nn.Module):
    """Round activations to whole numbers of steps, ties to even ones, as quantisers of other people do.

        h = s min(max(round(a / s), low), high)

    `torch.fake_quantize_per_tensor_affine`, QONNX's Quant and ONNX's QuantizeLinear compute this. The gradient passes
    unchanged where s low < a < s high and is 0 elsewhere.

    Args:
        low, high: the least and the largest number of steps, at most 255 apart, with 0 among them.
        step: s, as for `SteLevels`.

    Raises:
        BlrcError: an option is out of range, or the input is no tensor.

    Example:
        >>> EvenLevels(low=-1, high=3, step=0.5)(torch.tensor([-9.0, 0.2, 0.25, 0.75, 9.0]))
        tensor([-0.5000,  0.0000,  0.0000,  1.0000,  1.5000])
    """

    step: Tensor

    def __init__(self, low: int, high: int, step: float = 1.0) -> None:
        super().__init__()
        self.low, self.high = level_ends("EvenLevels", low, high)
        self.register_buffer("step", torch.tensor(level_step("EvenLevels", step)))

    def forward(self, x: Tensor) -> Tensor:
        x = expect_tensor(x, "EvenLevels")
        return _Even.apply(x, float(self.step), self.low, self.high)  # type: ignore[no-untyped-call, no-any-return]

    def extra_repr(self) -> str:
        return f"low={self.low}, high={self.high}, step={float(self.step):g}"


class StochasticLevels(_Levels, Noisy):
    """Sample codes of `bits` bits of a `Gaussian` and return their values, a tensor of the same shape.

    The code c of a variable a ~ N(mean, var) is the number of thresholds that a reaches:

        P(c >= t) = Phi((mean - theta_t) / std),    theta_t = s (t - 1/2),    h = s c

    Samples are hard. Their gradient is that of E[h], ``s sum_t phi((mean - theta_t) / std) / std`` with respect to the
    mean. The layer samples in training and in evaluation, with noise from torch's default generator. Time and memory
    grow with the number of thresholds; with many bits, `GaussianSample` and `SteLevels` are cheaper.

    Args:
        bits: k, from 1 to 8.
        step: s, as for `SteLevels`.

    Raises:
        BlrcError: an option is out of range, or the input is no Gaussian.

    Source: paper, section 4.3, for any discrete distribution; `StochasticSign` is the case of the one threshold 0,
    with values -1 and +1, and the gradient of the concrete distribution.

    Example:
        >>> from blrc.nn.gaussian import Gaussian
        >>> StochasticLevels(bits=2, step=1.0)(Gaussian(torch.tensor([-9.0, 2.1, 9.0]), torch.full((3,), 1e-4)))
        tensor([0., 2., 3.])
    """

    def __init__(self, bits: int, step: float = 1.0) -> None:
        super().__init__()
        self._set(bits, step)
        self.noise = Noise(torch.Tensor.normal_)

    def forward(self, x: Gaussian) -> Tensor:
        x = expect_gaussian(x, "StochasticLevels")
        step = float(self.step)
        at = tuple(step * (t - 0.5) for t in range(1, self.top + 1))
        signs: Tensor = Decided.apply(x.mean, x.var, self.noise.like(x.mean), at, None, True, False)  # type: ignore[no-untyped-call]
        return (signs + float(self.top)) * (0.5 * step)


class GaussianSample(Noisy):
    """Sample a `Gaussian`: ``a = mean + sqrt(var) n``, n ~ N(0, 1), a tensor of the same shape.

    Behind it torch's own norms, pools and `SteLevels` follow, as in a network of real activations. The layer samples
    in training and in evaluation. With fixed weights the variance is 0, and it returns the mean.

    Raises:
        BlrcError: the input is no Gaussian.

    Source: paper, section 2.1 (local reparameterisation; Shayer, Levi & Fetaya 2018).

    Example:
        >>> from blrc.nn.gaussian import Gaussian
        >>> GaussianSample()(Gaussian(torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2)))
        tensor([[1., 2.]])
    """

    def __init__(self) -> None:
        super().__init__()
        self.noise = Noise(torch.Tensor.normal_)

    def forward(self, x: Gaussian) -> Tensor:
        x = expect_gaussian(x, "GaussianSample")
        sample: Tensor = _Sampled.apply(x.mean, x.var, self.noise.like(x.mean))  # type: ignore[no-untyped-call]
        return sample


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, step: float, top: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.end = top * step
        return x.div(step).add_(0.5).floor_().clamp_(0, top).mul_(step)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return torch.ops.aten.hardtanh_backward(grad, x, 0.0, ctx.end), None, None


class _Even(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, step: float, low: int, high: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.ends = low * step, high * step
        return x.div(step).round_().clamp_(low, high).mul_(step)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        return torch.ops.aten.hardtanh_backward(grad, x, *ctx.ends), None, None, None


class _Sampled(torch.autograd.Function):
    """Compute the sample for given noise.

    The gradient with respect to a variance below `VAR_FLOOR`, which grows without bound, is that at the floor. Where
    the variance is 0, so are all inputs, and no gradient passes through it to them or to the weights.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, var: Tensor, noise: Tensor) -> Tensor:
        relative = noise * var.clamp_min(VAR_FLOOR).rsqrt_()  # to the variance
        ctx.var_shape = var.shape
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(relative)
        return torch.addcmul(mean, var, relative)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        if not ctx.needs_input_grad[1]:
            return grad, None, None
        (relative,) = ctx.saved_tensors
        return grad, (grad * relative).mul_(0.5).sum_to_size(ctx.var_shape), None
