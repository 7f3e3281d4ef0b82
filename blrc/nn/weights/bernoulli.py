"""Define the distribution of binary weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from blrc.nn.weights.distribution import CERTAIN, P_MIN, WeightDistribution, chunks, entropy_of, scale_of, uniform


class Bernoulli(WeightDistribution):
    """Describe weights in {-1, +1} with p(B = -1) = sigmoid(W), where W is the parameter `logits` (paper, section 4.1).

    The moments are ``E[B] = 1 - 2 sigmoid(W) = -tanh(W / 2)`` and ``V[B] = 4 sigmoid(W) sigmoid(-W)``. The variance is
    not computed as 1 - E^2, which cancels to 0 from |W| = 20. The MAP value is +1 where W <= 0 (so +1 on a tie).

    A new distribution is initialised as if transferred from standard normal weights: E[B] ~ N(0, 1), clipped as in
    `transfer_`.

    Args:
        shape: shape of the weight tensor.

    Attributes:
        logits: the parameter W, of shape `shape`.

    Example:
        >>> weight = Bernoulli((2, 3))
        >>> _ = weight.logits.data.fill_(0.0)
        >>> weight.mean().abs().max().item(), weight.variance().min().item(), weight.map().min().item()
        (0.0, 1.0, 1.0)
    """

    name = "binary"
    support = (-1, 1)

    def __init__(
        self, shape: Sequence[int], device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.empty(tuple(shape), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new logits."""
        if self.logits.is_meta:
            return  # There is nothing to fill, and torch would load its compiler for it (2 s, at every checkpoint).
        with torch.no_grad():
            self.logits.copy_(_logits_of_mean(torch.randn_like(self.logits)))

    @property
    def shape(self) -> torch.Size:
        return self.logits.shape

    def mean(self) -> Tensor:
        return -torch.tanh(0.5 * self.logits)

    def variance(self) -> Tensor:
        return 4.0 * torch.sigmoid(self.logits) * torch.sigmoid(-self.logits)

    def both(self) -> tuple[Tensor, Tensor]:
        mean, variance = _Moments.apply(self.logits)  # type: ignore[no-untyped-call]
        return mean, variance

    def total_variance(self) -> Tensor:
        known = self._shared or _Moments.apply(self.logits.detach())  # type: ignore[no-untyped-call]
        total: Tensor = _TotalVariance.apply(self.logits, *known)  # type: ignore[no-untyped-call]
        return total

    @torch.no_grad()
    def map(self) -> Tensor:
        one = torch.ones((), dtype=self.logits.dtype, device=self.logits.device)
        return torch.where(self.logits <= 0, one, -one)

    @torch.no_grad()
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        u = uniform(self.shape, self.logits, generator)
        one = torch.ones((), dtype=self.logits.dtype, device=self.logits.device)
        return torch.where(u < torch.sigmoid(self.logits.double()), -one, one)

    def entropy(self) -> Tensor:
        return entropy_of(self.logits)

    @torch.no_grad()
    def transfer_(self, weight: Tensor) -> float:
        """Set ``E[B] = w / std(w)`` with p clipped to [0.05, 0.95] (paper, section 4.4), and return ``1 / std(w)``.

        Raises:
            BlrcError: the shape differs, or the weights are all equal or not finite.
        """
        scale = scale_of(weight, self.shape)
        self.logits.copy_(_logits_of_mean(weight.to(self.logits) * scale))
        return scale

    @torch.no_grad()
    def scatter_(self, reach: float) -> None:
        self.logits.uniform_(-reach, reach)

    @torch.no_grad()
    def settle_(self) -> None:
        self.logits.copy_(torch.where(self.logits <= 0, -CERTAIN, CERTAIN))


class _Moments(torch.autograd.Function):
    """Compute E and V of logits, and dE/dW = -V / 2 and dV/dW = V E in closed form.

    This takes a fifth of autograd's memory traffic.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = torch.empty_like(logits), torch.empty_like(logits)
        for w, e, v in chunks(logits, mean, variance):
            _moments_into(w, e, v)
        ctx.save_for_backward(mean, variance)
        return mean, variance

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> Tensor:
        mean, variance = ctx.saved_tensors
        grad = torch.empty_like(mean)
        for g, e, v, ge, gv in chunks(grad, mean, variance, grad_mean, grad_variance):
            torch.mul(e, gv, out=g).sub_(ge, alpha=0.5).mul_(v)
        return grad


class _TotalVariance(torch.autograd.Function):
    """Compute the sum of V, given E and V, with the gradient dV/dW = V E in closed form."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        ctx.save_for_backward(mean, variance)
        return variance.sum()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        mean, variance = ctx.saved_tensors
        return (mean * variance).mul_(grad), None, None


def _moments_into(w: Tensor, e: Tensor, v: Tensor) -> None:
    minus, plus = torch.sigmoid(w), torch.sigmoid(-w)
    torch.sub(plus, minus, out=e)
    torch.mul(plus, minus, out=v).mul_(4.0)


def _logits_of_mean(mean: Tensor) -> Tensor:
    p = (0.5 * (1.0 - mean)).clamp(P_MIN, 1.0 - P_MIN)
    return torch.logit(p)
