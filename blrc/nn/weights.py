"""Define distributions over discrete weights (Peters & Welling 2018, sections 3 and 4).

`WeightDistribution` is the interface that a layer uses, and `Bernoulli` is the distribution of binary weights. Another
discrete distribution (a ternary one, say) would be one more class here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from blrc.errors import BlrcError

P_MIN = 0.05  # transfer clips every probability to [P_MIN, 1 - P_MIN], so that each weight can still change its sign
CHUNK = 1 << 15  # weights processed at a time, so that elementwise steps on a large layer stay in the CPU's cache


class WeightDistribution(nn.Module, ABC):
    """Describe a factorised distribution over a tensor of discrete weights.

    Attributes:
        support: the values that a weight can take, in ascending order.
    """

    support: tuple[int, ...]

    @property
    @abstractmethod
    def shape(self) -> torch.Size:
        """Return the shape of the weight tensor (that of the torch layer's ``weight``)."""

    @abstractmethod
    def mean(self) -> Tensor:
        """Return E[B], of shape `shape`."""

    @abstractmethod
    def variance(self) -> Tensor:
        """Return V[B], of shape `shape`, which is never negative."""

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance together, which is cheaper for some distributions."""
        return self.mean(), self.variance()

    def total_variance(self) -> Tensor:
        """Return the sum of the variances, which some distributions compute more cheaply."""
        return self.variance().sum()

    @abstractmethod
    def map(self) -> Tensor:
        """Return the most likely value of each weight, without gradient."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw all weights once, without gradient, from torch's default generator unless one is given."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Return the entropy H[p(B)] of each weight in nats, of shape `shape`."""

    @abstractmethod
    def transfer_(self, weight: Tensor) -> float:
        """Set the distribution from full-precision weights, and return the factor by which they were multiplied."""


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
        spread: factor on V[B] in training (`restrain`). Evaluation and samples always have the full variance.

    Example:
        >>> weight = Bernoulli((2, 3))
        >>> _ = weight.logits.data.fill_(0.0)
        >>> weight.mean().abs().max().item(), weight.variance().min().item(), weight.map().min().item()
        (0.0, 1.0, 1.0)
    """

    support = (-1, 1)
    spread: float = 1.0
    _shared: tuple[Tensor, Tensor] | None = None  # mean and variance inside `shared_moments`, once they are known
    _sharing = False

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

    def moments(self) -> tuple[Tensor, Tensor]:
        mean, variance = _Moments.apply(self.logits)  # type: ignore[no-untyped-call]
        if self._sharing:
            self._shared = mean.detach(), variance.detach()
        return mean, variance if self.spread == 1.0 or not self.training else self.spread * variance

    def total_variance(self) -> Tensor:
        known = self._shared or _Moments.apply(self.logits.detach())  # type: ignore[no-untyped-call]
        total: Tensor = _TotalVariance.apply(self.logits, *known)  # type: ignore[no-untyped-call]
        return total

    def share(self, on: bool) -> None:
        """Keep the moments of the next forward pass for `total_variance`, or forget them; see `shared_moments`."""
        self._sharing, self._shared = on, None

    @torch.no_grad()
    def map(self) -> Tensor:
        one = torch.ones((), dtype=self.logits.dtype, device=self.logits.device)
        return torch.where(self.logits <= 0, one, -one)

    @torch.no_grad()
    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw all weights once.

        Uniform noise in [0, 1) is compared with p in float64, because in float32 it is 0 once in 2^24 times.
        """
        u = torch.rand(self.shape, generator=generator, dtype=torch.float64, device=self.logits.device)
        one = torch.ones((), dtype=self.logits.dtype, device=self.logits.device)
        return torch.where(u < torch.sigmoid(self.logits.double()), -one, one)

    def entropy(self) -> Tensor:
        """Return ``H = softplus(-|W|) + |W| sigmoid(-|W|)``, as softplus(W) - W sigmoid(W) would cancel for large W."""
        size = self.logits.abs()
        return F.softplus(-size) + size * torch.sigmoid(-size)

    @torch.no_grad()
    def transfer_(self, weight: Tensor) -> float:
        """Set ``E[B] = w / std(w)`` with p clipped to [0.05, 0.95] (paper, section 4.4), and return ``1 / std(w)``.

        Raises:
            BlrcError: the shape differs, or the weights are all equal or not finite.
        """
        if weight.shape != self.shape:
            raise BlrcError(f"cannot transfer weights of shape {tuple(weight.shape)} to shape {tuple(self.shape)}")
        scale = 1.0 / float(weight.double().std()) if weight.numel() > 1 and bool(weight.std() > 0) else float("nan")
        if not (0.0 < scale < float("inf")):
            raise BlrcError("cannot transfer weights whose standard deviation is 0 or not finite")
        self.logits.copy_(_logits_of_mean(weight.to(self.logits) * scale))
        return scale

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


class _Moments(torch.autograd.Function):
    """Compute E and V of logits, and dE/dW = -V / 2 and dV/dW = V E in closed form.

    This takes a fifth of autograd's memory traffic.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = torch.empty_like(logits), torch.empty_like(logits)
        for w, e, v in _chunks(logits, mean, variance):
            _moments_into(w, e, v)
        ctx.save_for_backward(mean, variance)
        return mean, variance

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> Tensor:
        mean, variance = ctx.saved_tensors
        grad = torch.empty_like(mean)
        for g, e, v, ge, gv in _chunks(grad, mean, variance, grad_mean, grad_variance):
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


def _chunks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors of one shape into groups of rows: of about `CHUNK` elements on the CPU, one group elsewhere."""
    first = tensors[0]
    if first.device.type != "cpu" or first.numel() <= CHUNK or first.ndim == 0:
        return iter([tensors])
    rows = max(1, CHUNK * first.shape[0] // first.numel())
    return zip(*(torch.split(tensor, rows) for tensor in tensors), strict=True)


def distributions(model: nn.Module) -> Iterator[WeightDistribution]:
    """Yield every weight distribution in a network."""
    return (module for module in model.modules() if isinstance(module, WeightDistribution))


@contextmanager
def shared_moments(model: nn.Module) -> Iterator[None]:
    """Let `variance_regulariser` reuse the moments of the network's forward pass inside this context.

    Use it around the loss of one step, since no weight may change inside. The moments are dropped at the end.
    """
    weights = [weight for weight in distributions(model) if isinstance(weight, Bernoulli)]
    try:
        for weight in weights:
            weight.share(True)
        yield
    finally:
        for weight in weights:
            weight.share(False)


def restrain(model: nn.Module, spread: float) -> None:
    """Multiply the variance of every Bernoulli weight by `spread` in training from now on; 1 is the full variance.

    A network whose variance is reduced step by step in further training comes closer to its MAP network. Samples are
    still drawn from the full distribution.

    Raises:
        BlrcError: the spread is not above 0 and at most 1.
    """
    if not 0.0 < spread <= 1.0:
        raise BlrcError(f"spread {spread}: must be above 0 and at most 1")
    for weight in distributions(model):
        if isinstance(weight, Bernoulli):
            weight.spread = spread


def variance_regulariser(model: nn.Module) -> Tensor:
    """Return ``||sigmoid(W) (1 - sigmoid(W))||_1`` over all weights (paper, section 4.4).

    This is a quarter of their total variance.
    """
    return _total([0.25 * weight.total_variance() for weight in distributions(model)])


def entropy(model: nn.Module) -> Tensor:
    """Return H[p(B)] in nats, summed over all weights: the second term of the variational bound (paper, section 3).

    The bound to maximise is ``E[log p(Y | X, B)] + H[p(B)]``. With a mean loss per example, subtract
    ``entropy(model) / N`` from the loss.
    """
    return _total([weight.entropy().sum() for weight in distributions(model)])


def _total(terms: list[Tensor]) -> Tensor:
    if not terms:
        raise BlrcError("the network has no weight distribution: build it of BinaryLinear and BinaryConv2d layers")
    return torch.stack([term.reshape(()) for term in terms]).sum()


def _logits_of_mean(mean: Tensor) -> Tensor:
    p = (0.5 * (1.0 - mean)).clamp(P_MIN, 1.0 - P_MIN)
    return torch.logit(p)
