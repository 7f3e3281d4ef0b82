"""From a network over random weights to one deterministic network, in plain torch modules."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from blrc.nn.layers.activation import StochasticSign
from blrc.nn.layers.binary import BinaryConv2d, BinaryLinear
from blrc.nn.layers.norm import StochasticBatchNorm1d, StochasticBatchNorm2d
from blrc.nn.layers.pool import StochasticMaxPool2d
from blrc.nn.layers.ste import SteConv2d, SteLinear, SteSign, signs


class Sign(nn.Module):
    """b(a) = +1 where a >= 0, else -1; +1 on ties, unlike `torch.sign`. Any shape; no gradient.

    Example:
        >>> Sign()(torch.tensor([-2.0, 0.0, 3.0]))
        tensor([-1.,  1.,  1.])
    """

    def forward(self, x: Tensor) -> Tensor:
        return signs(x)


def deterministic(model: nn.Module, sample: bool = False, generator: torch.Generator | None = None) -> nn.Module:
    """A copy of a network with fixed +-1 weights: the MAP ones, or one sample (paper, section 4.5).

    `BinaryLinear` becomes `torch.nn.Linear`, the norms and pools torch's, `StochasticSign` becomes `Sign`; names stay.
    So do the layers of a Binarized NN, whose weights are the signs of its shadow weights, sampled or not.
    The norms keep the statistics of the stochastic network, which are not those of this one: call `reestimate`.

    Args:
        model: any module; its own code runs as before.
        sample: draw the weights (from `generator`) instead of taking the likeliest.

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
    """Set every norm of a deterministic network to its statistics on `x`, layer by layer; evaluation mode from then on.

    The paper's "directly computing the batch statistics" (section 4.5), all of `x` in one batch: variance over M - 1.
    """
    # Not by norms in training mode: those normalise with the variance over M while they record the one over M - 1, so
    # the layers behind would be estimated on other activations than evaluation gives them.
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
    if isinstance(module, BinaryLinear | BinaryConv2d | SteLinear | SteConv2d):
        if isinstance(module, SteLinear | SteConv2d):
            weight = signs(module.weight)
        else:
            weight = module.weight.sample(generator) if sample else module.weight.map()
        layer: nn.Linear | nn.Conv2d
        if isinstance(module, BinaryLinear | SteLinear):
            layer = nn.Linear(module.in_features, module.out_features, module.bias is not None)
        else:
            layer = nn.Conv2d(
                module.in_channels,
                module.out_channels,
                module.kernel_size,
                module.stride,
                module.padding,
                module.dilation,
                module.groups,
                module.bias is not None,
            )
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
    if isinstance(module, StochasticMaxPool2d):
        return nn.MaxPool2d(module.kernel_size, module.stride, module.padding)
    return Sign() if isinstance(module, StochasticSign | SteSign) else None
