"""Random numbers laid out like the tensor that they are for, from torch's default generators."""

from __future__ import annotations

import torch
from torch import Tensor


def normal_like(x: Tensor) -> Tensor:
    """Standard normal noise of `x`'s shape, type, device and memory layout.

    `torch.randn_like` of a channels_last tensor takes a scalar path on the CPU, 5 times slower; so the numbers are
    drawn flat and then seen with the strides of `x`.
    """
    return _laid_out(torch.randn(x.numel(), dtype=x.dtype, device=x.device), x)


def uniform_like(x: Tensor) -> Tensor:
    """Uniform noise in [0, 1) of `x`'s shape, type, device and memory layout."""
    return _laid_out(torch.rand(x.numel(), dtype=x.dtype, device=x.device), x)


def _laid_out(flat: Tensor, x: Tensor) -> Tensor:
    like = torch.empty_like(x)  # dense, in the layout of x where x is dense itself
    return flat.as_strided(like.size(), like.stride())
