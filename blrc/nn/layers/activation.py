"""Compute stochastic binary activations (paper, section 4.3), and decide variables by several thresholds."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from blrc.errors import BlrcError
from blrc.nn.gaussian import Gaussian, expect_gaussian
from blrc.nn.noise import Noise, Noisy

VAR_FLOOR = 1e-6  # added to every variance: var = 0 would give 0/0, and gamma -> 0 makes mean / std blow up
UNIFORM_MARGIN = 1e-6  # float32 uniform noise can be exactly 0, whose logit is -inf
TWICE_PHI_0 = math.sqrt(2.0 / math.pi)  # 2 phi(0)
Z_MAX = 1e4  # z^3 overflows float32 near 1e13; both tanh and its slope are saturated long before this


def logit_phi(z: Tensor) -> tuple[Tensor, Tensor]:
    """Approximate ``logit(Phi(z))`` and its slope by the cubic ``z (1.5976 + 0.070566 z^2)``.

    The error in Phi is at most 1.4e-4.
    """
    square = z * z
    return z * (1.5976 + 0.070566 * square), 1.5976 + 0.211698 * square


def logit_phi_exact(z: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``logit(Phi(z)) = log Phi(z) - log Phi(-z)`` and its slope ``phi(z) / (Phi(z) Phi(-z))``.

    A literal logit(Phi(z)) would be infinite from z = 5.5 in float32. The slope is the sum of phi(z)/Phi(z) and
    phi(z)/Phi(-z), each written with erfcx, which neither overflows nor underflows where it matters.
    """
    value = torch.special.log_ndtr(z) - torch.special.log_ndtr(-z)
    x = z * math.sqrt(0.5)
    slope = math.sqrt(2.0 / math.pi) * (1.0 / torch.special.erfcx(x) + 1.0 / torch.special.erfcx(-x))
    return value, slope


def probability_minus(x: Gaussian) -> Tensor:
    """Return ``q = p(a = -1) = Phi(0 | mean, var)`` exactly, with the same floor on the variance as in the layer."""
    q: Tensor = torch.special.ndtr(-x.mean * (x.var + VAR_FLOOR).rsqrt())
    return q


def logistic_(flat: Tensor) -> Tensor:
    """Fill a tensor with logistic noise: logit(u) for u uniform in [1e-6, 1 - 1e-6]."""
    return flat.uniform_().clamp_(UNIFORM_MARGIN, 1.0 - UNIFORM_MARGIN).logit_()


class StochasticSign(Noisy):
    """Binarise a `Gaussian` and sample a tensor of the same shape, of +-1 (hard) or of values in (-1, 1).

    With ``q = p(a = -1) = Phi(0 | mean, var)`` and u uniform, the concrete sample is

        y = tanh((logit(1 - q) + logit(u)) / (2 tau)),        logit(1 - q) = logit(Phi(mean / std)).

    ``hard`` returns sign(y) in the forward step (+1 on a tie), so that p(-1) = q for every tau, and the gradient of y
    in the backward step. The layer samples both in training and in evaluation, with noise from torch's default
    generator.

    Args:
        tau: temperature of the concrete distribution (1 in the paper).
        hard: return +-1.
        exact: compute logit(Phi) exactly instead of by a cubic (slower; the error of the cubic in q is 1.4e-4).

    Raises:
        BlrcError: tau is not positive, or the input is no Gaussian.

    Source: paper, section 4.3 (q, binary concrete). Hard samples are those of the paper's later version.

    Example:
        >>> from blrc.nn.gaussian import Gaussian
        >>> sign = StochasticSign()
        >>> sign(Gaussian(torch.full((2, 3), 9.0), torch.ones(2, 3)))
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """

    def __init__(self, tau: float = 1.0, hard: bool = True, exact: bool = False) -> None:
        super().__init__()
        if not (math.isfinite(tau) and tau > 0):
            raise BlrcError(f"StochasticSign: tau {tau} must be positive")
        self.tau, self.hard, self.exact = tau, hard, exact
        self.noise = Noise(logistic_)

    def forward(self, x: Gaussian) -> Tensor:
        x = expect_gaussian(x, "StochasticSign")
        noise = self.noise.like(x.mean)
        sample: Tensor = Decided.apply(x.mean, x.var, noise, (0.0,), self.tau, self.hard, self.exact)  # type: ignore[no-untyped-call]
        return sample

    def extra_repr(self) -> str:
        return f"tau={self.tau}, hard={self.hard}, exact={self.exact}"


class Decided(torch.autograd.Function):
    """Sample, for each of several thresholds, +1 where the variable reaches it, else -1, and return the sum.

    All thresholds of a variable meet the same noise, so that what reaches one reaches all below it. The probability of
    reaching ``theta`` is Phi(z), z = (mean - theta) / std. The gradient is finite for any input. With a temperature
    `tau` the noise is logistic and the gradient that of the concrete sample, in closed form. Without one (None) the
    noise is normal and the gradient is that of the expectation, ``2 phi(z) / std``, summed over the thresholds.
    """

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, var: Tensor, noise: Tensor, at: tuple[float, ...], tau: float | None, hard: bool,
        exact: bool,
    ) -> Tensor:  # fmt: skip
        rstd = (var + VAR_FLOOR).rsqrt()
        one = torch.ones((), dtype=mean.dtype, device=mean.device)
        needed = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        ctx.var_shape, ctx.single = var.shape, len(at) == 1
        total = slopes = leans = None
        for theta in at:
            z = ((mean - theta if theta else mean) * rstd).clamp_(-Z_MAX, Z_MAX)
            if tau is None:
                argument = z + noise
                size = one
                dmean = (z * z).mul_(-0.5).exp_().mul_(rstd * TWICE_PHI_0) if needed else None
            else:
                logit, slope = (logit_phi_exact if exact else logit_phi)(z)
                argument = logit.add_(noise)
                # y = tanh(x / 2) and (1 - y^2) / 4 = s (1 - s), s = sigmoid(-|x|): a sixth of tanh's time, never 0.
                s = torch.copysign(argument, -one).mul_(1.0 / tau).sigmoid_()
                dmean = torch.ops.aten.sigmoid_backward(slope, s).mul_(rstd * (2.0 / tau)) if needed else None
                size = one if hard else s.mul_(-2.0).add_(1.0)
            # The argument is a sum, which is never -0: a tie gives +1.
            decided = torch.copysign(size, argument)
            total = decided if total is None else total.add_(decided)
            if dmean is not None:
                lean = z if ctx.single else dmean * z
                slopes = dmean if slopes is None else slopes.add_(dmean)
                leans = lean if leans is None else leans.add_(lean)
        if slopes is not None:
            ctx.save_for_backward(slopes, leans, rstd)
        assert total is not None, "at least one threshold"
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes, leans, rstd = ctx.saved_tensors
        grad_mean = grad * slopes
        grad_var = None
        if ctx.needs_input_grad[1]:  # dz/dvar = -z / (2 (var + floor))
            factor = grad_mean if ctx.single else grad
            grad_var = (factor * leans).mul_(rstd).mul_(-0.5).sum_to_size(ctx.var_shape)
        return grad_mean, grad_var, *(None,) * 5
