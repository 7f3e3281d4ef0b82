"""Define the distribution of ternary weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from blrc.nn.weights.distribution import CERTAIN, P_MIN, WeightDistribution, chunks, entropy_of, scale_of, uniform


class Ternary(WeightDistribution):
    """Describe weights in {-1, 0, +1} by two choices: zero or not, and the sign of what is not zero.

    With the parameters C (`zero_logits`) and A (`sign_logits`), c = sigmoid(C) and a = sigmoid(A),

        P(0) = c,    P(+1) = (1 - c) a,    P(-1) = (1 - c)(1 - a).

    The moments are ``E[B] = (1 - c)(a - (1 - a))`` and ``V[B] = (1 - c)(c + 4 (1 - c) a (1 - a))``, where 1 - c and
    1 - a are computed as sigmoid(-C) and sigmoid(-A). The form (1 - c) - E^2 of the variance cancels.

    The MAP value is the likeliest of the three: 0 where ``C + log(1 + exp(-|A|)) >= 0`` (so 0 on a tie), else +1 where
    A >= 0 (so +1 on a tie), else -1.

    A new distribution is initialised as if transferred from standard normal weights.

    Args:
        shape: shape of the weight tensor.

    Attributes:
        zero_logits, sign_logits: the parameters C and A, both of shape `shape`.

    Example:
        >>> weight = Ternary((2, 3))
        >>> _ = weight.zero_logits.data.fill_(-math.log(2.0)), weight.sign_logits.data.fill_(0.0)  # 1/3 each
        >>> round(weight.mean().max().item(), 6), round(weight.variance().max().item(), 6)
        (0.0, 0.666667)

    Source: Shayer et al. (2018), "Learning discrete weights using the local reparameterization trick".
    """

    name = "ternary"
    support = (-1, 0, 1)

    def __init__(
        self, shape: Sequence[int], device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.zero_logits = nn.Parameter(torch.empty(tuple(shape), device=device, dtype=dtype))
        self.sign_logits = nn.Parameter(torch.empty(tuple(shape), device=device, dtype=dtype))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new logits."""
        if not self.zero_logits.is_meta:  # see `Bernoulli.reset_parameters`
            self._take(torch.randn_like(self.zero_logits))

    @property
    def shape(self) -> torch.Size:
        return self.zero_logits.shape

    def mean(self) -> Tensor:
        k, a, b = self._probabilities()
        return k * (a - b)

    def variance(self) -> Tensor:
        k, a, b = self._probabilities()
        return k * (torch.sigmoid(self.zero_logits) + 4.0 * k * (a * b))

    def both(self) -> tuple[Tensor, Tensor]:
        mean, variance = _Moments.apply(self.zero_logits, self.sign_logits)  # type: ignore[no-untyped-call]
        return mean, variance

    def total_variance(self) -> Tensor:
        logits = self.zero_logits, self.sign_logits
        known = self._shared or _Moments.apply(*(x.detach() for x in logits))  # type: ignore[no-untyped-call]
        total: Tensor = _TotalVariance.apply(*logits, known[1])  # type: ignore[no-untyped-call]
        return total

    @torch.no_grad()
    def map(self) -> Tensor:
        return self._values(self._is_zero(), self.sign_logits < 0)

    @torch.no_grad()
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw all weights once, from one uniform number for each: the lowest ones are -1, the highest +1."""
        u = uniform(self.shape, self.zero_logits, generator)
        zero, sign = self.zero_logits.double(), self.sign_logits.double()
        minus = u < torch.sigmoid(-zero) * torch.sigmoid(-sign)
        plus = 1.0 - u <= torch.sigmoid(-zero) * torch.sigmoid(sign)
        return self._values(~(minus | plus), minus)

    def entropy(self) -> Tensor:
        """Return ``H(c) + (1 - c) H(a)``, the entropy of the first choice and, where it is made, of the second."""
        return entropy_of(self.zero_logits) + torch.sigmoid(-self.zero_logits) * entropy_of(self.sign_logits)

    @torch.no_grad()
    def transfer_(self, weight: Tensor) -> float:
        """Set ``E[B] = w / std(w)`` as far as the probabilities allow, and return ``1 / std(w)``.

        With w' = w / std(w), clipped to [-1, 1], c = 0.95 - 0.9 |w'|, and a = (1 + w' / (1 - c)) / 2 is clipped to
        [0.05, 0.95].

        Raises:
            BlrcError: the shape differs, or the weights are all equal or not finite.
        """
        scale = scale_of(weight, self.shape)
        self._take(weight.to(self.zero_logits) * scale)
        return scale

    @torch.no_grad()
    def scatter_(self, reach: float) -> None:
        self.zero_logits.uniform_(-reach, reach).sub_(math.log(2.0))
        self.sign_logits.uniform_(-reach, reach)

    @torch.no_grad()
    def settle_(self) -> None:
        zero = self._is_zero()
        self.zero_logits.copy_(torch.where(zero, CERTAIN, -CERTAIN))
        self.sign_logits.copy_(torch.where(self.sign_logits < 0, -CERTAIN, CERTAIN))

    def _probabilities(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return 1 - c, a and 1 - a."""
        return torch.sigmoid(-self.zero_logits), torch.sigmoid(self.sign_logits), torch.sigmoid(-self.sign_logits)

    def _is_zero(self) -> Tensor:
        """Return whether 0 is the likeliest value: c >= (1 - c) max(a, 1 - a), by the difference of logarithms."""
        return self.zero_logits.double() + F.softplus(-self.sign_logits.double().abs()) >= 0

    def _values(self, zero: Tensor, minus: Tensor) -> Tensor:
        one = torch.ones((), dtype=self.zero_logits.dtype, device=self.zero_logits.device)
        return torch.where(zero, 0.0 * one, torch.where(minus, -one, one))

    def _take(self, mean: Tensor) -> None:
        """Set the distribution from wanted means, of which `transfer_` tells what becomes."""
        mean = mean.clamp(-1.0, 1.0)
        zero = (1.0 - P_MIN) - (1.0 - 2.0 * P_MIN) * mean.abs()
        sign = (0.5 * (1.0 + mean / (1.0 - zero))).clamp(P_MIN, 1.0 - P_MIN)
        self.zero_logits.copy_(torch.logit(zero))
        self.sign_logits.copy_(torch.logit(sign))


class _Moments(torch.autograd.Function):
    """Compute E and V of both logits, and their gradients in closed form (k = 1 - c, b = 1 - a):

    dE/dC = -c E,    dE/dA = 2 k a b,    dV/dC = c k (k - c - 8 k a b),    dV/dA = -4 k^2 a b (a - b)
    """

    @staticmethod
    def forward(ctx: Any, zero: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = torch.empty_like(zero), torch.empty_like(zero)
        for z, s, e, v in chunks(zero, sign, mean, variance):
            k, a, b = torch.sigmoid(-z), torch.sigmoid(s), torch.sigmoid(-s)
            torch.sub(a, b, out=e).mul_(k)
            torch.mul(a, b, out=v).mul_(k).mul_(4.0).add_(torch.sigmoid(z)).mul_(k)
        ctx.save_for_backward(zero, sign)
        return mean, variance

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor, Tensor]:
        zero, sign = ctx.saved_tensors
        by_zero, by_sign = torch.empty_like(zero), torch.empty_like(sign)
        for z, s, gz, gs, ge, gv in chunks(zero, sign, by_zero, by_sign, grad_mean, grad_variance):
            _variance_gradients(z, s, gv, gz, gs)
            c, k, a, b = torch.sigmoid(z), torch.sigmoid(-z), torch.sigmoid(s), torch.sigmoid(-s)
            gz.sub_(c.mul_(k).mul_(a - b).mul_(ge))
            gs.add_(k.mul_(a).mul_(b).mul_(ge), alpha=2.0)
        return by_zero, by_sign


class _TotalVariance(torch.autograd.Function):
    """Compute the sum of V, given V, with the gradients of `_Moments`."""

    @staticmethod
    def forward(ctx: Any, zero: Tensor, sign: Tensor, variance: Tensor) -> Tensor:
        ctx.save_for_backward(zero, sign)
        return variance.sum()

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        zero, sign = ctx.saved_tensors
        by_zero, by_sign = torch.empty_like(zero), torch.empty_like(sign)
        for z, s, gz, gs in chunks(zero, sign, by_zero, by_sign):
            _variance_gradients(z, s, grad, gz, gs)
        return by_zero, by_sign, None


def _variance_gradients(z: Tensor, s: Tensor, grad: Tensor, by_zero: Tensor, by_sign: Tensor) -> None:
    """Write dV/dC and dV/dA, each multiplied by `grad`, into `by_zero` and `by_sign`."""
    c, k, a, b = torch.sigmoid(z), torch.sigmoid(-z), torch.sigmoid(s), torch.sigmoid(-s)
    kab = (a * b).mul_(k)
    torch.sub(k, c, out=by_zero).sub_(kab, alpha=8.0).mul_(c).mul_(k).mul_(grad)
    torch.sub(b, a, out=by_sign).mul_(kab).mul_(k).mul_(grad).mul_(4.0)
