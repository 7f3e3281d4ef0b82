"""Fuse norm, pool and sign of a stochastic network into one training step with fewer passes over the large maps.

If the layers run one by one, each map is read and written many times in a step, which costs more than the
convolutions. The fused step makes fewer passes:

- The forward step first computes the statistics. Then one pass chooses a position in each window, normalises only the
  chosen ones (a quarter of the map) and samples the sign. The choice needs no normalised map: for gamma > 0 the
  largest of ``mean' + sqrt(var') n`` is at the position of the largest ``mean + sqrt(var) n``, and for gamma < 0 at
  that of the largest ``-mean + sqrt(var) n``.
- The backward step writes the gradients of mean and var in one pass.

`blrc.nn.fast.passes` contains the passes, which run as they are or through torch.compile. Results equal those of the
separate layers except for rounding.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from blrc.nn.fast.passes import PLAIN, Passes, plain
from blrc.nn.gaussian import Gaussian, expect_gaussian
from blrc.nn.layers.activation import StochasticSign
from blrc.nn.layers.norm import StochasticBatchNorm1d, StochasticBatchNorm2d
from blrc.nn.layers.pool import StochasticMaxPool2d
from blrc.nn.ranks import all_sum


class NormPoolSign(nn.Module):
    """Run a stochastic norm, an optional pool and a sign as one step, from a `Gaussian` of maps to samples.

    The step is fused in training, on maps in channels-last layout. Otherwise the layers run one after the other: in
    evaluation, with a window other than 2x2, maps of odd size or exact logits, and for batches of another size than
    the first one, which would need code compiled anew.

    Args:
        norm, pool, sign: the layers, whose tensors are shared, not copied.
        passes: the functions that pass over the maps.

    Raises:
        BlrcError: for the same reasons as the layers.

    Source: paper, sections 4.2 and 4.3.
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
        self.register_buffer(
            "numbers", torch.arange(4.0, device=norm.running_mean.device).view(2, 1, 2, 1), persistent=False
        )

    def forward(self, x: Gaussian) -> Tensor:
        mean, var = expect_gaussian(x, "NormPoolSign")
        if not self._can(mean, var):
            return cast(Tensor, self.sign(self.norm(x) if self.pool is None else self.pool(self.norm(x))))
        self.batch = len(mean)
        count = self.norm.values(mean)
        weight, bias = self.norm.affine_pair()
        # Draw noise in the same order as the separate layers.
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
        if not self.norm.training or self.sign.exact or mean.ndim != 4 or self.batch not in (0, len(mean)):
            return False
        if mean.shape[1] != self.norm.num_features or var.shape[1:] != mean.shape[1:]:
            return False
        window = self.pool is None or (
            (self.pool.kernel_size, self.pool.stride, self.pool.padding) == ((2, 2), (2, 2), (0, 0))
            and mean.shape[2] % 2 == mean.shape[3] % 2 == 0
        )
        return window and all(_channels_last(x).is_contiguous() for x in (mean, var))


class _NormPoolSign(torch.autograd.Function):
    """Apply the formulas of `_Normalise` and `_Concrete` (in `blrc.nn.layers`) to the chosen positions."""

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
        # With one variance map for all samples, coefficients in the form of maps let a whole pass be one loop.
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
        grad = _channels_last(grad).contiguous()
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


def fused(model: nn.Module, passes: Callable[[], Passes] = plain) -> nn.Sequential:
    """Return a network for training steps that shares every tensor with `model` and fuses its norms, pools and signs.

    Use `model` itself for evaluation, checkpoints and the optimiser. Compiled passes cannot be pickled.

    Args:
        model: layers in sequence. A norm is fused with the sign that follows it, or with the pool and the sign that
            follow it. Other layers are kept.
        passes: called once for each block to make its passes.

    Example:
        >>> from blrc.nn.layers.binary import BinaryConv2d
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
            layers[name] = NormPoolSign(norm, pool, cast(StochasticSign, taken[-1]), passes())
        else:
            layers[name] = norm
    return nn.Sequential(layers).train(model.training)
