"""Initialise a binary network from a trained full-precision network (paper, section 4.4), or at random."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from blrc.errors import BlrcError
from blrc.net.choices import level_step
from blrc.nn.layers.binary import BinaryConv1d, BinaryConv2d, BinaryLinear, SoftmaxLinear
from blrc.nn.layers.levels import SteLevels, StochasticLevels
from blrc.nn.layers.norm import StochasticBatchNorm1d, StochasticBatchNorm2d

LAYERS = BinaryLinear | BinaryConv1d | BinaryConv2d | SoftmaxLinear
"""The layers that take weights from a full-precision network."""
STEP_BITS = 12
"""Significant bits of a step: with those of a code they are no more than a float32 has."""
STEP_VALUES = 100_000
"""Activations of a layer, about, on which its step is chosen."""
STEP_SHARES = tuple(0.05 * n for n in range(1, 33))
"""Steps from which the search begins, as shares of the one that gives the largest activation the largest code."""
STEP_ROUNDS = 8
"""Improvements of each step that is tried, after which the error hardly falls."""


@torch.no_grad()
def transfer_(target: nn.Module, source: nn.Module) -> None:
    """Set `target`'s weight distributions from `source`, a full-precision network whose layers have the same names.

    Each layer gets ``E[B] = w / std(w)``, as far as its distribution allows (`Bernoulli.transfer_`,
    `Ternary.transfer_`), and its bias is divided by the same std. The softmax layer is copied. Norms over random
    variables are reset: gamma = 1, beta = 0, no running statistics. Of torch's own norms, behind which activations are
    real, gamma and beta are copied. Where the target rounds these to levels, call `choose_steps_` next.

    Raises:
        BlrcError: a layer has no counterpart, or one of another shape, or its weights are all equal or not finite (the
            message names the layer), or the target has no layer to set, as where target and source are exchanged.

    Example:
        >>> target, source = nn.Sequential(BinaryLinear(3, 2)), nn.Sequential(nn.Linear(3, 2, bias=False))
        >>> transfer_(target, source)
        >>> bool((target[0].weight.map() == source[0].weight.sign()).all())
        True
    """
    layers = dict(source.named_modules())
    if not any(isinstance(module, LAYERS) for module in target.modules()):
        raise BlrcError("transfer: the target has no random weights; give the target first and the source behind it")
    for name, module in target.named_modules():
        if isinstance(module, StochasticBatchNorm1d | StochasticBatchNorm2d):
            module.reset_running_stats()
            if module.weight is not None and module.bias is not None:
                module.weight.fill_(1.0)
                module.bias.zero_()
        layer = layers.get(name)
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            _copy_norm(name, module, layer)
        if not isinstance(module, LAYERS):
            continue
        if not isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d) or layer.weight.shape != module.weight.shape:
            found = "no such layer" if layer is None else f"{layer}"
            raise BlrcError(
                f"transfer: layer {name!r} needs a full-precision layer of weight shape {tuple(module.weight.shape)} "
                f"under the same name, found {found}"
            )
        if isinstance(module, SoftmaxLinear):
            module.weight.copy_(layer.weight)
            scale = 1.0
        else:
            try:
                scale = module.weight.transfer_(layer.weight)
            except BlrcError as error:
                raise BlrcError(f"transfer: layer {name!r}: {error}") from None
        if module.bias is not None:
            module.bias.copy_(layer.bias * scale) if layer.bias is not None else module.bias.zero_()


def _copy_norm(name: str, target: nn.BatchNorm1d | nn.BatchNorm2d, source: nn.Module | None) -> None:
    """Reset the statistics of one of torch's own norms, and take gamma and beta from its counterpart."""
    if (
        not isinstance(source, nn.BatchNorm1d | nn.BatchNorm2d)
        or source.num_features != target.num_features
        or source.affine != target.affine
    ):
        raise BlrcError(
            f"transfer: layer {name!r} needs a norm of {target.num_features} channels "
            f"{'with' if target.affine else 'without'} gamma and beta under the same name, found "
            f"{'no such layer' if source is None else source}"
        )
    target.reset_running_stats()
    if target.affine:
        target.weight.copy_(source.weight)
        target.bias.copy_(source.bias)


@torch.no_grad()
def choose_steps_(target: nn.Module, source: nn.Module, inputs: Tensor) -> None:
    """Set the step of each layer of levels so that it rounds the source's activations with the least squared error.

    The n-th layer of levels stands in the place of the n-th ReLU of `source`, a trained full-precision network, whose
    outputs for `inputs` are what is rounded. Steps are rounded to `STEP_BITS` significant bits, so that every value
    and every threshold is a number of float32.

    Args:
        target: network with layers of levels.
        source: network with as many `torch.nn.ReLU`, in evaluation mode.
        inputs: samples as `source` takes them; a few hundred suffice.

    Raises:
        BlrcError: the numbers of layers differ, a ReLU is used more than once or not at all, or the outputs of a ReLU
            are all 0, not finite, or so small or large that no step suits them.
    """
    levels = [
        (name, module) for name, module in target.named_modules() if isinstance(module, SteLevels | StochasticLevels)
    ]
    relus = [module for module in source.modules() if isinstance(module, nn.ReLU)]
    if len(levels) != len(relus):
        raise BlrcError(f"choose_steps: {len(levels)} layers of levels, but the source has {len(relus)} ReLUs")
    if not len(inputs):
        raise BlrcError("choose_steps: no inputs; give a few hundred samples, as the source takes them")
    found: list[Tensor] = []
    hooks = [
        relu.register_forward_hook(lambda _, __, output: found.append(output.detach().flatten().clone()))
        for relu in relus
    ]
    try:
        source(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if len(found) != len(relus):
        raise BlrcError(
            f"choose_steps: the source's {len(relus)} ReLUs ran {len(found)} times; each has to be used once, so give "
            "every place a nn.ReLU of its own"
        )
    for (name, module), values in zip(levels, found, strict=True):
        step = _best_step(values[:: max(1, values.numel() // STEP_VALUES)].double(), module.top)
        if step is None:
            raise BlrcError(f"choose_steps: layer {name!r}: the source's activations are all 0 or not finite")
        module.step.fill_(level_step(f"choose_steps: layer {name!r}", step))


def _best_step(values: Tensor, top: int) -> float | None:
    """Return the step that rounds non-negative values to 0..top steps with the least squared error, if there is any."""
    most = float(values.max())
    if not 0 < most < math.inf:
        return None
    best, least = 0.0, math.inf
    for share in STEP_SHARES:
        step, error = share * most / top, math.inf
        for _ in range(STEP_ROUNDS):  # in turn the best codes for a step, and the best step for these codes
            codes = (values / step).add_(0.5).floor_().clamp_(0, top)
            now = float((codes * step - values).square().mean())
            if now < least:
                best, least = step, now
            if now >= error or not codes.any():
                break
            step, error = float((codes * values).sum() / codes.square().sum()), now
    mantissa, exponent = math.frexp(best)
    return math.ldexp(round(math.ldexp(mantissa, STEP_BITS)), exponent - STEP_BITS)


@torch.no_grad()
def xavier_(model: nn.Module) -> None:
    """Draw the logits of every random weight, and the weights of softmax layers, as Glorot & Bengio (2010) do.

    The distribution is uniform over +-sqrt(6 / (fan_in + fan_out)) about the logits at which all values are equally
    likely: every p(B = -1) of binary weights is close to 1/2. Biases are set to 0. This is the paper's ablation of
    weight transfer (section 5.3).

    Example:
        >>> layer = BinaryLinear(100, 50)
        >>> xavier_(layer)
        >>> bool(layer.weight.logits.abs().max() <= 0.2)
        True
    """
    for module in model.modules():
        if not isinstance(module, LAYERS):
            continue
        if module.bias is not None:
            module.bias.zero_()
        if isinstance(module, SoftmaxLinear):
            nn.init.xavier_uniform_(module.weight)
        else:
            shape = module.weight.shape
            module.weight.scatter_(math.sqrt(6.0 / ((shape[0] + shape[1]) * math.prod(shape[2:]))))
