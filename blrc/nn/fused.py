"""Norm, pool and sign of a stochastic network as one step, for training: fewer passes over the large maps.

Layer by layer each map is read and written some thirty times in a step, which costs more than the convolutions. Here

- the statistics are taken first; then one pass chooses the position of each window, normalises what was chosen (a
  quarter of the map) and samples the sign. The choice needs no normalised map: with gamma > 0 the largest of
  ``mean' + sqrt(var') n`` is the largest of ``mean + sqrt(var) n``, with gamma < 0 of ``-mean + sqrt(var) n``;
- backwards, one pass writes the gradients of mean and var.

The passes are plain functions over ``(N, H, W, C)``, without control flow on values, that torch.compile makes one loop
each (`torch_compiled`). Values are those of the layers one by one, but for rounding.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from blrc.nn.activation import VAR_FLOOR, Z_MAX, StochasticSign, logit_phi
from blrc.nn.gaussian import Gaussian, expect_gaussian
from blrc.nn.norm import StochasticBatchNorm1d, StochasticBatchNorm2d
from blrc.nn.pool import StochasticMaxPool2d
from blrc.nn.ranks import all_sum

Pass = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Passes:
    """What goes over the maps, by itself or through torch.compile."""

    squares: Callable[[Tensor, Tensor], Tensor]
    sample: Pass
    pooled_sample: Pass
    products: Pass
    spread: Pass


def squares(mean: Tensor, m: Tensor) -> Tensor:
    """Sums over each sample of ``(mean - m)^2``: ``(N, C)``."""
    return (mean - m).square().sum((1, 2))


def sample(
    mean: Tensor, var: Tensor, noise: Tensor, m: Tensor, scale: Tensor, beta: Tensor, tau: Tensor, hard: bool
) -> tuple[Tensor, ...]:
    """Normalise and sample the sign; what is beside it is for the way back.

    Args:
        mean, var: before the norm.
        noise: logistic.
        m, scale, beta: of the norm, ``scale (mean - m) + beta``.

    Returns:
        The samples; the gradient of a sample to the normalised mean; the gradient of that one's variance as a factor
        on the one of the mean; mean - m.
    """
    centred = mean - m
    rstd = (var * (scale * scale) + VAR_FLOOR).rsqrt()
    z = ((centred * scale + beta) * rstd).clamp(-Z_MAX, Z_MAX)
    logit, slope = logit_phi(z)
    argument = logit + noise
    s = torch.sigmoid(-argument.abs() / tau)
    size = torch.ones_like(s) if hard else 1.0 - 2.0 * s
    # The argument is a sum, which is never -0: a tie gives +1.
    out = torch.where(argument >= 0, size, -size)
    return out, slope * s * (1.0 - s) * (rstd * (2.0 / tau)), -0.5 * z * rstd, centred


def pooled_sample(
    mean: Tensor, var: Tensor, choice: Tensor, flip: Tensor, noise: Tensor, m: Tensor, scale: Tensor, beta: Tensor,
    tau: Tensor, hard: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """`sample` of one position of each 2x2 window.

    Args:
        choice: normal noise.
        flip: the sign of gamma.

    Returns:
        As `sample`, and of the chosen position its variance and its number in the window (as float: bytes would keep
        the loop from being vectorised).
    """
    values = mean * flip + choice * var.sqrt()
    best, *others = _windows(values)
    chosen_mean, *means = _windows(mean)
    chosen_var, *variances = _windows(var)
    number = torch.zeros_like(best)
    for index, (value, of_mean, of_var) in enumerate(zip(others, means, variances, strict=True), 1):
        more = value > best
        best = torch.where(more, value, best)
        chosen_mean = torch.where(more, of_mean, chosen_mean)
        chosen_var = torch.where(more, of_var, chosen_var)
        number = torch.where(more, float(index), number)
    return *sample(chosen_mean, chosen_var, noise, m, scale, beta, tau, hard), chosen_var, number


def products(grad: Tensor, slope: Tensor, factor: Tensor, centred: Tensor, var: Tensor) -> tuple[Tensor, ...]:
    """Gradients to the normalised mean and variance; what their sums over a channel want."""
    grad_mean = grad * slope
    grad_var = grad_mean * factor
    return grad_mean, grad_var, grad_mean * centred, grad_var * var


def spread(
    grad_mean: Tensor, grad_var: Tensor, number: Tensor | None, mean: Tensor, m: Tensor, scale: Tensor, shift: Tensor,
    slope: Tensor, var_shift: Tensor, numbers: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients to mean and var before the norm: ``scale grad_mean + slope (mean - m) + shift``, and for var
    ``scale^2 grad_var + var_shift``; with `number` the first terms are 0 where a position was not chosen.

    Args:
        numbers: 0 to 3 as ``(2, 1, 2, 1)``.
    """
    if number is None:
        return grad_mean * scale + (mean - m) * slope + shift, grad_var * (scale * scale) + var_shift
    n, h, w, c = mean.shape
    half = (n, h // 2, 1, w // 2, 1, c)
    chosen = number.view(half) == numbers
    dmean = torch.where(chosen, grad_mean.view(half) * scale, 0.0)
    dmean = dmean + (mean.view(n, h // 2, 2, w // 2, 2, c) - m) * slope + shift
    dvar = torch.where(chosen, grad_var.view(half) * (scale * scale), 0.0) + var_shift
    return dmean.view(mean.shape), dvar.view(mean.shape)


def _windows(x: Tensor) -> list[Tensor]:
    return [x[:, y::2, z::2] for y in (0, 1) for z in (0, 1)]


PLAIN = Passes(squares, sample, pooled_sample, products, spread)


def torch_compiled() -> Passes:
    """The passes through torch.compile, which compiles each for the shapes that it meets.

    Raises:
        RuntimeError: torch.compile does not know this Python.
    """
    made = (torch.compile(one, dynamic=False) for one in (squares, sample, pooled_sample, products, spread))
    return Passes(*(cast(Any, one) for one in made))


class NormPoolSign(nn.Module):
    """A stochastic norm, a pool or none, and a sign, that share what they hold: `Gaussian` of maps to samples.

    In training, on maps that lie channels last, it goes over them as this module says. In evaluation, and where it
    cannot (a window other than 2x2, odd maps, exact logits), the layers run one after the other; so they do on batches
    of another size than the first, for which other code would have to be compiled.
    """

    def __init__(
        self,
        norm: StochasticBatchNorm1d | StochasticBatchNorm2d,
        pool: StochasticMaxPool2d | None,
        sign: StochasticSign,
        passes: Passes = PLAIN,
    ) -> None:
        super().__init__()
        self.norm, self.pool, self.sign = norm, pool, sign
        self.passes = passes
        self.batch = 0
        self.register_buffer("numbers", torch.arange(4.0).view(2, 1, 2, 1), persistent=False)

    def forward(self, x: Gaussian) -> Tensor:
        mean, var = expect_gaussian(x, "NormPoolSign")
        if not self._can(mean, var):
            return cast(Tensor, self.sign(self.norm(x) if self.pool is None else self.pool(self.norm(x))))
        self.batch = len(mean)
        count = self.norm.values(mean)
        weight, bias = self.norm.affine_pair()
        # The layers' order of draws.
        choice = None if self.pool is None else self.pool.noise.like(mean)
        noise = self.sign.noise.like(mean if self.pool is None else mean[:, :, ::2, ::2])
        tau = torch.tensor(self.sign.tau, dtype=mean.dtype, device=mean.device)
        out, m, v = _NormPoolSign.apply(  # type: ignore[no-untyped-call]
            mean, var, weight, bias, choice, noise, tau, self.norm.eps, count, self.norm.joint, self.sign.hard,
            self.numbers, self.passes,
        )  # fmt: skip
        self.norm.track(m, v)
        return cast(Tensor, out)

    def _can(self, mean: Tensor, var: Tensor) -> bool:
        if not self.training or self.sign.exact or mean.ndim != 4 or self.batch not in (0, len(mean)):
            return False
        if mean.shape[1] != self.norm.num_features or var.shape[1:] != mean.shape[1:]:
            return False
        window = self.pool is None or (
            (self.pool.kernel_size, self.pool.stride, self.pool.padding) == ((2, 2), (2, 2), (0, 0))
            and mean.shape[2] % 2 == mean.shape[3] % 2 == 0
        )
        return window and all(x.permute(0, 2, 3, 1).is_contiguous() for x in (mean, var))


class _NormPoolSign(torch.autograd.Function):
    """The formulas of `_Normalise` (blrc.nn.norm) and `_Concrete` (blrc.nn.activation) over chosen positions."""

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, var: Tensor, gamma: Tensor, beta: Tensor, choice: Tensor | None, noise: Tensor,
        tau: Tensor, eps: float, count: int, joint: bool, hard: bool, numbers: Tensor, passes: Passes,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        mean, var, noise = (_channels_last(x) for x in (mean, var, noise))
        repeats = len(mean) // len(var)
        total = (lambda x: all_sum(x)) if joint else (lambda x: x)
        m = total(_channel_sum(mean)) / count
        v = total(_channel_sum(var) * repeats + passes.squares(mean, m).sum(0)) / (count - 1)
        inv = (v + eps).rsqrt()
        # One variance map for all samples: as maps these let all of a pass be one loop.
        ahead = (m, gamma * inv, beta)
        flip = torch.copysign(torch.ones_like(gamma), gamma)
        if repeats > 1:
            ahead = tuple(_as_map(x, noise) for x in ahead)  # type: ignore[assignment]
            flip = _as_map(flip, mean)
        if choice is None:
            out, slope, factor, centred = passes.sample(mean, var, noise, *ahead, tau, hard)
            number = None
        else:
            choice = _channels_last(choice)
            out, slope, factor, centred, var, number = passes.pooled_sample(
                mean, var, choice, flip, noise, *ahead, tau, hard
            )
        ctx.save_for_backward(mean, m, gamma, inv, slope, factor, centred, var, number, numbers)
        ctx.count, ctx.repeats, ctx.joint, ctx.passes = count, repeats, joint, passes
        ctx.mark_non_differentiable(m, v)
        return out.permute(0, 3, 1, 2), m, v

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor, _m: None, _v: None) -> tuple[Tensor | None, ...]:
        mean, m, gamma, inv, slope, factor, centred, var, number, numbers = ctx.saved_tensors
        grad = grad.permute(0, 2, 3, 1).contiguous()
        g, h, gc, hv = ctx.passes.products(grad, slope, factor, centred, var)
        sum_g, sum_gc, sum_hv = (_channel_sum(x) for x in (g, gc, hv))
        scale = gamma * inv
        dgamma, dbeta = sum_gc * inv + 2.0 * gamma * sum_hv * inv * inv, sum_g
        if ctx.joint:
            sum_g, sum_gc, sum_hv = all_sum(torch.stack((sum_g, sum_gc, sum_hv)))
        dv = -(0.5 * scale * sum_gc + scale * scale * sum_hv) * inv * inv
        each = dv * (ctx.repeats / (ctx.count - 1))
        shared = ctx.repeats > 1
        dmean, dvar = ctx.passes.spread(
            g, h, number, mean, m, scale, -scale * sum_g / ctx.count, 2.0 * dv / (ctx.count - 1),
            torch.zeros_like(each) if shared else each, numbers,
        )  # fmt: skip
        if shared:
            dvar = dvar.sum(0, keepdim=True) + each
        dmean, dvar = (x.permute(0, 3, 1, 2) for x in (dmean, dvar))
        return dmean, dvar, dgamma, dbeta, *(None,) * 9


def _channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def _channel_sum(x: Tensor) -> Tensor:
    return x.sum((0, 1, 2))


def _as_map(per_channel: Tensor, like: Tensor) -> Tensor:
    return per_channel.expand(1, *like.shape[1:]).contiguous()


def fused(model: nn.Module, passes: Passes = PLAIN) -> nn.Sequential:
    """A network for training steps that shares every tensor with `model`, its norms, pools and signs fused.

    Evaluation, checkpoints and the optimiser go on with `model` itself.

    Args:
        model: layers in sequence, of which each norm is followed by a pool or none, and a sign; others stay alone.

    Example:
        >>> from blrc.nn.layers import BinaryConv2d
        >>> layers = BinaryConv2d(3, 8, 3), StochasticBatchNorm2d(8), StochasticMaxPool2d(2), StochasticSign()
        >>> [type(layer).__name__ for layer in fused(nn.Sequential(*layers))]
        ['BinaryConv2d', 'NormPoolSign']
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    left = list(model.named_children())
    while left:
        name, norm = left.pop(0)
        kinds = [type(layer) for _, layer in left[:2]]
        pooled = kinds == [StochasticMaxPool2d, StochasticSign]
        if isinstance(norm, StochasticBatchNorm1d | StochasticBatchNorm2d) and (
            pooled or kinds[:1] == [StochasticSign]
        ):
            taken, left = [layer for _, layer in left[: 1 + pooled]], left[1 + pooled :]
            pool = cast(StochasticMaxPool2d, taken[0]) if pooled else None
            layers[name] = NormPoolSign(norm, pool, cast(StochasticSign, taken[-1]), passes)
        else:
            layers[name] = norm
    return nn.Sequential(layers).train(model.training)
