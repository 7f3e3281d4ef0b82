"""Compute the passes over the maps of a stochastic network in training, for `blrc.nn.fast.fused`.

The passes are plain functions of maps ``(N, H, W, C)`` without control flow that depends on values, so that
torch.compile turns each one into a single loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

import torch
from torch import Tensor

from blrc.nn.layers.activation import VAR_FLOOR, Z_MAX, logit_phi

Pass = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Passes:
    """Hold the functions that pass over the maps, either plain or wrapped by torch.compile."""

    squares: Callable[[Tensor, Tensor], Tensor]
    sample: Pass
    pooled_sample: Pass
    products: Pass
    spread: Pass


def squares(mean: Tensor, m: Tensor) -> Tensor:
    """Return the sum of ``(mean - m)^2`` over each sample's positions: ``(N, H, W, C)`` and ``(C,)`` to ``(N, C)``."""
    return (mean - m).square().sum((1, 2))


def sample(
    mean: Tensor, var: Tensor, noise: Tensor, m: Tensor, scale: Tensor, beta: Tensor, tau: Tensor, hard: bool
) -> tuple[Tensor, ...]:
    """Normalise a map, sample the sign, and return both the samples and what the backward step needs.

    Args:
        mean, var: map before the norm, ``(N, H, W, C)``; var may have a first dimension of 1.
        noise: logistic noise, ``(N, H, W, C)``.
        m, scale, beta: coefficients of the norm ``scale (mean - m) + beta``; ``(C,)``, or as maps ``(1, H, W, C)``.
        tau: temperature, a scalar.
        hard: return +-1 as samples instead of values in (-1, 1).

    Returns:
        Four tensors ``(N, H, W, C)``: the samples; their gradient with respect to the normalised mean; the factor on
        that gradient which gives the one with respect to the normalised variance; and mean - m.
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
    """Choose one position of each 2x2 window and apply `sample` to it.

    `noise` has the pooled size, and so have m, scale and beta where they are maps.

    Args:
        mean, var: map before the norm, ``(N, H, W, C)``; var may have a first dimension of 1.
        choice: normal noise for the choice, ``(N, H, W, C)``.
        flip: the sign of gamma, ``(C,)`` or ``(1, H, W, C)``.
        noise, m, scale, beta, tau, hard: as in `sample`.

    Returns:
        The results of `sample`, then the variance of the chosen position and its number in the window. The number is
        a float, since bytes would keep the loop from being vectorised.
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
    """Return the gradients with respect to the normalised mean and variance, and the terms of the sums over a channel.

    These terms are the first gradient times `centred` and the second times `var`. All four results and all arguments
    have shape ``(N, H, W, C)``, of the pooled size, except that a `var` shared by all samples is ``(1, H, W, C)``.
    """
    grad_mean = grad * slope
    grad_var = grad_mean * factor
    return grad_mean, grad_var, grad_mean * centred, grad_var * var


def spread(
    grad_mean: Tensor, grad_var: Tensor, number: Tensor | None, mean: Tensor, m: Tensor, scale: Tensor, shift: Tensor,
    slope: Tensor, var_shift: Tensor, numbers: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the gradients with respect to mean and var before the norm.

    They are ``scale grad_mean + slope (mean - m) + shift`` and ``scale^2 grad_var + var_shift``. Where `number` is
    given, the first terms are 0 at positions that were not chosen.

    Args:
        grad_mean, grad_var: gradients with respect to the normalised mean and variance, of the pooled size.
        number: numbers of the chosen positions in their windows; None where nothing was pooled.
        mean, m: mean before the norm, ``(N, H, W, C)``, and its batch mean ``(C,)``.
        scale, shift, slope, var_shift: coefficients of the formulas, ``(C,)``.
        numbers: the numbers 0 to 3 of a window's positions as ``(2, 1, 2, 1)``.
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


def plain() -> Passes:
    """Return the passes as plain functions."""
    return PLAIN


def torch_compiled() -> Passes:
    """Return the passes wrapped by torch.compile, which compiles each one for the shapes that it meets.

    Every call makes new copies of the functions, because torch.compile gives up on a function after eight shapes.

    Raises:
        RuntimeError: torch.compile does not support this version of Python.
    """
    return Passes(
        *(
            cast(Any, torch.compile(FunctionType(one.__code__.replace(), one.__globals__, one.__name__), dynamic=False))
            for one in (squares, sample, pooled_sample, products, spread)
        )
    )
