"""Apply batch normalisation to random variables (paper, section 4.2)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from blrc.errors import BlrcError
from blrc.net.window import count
from blrc.nn.gaussian import Gaussian, expect_gaussian
from blrc.nn.ranks import JointBatchNorm1d, JointBatchNorm2d, all_sum


class _StochasticBatchNorm(nn.Module):
    """Implement what the 1d and the 2d norm share; `StochasticBatchNorm2d` documents it."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    ndims: tuple[int, ...]
    layout: str
    joint: bool = False

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        num_features = count(name, "num_features", num_features)
        if not (isinstance(eps, int | float) and math.isfinite(eps) and eps >= 0):
            raise BlrcError(f"{name}: eps {eps!r}: give a small positive number, such as 1e-5")
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.weight = nn.Parameter(torch.ones(num_features, device=device, dtype=dtype)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype)) if affine else None
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long, device=device))

    @torch.no_grad()
    def reset_running_stats(self) -> None:
        """Forget the running estimates, as `torch.nn.BatchNorm2d` does."""
        self.running_mean.zero_()
        self.running_var.fill_(1.0)
        self.num_batches_tracked.zero_()

    def forward(self, x: Gaussian) -> Gaussian:
        name = type(self).__name__
        mean, var = expect_gaussian(x, name)
        if mean.ndim not in self.ndims or mean.shape[1] != self.num_features:
            raise BlrcError(
                f"{name} takes a Gaussian of {self.layout.format(self.num_features)}, got {tuple(mean.shape)}"
            )
        weight, bias = self.affine_pair()
        if not self.training:
            scale = weight * (self.running_var + self.eps).rsqrt()
            shift = bias - self.running_mean * scale
            return Gaussian(
                torch.addcmul(_rows(shift, mean), mean, _rows(scale, mean)), var * _rows(scale * scale, mean)
            )
        values = self.values(mean)
        out_mean, out_var, m, v = _Normalise.apply(mean, var, weight, bias, self.eps, values, self.joint)  # type: ignore[no-untyped-call]
        self.track(m, v)
        return Gaussian(out_mean, out_var)

    def affine_pair(self) -> tuple[Tensor, Tensor]:
        """Return gamma and beta; they are 1 and 0 where the norm is not affine."""
        weight = torch.ones_like(self.running_mean) if self.weight is None else self.weight
        bias = torch.zeros_like(self.running_mean) if self.bias is None else self.bias
        return weight, bias

    def values(self, mean: Tensor) -> int:
        """Return M, the number of values per channel in a training step, over all processes where the norm is joint.

        Raises:
            BlrcError: M is less than two.
        """
        values = mean.numel() // mean.shape[1]
        if self.joint:
            values = round(float(all_sum(torch.tensor(float(values), dtype=torch.float64, device=mean.device))))
        if values < 2:
            raise BlrcError(
                f"{type(self).__name__}: training needs more than one value per channel, got {tuple(mean.shape)}"
            )
        return values

    @torch.no_grad()
    def track(self, m: Tensor, v: Tensor) -> None:
        """Move the running estimates towards a batch's mean and variance."""
        self.num_batches_tracked.add_(1)
        rate = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(m, rate)
        self.running_var.lerp_(v, rate)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"


class StochasticBatchNorm1d(_StochasticBatchNorm):
    """Normalise a `Gaussian` of ``(N, C)`` over the batch, or one of ``(N, C, L)`` over batch and time.

    Formulas, arguments and errors are those of `StochasticBatchNorm2d`.

    Example:
        >>> from blrc.nn.gaussian import Gaussian
        >>> norm = StochasticBatchNorm1d(3)
        >>> norm(Gaussian(torch.randn(8, 3), torch.rand(8, 3))).mean.shape
        torch.Size([8, 3])
    """

    ndims = (2, 3)
    layout = "(N, {0}) or (N, {0}, L)"


class StochasticBatchNorm2d(_StochasticBatchNorm):
    """Normalise a `Gaussian` of ``(N, C, H, W)`` over the batch, per channel over all M = N H W positions.

    The statistics are those expected of a batch of samples of the variables:

        m = sum mean / M,    v = (sum var + sum (mean - m)^2) / (M - 1)
        mean' = gamma (mean - m) / sqrt(v + eps) + beta,    var' = gamma^2 var / (v + eps)

    In evaluation the running estimates of m and v replace them. The output is then still a random variable.

    Args:
        num_features, eps, momentum, affine: as in `torch.nn.BatchNorm2d`. Momentum None is the cumulative average.

    Attributes:
        weight, bias: gamma and beta, or None.
        running_mean, running_var, num_batches_tracked: as in torch (v already divides by M - 1).
        joint: whether the statistics in training are those of all processes' batches together (`join_norms`).

    Raises:
        BlrcError: num_features or eps is out of range, the input is no such Gaussian, or training has a single value
            per channel.

    Source: paper, section 4.2 ("stochastic batch normalisation").

    Example:
        >>> from blrc.nn.gaussian import Gaussian
        >>> norm = StochasticBatchNorm2d(3)
        >>> norm(Gaussian(torch.randn(8, 3, 5, 5), torch.rand(8, 3, 5, 5))).var.shape
        torch.Size([8, 3, 5, 5])
    """

    ndims = (4,)
    layout = "(N, {}, H, W)"


class _Normalise(torch.autograd.Function):
    """Compute the norm in training mode, and its gradient in closed form.

    The closed form takes a third of the memory passes of plain autograd. Sums are over the batch, or over the batches
    of all processes (`joint`), and `count` is M of the same. Only the sums in dgamma and dbeta are always over the
    process's own batch. With s^2 = v + eps, c = mean - m, g and h the gradients with respect to mean' and var', and R
    rows of c for each row of var:

        dgamma = sum g c / s + 2 gamma sum h var / s^2,    dbeta = sum g
        dv     = -gamma sum g c / (2 s^3) - gamma^2 sum h var / s^4
        dmean  = gamma (g - sum g / M) / s + 2 c dv / (M - 1),    dvar = gamma^2 h / s^2 + R dv / (M - 1)
    """

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, var: Tensor, gamma: Tensor, beta: Tensor, eps: float, count: int, joint: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        repeats = mean.numel() // var.numel() if var.shape[1] == mean.shape[1] else 0
        if repeats * var.numel() != mean.numel():
            var = var.expand_as(mean)
            repeats = 1
        total = (lambda x: all_sum(x)) if joint else (lambda x: x)
        m = total(_channel_sum(mean)) / count
        centred = mean - _rows(m, mean)
        v = total(_channel_sum(var) * repeats + _channel_sum(centred * centred)) / (count - 1)
        inv = (v + eps).rsqrt()
        scale = gamma * inv
        ctx.save_for_backward(centred, var, gamma, inv)
        ctx.count, ctx.repeats, ctx.joint = count, repeats, joint
        ctx.mark_non_differentiable(m, v)
        out_mean = torch.addcmul(_rows(beta, mean), centred, _rows(scale, mean))
        return out_mean, var * _rows(scale * scale, mean), m, v

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, g: Tensor, h: Tensor, _m: None, _v: None) -> tuple[Tensor | None, ...]:
        centred, var, gamma, inv = ctx.saved_tensors
        sum_g = _channel_sum(g)
        sum_gc = _channel_sum(g * centred)
        sum_hv = _channel_sum(h * var)
        scale = gamma * inv
        dgamma, dbeta = sum_gc * inv + 2.0 * gamma * sum_hv * inv * inv, sum_g
        if ctx.joint:
            sum_g, sum_gc, sum_hv = all_sum(torch.stack((sum_g, sum_gc, sum_hv)))
        dv = -(0.5 * scale * sum_gc + scale * scale * sum_hv) * inv * inv
        dc = 2.0 * dv / (ctx.count - 1)
        dmean = torch.addcmul(_rows(-scale * sum_g / ctx.count, g), centred, _rows(dc, g)).addcmul_(g, _rows(scale, g))
        dvar = torch.addcmul(_rows(dv * (ctx.repeats / (ctx.count - 1)), h), h, _rows(scale * scale, h))
        return dmean, dvar, dgamma, dbeta, None, None, None


def join_norms(model: nn.Module) -> None:
    """Let every norm of a network take its training statistics over the batches of all processes of a distributed run.

    This covers stochastic norms and torch's own batch norms. The latter are replaced by new modules with the same
    parameters, buffers and names.
    """
    for name, module in list(model.named_modules()):
        if isinstance(module, _StochasticBatchNorm):
            module.joint = True
        elif type(module) in (nn.BatchNorm1d, nn.BatchNorm2d):
            kind = JointBatchNorm1d if isinstance(module, nn.BatchNorm1d) else JointBatchNorm2d
            norm = kind(module.num_features, module.eps, module.momentum, module.affine)
            for own, parameter in module.named_parameters():
                setattr(norm, own, parameter)
            for own, buffer in module.named_buffers():
                norm.register_buffer(own, buffer)
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, norm.train(module.training))


def _channel_sum(x: Tensor) -> Tensor:
    return x.sum((0, *range(2, x.ndim)))


def _rows(per_channel: Tensor, like: Tensor) -> Tensor:
    return per_channel.view(1, -1, *(1,) * (like.ndim - 2))
