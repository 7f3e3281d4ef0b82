"""Define the interface of distributions over discrete weights, and what all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from blrc.errors import BlrcError

P_MIN = 0.05  # transfer clips every probability to [P_MIN, 1 - P_MIN], so that each weight can still change
CHUNK = 1 << 15  # weights processed at a time, so that elementwise steps on a large layer stay in the CPU's cache
CERTAIN = 1e4  # a logit at which sigmoid is 0 or 1 exactly, in float64


class WeightDistribution(nn.Module, ABC):
    """Describe a factorised distribution over a tensor of discrete weights.

    Attributes:
        name: what ``weight=`` of a layer calls the distribution; the kinds of its layers begin with it.
        support: the values that a weight can take, in ascending order.
        spread: factor on the variance in training (`restrain`). Evaluation and samples always have the full variance.
    """

    name: ClassVar[str]
    support: ClassVar[tuple[int, ...]]
    spread: float = 1.0
    _shared: tuple[Tensor, Tensor] | None = None  # mean and variance inside `shared_moments`, once they are known
    _sharing = False

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

    def both(self) -> tuple[Tensor, Tensor]:
        """Return mean and full variance together, which is cheaper for some distributions."""
        return self.mean(), self.variance()

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance as a layer computes with them: in training the variance is multiplied by `spread`.

        Inside `shared_moments` they are kept for `total_variance`.
        """
        mean, variance = self.both()
        if self._sharing:
            self._shared = mean.detach(), variance.detach()
        return mean, variance if self.spread == 1.0 or not self.training else self.spread * variance

    def total_variance(self) -> Tensor:
        """Return the sum of the variances, which some distributions compute more cheaply."""
        return self.variance().sum()

    def share(self, on: bool) -> None:
        """Keep the moments of the next forward pass for `total_variance`, or forget them; see `shared_moments`."""
        self._sharing, self._shared = on, None

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

    @abstractmethod
    def scatter_(self, reach: float) -> None:
        """Draw each logit uniformly from an interval of +-`reach` about where all values are equally likely."""

    @abstractmethod
    def settle_(self) -> None:
        """Make the likeliest value of each weight certain: the mean is then `map`, and the variance 0, exactly."""

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


def chunks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors of one shape into groups of rows: of about `CHUNK` elements on the CPU, one group elsewhere."""
    first = tensors[0]
    if first.device.type != "cpu" or first.numel() <= CHUNK or first.ndim == 0:
        return iter([tensors])
    rows = max(1, CHUNK * first.shape[0] // first.numel())
    return zip(*(torch.split(tensor, rows) for tensor in tensors), strict=True)


def entropy_of(logits: Tensor) -> Tensor:
    """Return the entropy of a choice between two values whose logit is W, in nats.

    It is ``softplus(-|W|) + |W| sigmoid(-|W|)``, as softplus(W) - W sigmoid(W) would cancel for large W.
    """
    size = logits.abs()
    return F.softplus(-size) + size * torch.sigmoid(-size)


def uniform(shape: torch.Size, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw uniform noise in [0, 1) in float64, because in float32 it is 0 once in 2^24 times."""
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=like.device)


def scale_of(weight: Tensor, shape: torch.Size) -> float:
    """Return ``1 / std(w)`` of full-precision weights that are to be transferred to weights of a `shape`.

    Raises:
        BlrcError: the shape differs, or the weights are all equal or not finite.
    """
    if weight.shape != shape:
        raise BlrcError(f"cannot transfer weights of shape {tuple(weight.shape)} to shape {tuple(shape)}")
    scale = 1.0 / float(weight.double().std()) if weight.numel() > 1 and bool(weight.std() > 0) else float("nan")
    if not (0.0 < scale < float("inf")):
        raise BlrcError("cannot transfer weights whose standard deviation is 0 or not finite")
    return scale
