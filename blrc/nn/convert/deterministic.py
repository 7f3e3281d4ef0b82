"""Convert a network over random weights to a deterministic network of plain torch modules."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from blrc.nn.layers.activation import StochasticSign
from blrc.nn.layers.binary import BinaryConv1d, BinaryConv2d, BinaryLinear
from blrc.nn.layers.geometry import padded
from blrc.nn.layers.levels import GaussianSample, SteLevels, StochasticLevels
from blrc.nn.layers.norm import StochasticBatchNorm1d, StochasticBatchNorm2d
from blrc.nn.layers.pool import MaxPool1d, MaxPool2d, StochasticMaxPool1d, StochasticMaxPool2d
from blrc.nn.layers.ste import SteConv1d, SteConv2d, SteLinear, SteSign, signs
from blrc.nn.layers.whole import Int8Conv1d, Int8Conv2d, Int8Linear, as_they_are, rounded

_BINARY = BinaryLinear | BinaryConv1d | BinaryConv2d
_STE = SteLinear | SteConv1d | SteConv2d
_INT8 = Int8Linear | Int8Conv1d | Int8Conv2d


class Sign(nn.Module):
    """Compute b(a) = +1 where a >= 0, else -1, for a tensor of any shape.

    A tie gives +1, unlike in `torch.sign`. There is no gradient.

    Example:
        >>> Sign()(torch.tensor([-2.0, 0.0, 3.0]))
        tensor([-1.,  1.,  1.])
    """

    def forward(self, x: Tensor) -> Tensor:
        return signs(x)


class PaddedConv1d(nn.Conv1d):
    """Apply a convolution behind `sides`: zeros before and behind."""

    sides: tuple[int, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(padded(x, self.sides, 1)[0])


class PaddedConv2d(nn.Conv2d):
    """Apply a convolution behind `sides`: zeros on top, to the left, at the bottom and to the right."""

    sides: tuple[int, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(padded(x, self.sides, 2)[0])


def deterministic(model: nn.Module, sample: bool = False, generator: torch.Generator | None = None) -> nn.Module:
    """Return a copy of a network with fixed weights, -1, 0 or +1: the MAP weights, or one sample (paper, section 4.5).

    The layers are replaced by torch's: `BinaryLinear` by `torch.nn.Linear`, and so on for convolutions, norms and
    pools, or by subclasses of these where opposite sides are padded differently. `StochasticSign` becomes `Sign`,
    `StochasticLevels` becomes `SteLevels`, and `GaussianSample` becomes `torch.nn.Identity`. Names stay the same. The
    layers of a Binarized NN are replaced in the same way, and so are those with weights of 8 bits. Their weights are
    the signs of the shadow weights, and the real weights as they are rounded, whatever `sample` says.

    The norms keep the statistics of the stochastic network, which do not fit the deterministic one: call `reestimate`.

    Args:
        model: any module. Its own code is kept.
        sample: draw the weights (from `generator`) instead of taking the most likely ones.
        generator: random generator for the sample; None is torch's default one.

    Example:
        >>> from blrc.nn.layers.binary import BinaryLinear
        >>> net = deterministic(nn.Sequential(BinaryLinear(3, 2), StochasticSign()))
        >>> net(torch.ones(1, 3)).shape, type(net[0]).__name__
        (torch.Size([1, 2]), 'Linear')
    """
    if (replacement := _replace(model, sample, generator)) is not None:
        return replacement
    result = copy.deepcopy(model)
    for name, module in list(model.named_modules()):
        if name and (new := _replace(module, sample, generator)) is not None:
            parent, _, child = name.rpartition(".")
            setattr(result.get_submodule(parent), child, new)
    return result


@torch.no_grad()
def reestimate(network: nn.Module, x: Tensor) -> nn.Module:
    """Set every norm of a deterministic network to its statistics on `x`, layer by layer, and return the network.

    This is the paper's "directly computing the batch statistics" (section 4.5), with all of `x` in one batch and
    variances divided by M - 1. The network is left in evaluation mode.
    """
    # Norms in training mode would not do: they normalise with the variance over M but record the one over M - 1. So the
    # layers behind them would be estimated on other activations than they get in evaluation.
    network.eval()
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    hooks = [norm.register_forward_pre_hook(_take_statistics) for norm in norms]
    try:
        network(x)
    finally:
        for hook in hooks:
            hook.remove()
    return network


def _take_statistics(norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    z = inputs[0].transpose(0, 1).flatten(1)
    variance, mean = torch.var_mean(z, dim=1, correction=1)
    norm.get_buffer("running_mean").copy_(mean)
    norm.get_buffer("running_var").copy_(variance)


@torch.no_grad()
def _replace(module: nn.Module, sample: bool, generator: torch.Generator | None) -> nn.Module | None:
    if isinstance(module, _BINARY | _STE | _INT8):
        if isinstance(module, _STE):
            weight = signs(module.weight)
        elif isinstance(module, _INT8):
            weight = as_they_are(module.weight) if module.counted else rounded(module.weight)
        else:
            weight = module.weight.sample(generator) if sample else module.weight.map()
        layer: nn.Linear | nn.Conv1d | nn.Conv2d
        if isinstance(module, BinaryLinear | SteLinear | Int8Linear):
            layer = nn.Linear(module.in_features, module.out_features, module.bias is not None)
        else:
            sided = not isinstance(module.padding, str) and len(module.padding) > module.dims
            kinds: Any = (PaddedConv1d, PaddedConv2d) if sided else (nn.Conv1d, nn.Conv2d)
            made = kinds[module.dims - 1](
                module.in_channels,
                module.out_channels,
                module.kernel_size,
                module.stride,
                0 if sided else module.padding,
                module.dilation,
                module.groups,
                module.bias is not None,
            )
            if sided:
                made.sides = module.padding
            layer = made
        layer.to(weight)
        layer.weight.copy_(weight)
        if layer.bias is not None and module.bias is not None:
            layer.bias.copy_(module.bias)
        return layer
    if isinstance(module, StochasticBatchNorm1d | StochasticBatchNorm2d):
        kind = nn.BatchNorm1d if isinstance(module, StochasticBatchNorm1d) else nn.BatchNorm2d
        norm = kind(module.num_features, module.eps, module.momentum, module.affine)
        norm.to(module.running_mean)
        norm.load_state_dict(module.state_dict())
        return norm
    if isinstance(module, StochasticMaxPool1d | StochasticMaxPool2d):
        sided = len(module.padding) > module.dims
        pools: Any = (MaxPool1d, MaxPool2d) if sided else (nn.MaxPool1d, nn.MaxPool2d)
        pooling: nn.Module = pools[module.dims - 1](module.kernel_size, module.stride, module.padding)
        return pooling
    if isinstance(module, StochasticLevels | SteLevels):
        return SteLevels(module.bits, float(module.step)).to(module.step.device)
    if isinstance(module, GaussianSample):
        return nn.Identity()
    return Sign() if isinstance(module, StochasticSign | SteSign) else None
