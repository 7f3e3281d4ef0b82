"""Run a module beside its captured graph, and refuse it where the two differ.

The module's own Python code runs on real samples: its forward with all its conditions, the forwards of its layers, and
whatever stands before or behind them. It runs as a copy in float64 and in evaluation mode. In this copy each weight
certainly has its likeliest value and noise is 0, so the mean of a stochastic layer is exactly the value of the
deterministic network. The output of each layer is compared with that of `blrc.frontend.capture.evaluate` for the same
input. So errors do not accumulate, and what float64's rounding can do is bounded. Between layers, and from the last
one to the output, values have to be identical. A decision can then differ only on ties, where a norm is 0 up to that
bound.

This check backs up `blrc.frontend.capture.allowed`: it does not have to know the ways in which Python code can change
what a module computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.capture.copies import copied
from blrc.frontend.capture.evaluate import Reals, output
from blrc.frontend.capture.recording import begin_evaluation, ends, run
from blrc.frontend.capture.trace import undisturbed
from blrc.frontend.capture.walk import named_modules
from blrc.frontend.capture.wiring import check_wiring, own_type
from blrc.frontend.kinds.node import Node
from blrc.net.elements import ELEMENTS
from blrc.net.encoding import InputEncoding
from blrc.net.heads import Heads
from blrc.net.net import INPUT
from blrc.nn.layers.activation import StochasticSign
from blrc.nn.layers.geometry import ConvLayer, DenseLayer
from blrc.nn.noise import Noise, Noisy
from blrc.nn.weights.distribution import WeightDistribution

SAMPLES = 32  # the default number of samples to compare
WIDE = 1 << 20  # a network of at least so many values in its tensors is wide
SAMPLES_OF_WIDE = 8  # the default for wide networks; the CIFAR-10 network at full width takes a second or two
BATCH = 8  # samples at once: float64 maps of a wide network take some 10 MB a sample
SEED = 20260


@dataclass(frozen=True, eq=False)
class Inputs:
    """Hold samples on which a module is compared with its layers.

    Attributes:
        raw: what a device is given, (N, *shape).
        real: what the module is given.
        names: what messages call each sample.
        what: what messages call their kind.
    """

    raw: NDArray[Any]
    real: Reals
    names: list[str]
    what: str

    def codes(self, encoding: InputEncoding) -> Reals:
        """Return what the layers behind an input are given."""
        return encoding.codes(self.raw).astype(np.float64) / encoding.scale


def check_count(count: object) -> int | None:
    """Return how many samples to compare, or None for the default.

    Raises:
        BlrcError: `count` is not a whole number of at least 1; the comparison cannot be switched off.
    """
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise BlrcError(
            f"check_samples {count!r}: must be a whole number from 1 on; that the file is the module is always checked"
        )
    return int(count)


def check_equal(
    model: nn.Module,
    nodes: Sequence[Node],
    tensors: Mapping[str, NDArray[Any]],
    encoding: InputEncoding,
    calibration: NDArray[Any] | None,
    count: int | None = None,
    heads: Heads = (),
) -> None:
    """Compare a module with its captured graph on calibration samples (spread evenly), or on random ones.

    Args:
        count: number of samples; by default `SAMPLES`, and `SAMPLES_OF_WIDE` for a network of at least `WIDE` values.

    Raises:
        BlrcError: the module computes something else in some layer (named, with the sample), or it does not run.
    """
    inputs = inputs_of(encoding, calibration, count, sum(value.size for value in tensors.values()))
    x = inputs.real
    with undisturbed(), torch.autocast("cpu", enabled=False):
        with torch.device("cpu"):
            _check_values(model, nodes, tensors, x, inputs.names, heads)
        check_wiring(model, nodes, tensors, x, f"{inputs.what}s", heads)


def _check_values(
    model: nn.Module,
    nodes: Sequence[Node],
    tensors: Mapping[str, NDArray[Any]],
    x: Reals,
    samples: Sequence[str],
    heads: Heads,
) -> None:
    running = _likeliest(model, torch.float64)
    # All in batches; then, should the module look at the size of its batch or at gradients, one sample with them.
    for begin in range(0, len(x), BATCH):
        part = slice(begin, begin + BATCH)
        with torch.no_grad():
            _compare(running, nodes, tensors, torch.from_numpy(x[part]), samples[part], heads)
    with torch.enable_grad():
        _compare(running, nodes, tensors, torch.from_numpy(x[:1]), samples, heads)
    # And in its own type, should it look at that: what rounding may do is as much larger.
    dtype, _ = own_type(model, nodes)
    if dtype != torch.float64:
        with torch.inference_mode():
            _compare(_likeliest(model, None), nodes, tensors, torch.from_numpy(x).to(dtype), samples, heads)


def inputs_of(encoding: InputEncoding, calibration: NDArray[Any] | None, count: int | None, size: int) -> Inputs:
    """Return inputs on which to compare a module.

    Args:
        count: how many; None takes the default for a network of `size` values.
    """
    if count is None:
        count = SAMPLES if size < WIDE else SAMPLES_OF_WIDE
    raw, places, what = _chosen(encoding, calibration, count)
    if encoding.exact:  # as torchvision gives them, in float32, whatever the module then computes in
        real: Reals = encoding.real(raw).astype(np.float64)
    else:
        real = encoding.codes(raw).astype(np.float64) / encoding.scale
    return Inputs(raw, real, [f"{what} {place}" for place in places], what)


def _chosen(
    encoding: InputEncoding, calibration: NDArray[Any] | None, count: int
) -> tuple[NDArray[Any], list[int], str]:
    """Return the samples to compare, their numbers, and the words that name such a sample in messages."""
    if calibration is not None:
        places = sorted(set(np.linspace(0, len(calibration) - 1, min(count, len(calibration))).astype(int).tolist()))
        return calibration[places], places, "calibration sample"
    low, high = ELEMENTS[encoding.kind].low, ELEMENTS[encoding.kind].high + 1
    raw = np.random.default_rng(SEED).integers(low, high, (count, *encoding.shape)).astype(encoding.dtype)
    return raw, list(range(count)), "random sample"


def _likeliest(model: nn.Module, dtype: torch.dtype | None) -> nn.Module:
    """Return a copy that computes with its likeliest weights, without noise, on the CPU, in evaluation mode.

    Args:
        dtype: type of the copy's real numbers; None leaves them as they are.
    """

    def convert(value: torch.Tensor) -> torch.Tensor:
        return value.to("cpu", dtype if value.is_floating_point() else None, copy=True)

    twin = copied(model, convert)
    begin_evaluation(twin)
    for module in named_modules(twin).values():
        if isinstance(module, WeightDistribution):
            module.settle_()
        if isinstance(module, Noisy):
            module.noise = Noise(torch.Tensor.zero_)
        if isinstance(module, StochasticSign):
            module.hard, module.exact = True, False  # a soft sample, and logits that cancel near 0, are for training
        if isinstance(module, DenseLayer | ConvLayer):
            module.signs_in = None  # rounds large sums, to be faster
    return twin


def _compare(
    model: nn.Module,
    nodes: Sequence[Node],
    tensors: Mapping[str, NDArray[Any]],
    x: torch.Tensor,
    samples: Sequence[str],
    heads: Heads,
) -> None:
    modules = named_modules(model)
    begun = x.detach().clone()
    done = run(modules, nodes, x.clone(), samples[0], lambda name, module: None)
    coarser = torch.finfo(x.dtype).eps / torch.finfo(torch.float64).eps
    underflow = torch.finfo(x.dtype).tiny  # below it float16 has few digits; of the other types it is next to nothing
    values: dict[str, Reals] = {INPUT: _array(begun, INPUT)}
    for node in nodes:
        before = values[node.inputs[0]]
        if node.kind == "flatten" and node.name not in modules:  # a function, which is no call of a module
            values[node.name] = output(node, tensors, before).values
            continue
        call = done.call(node.name, samples[0])
        given, found = (_array(value, f"layer {node.name!r}") for value in (call.x, call.y))
        _same(node.name, f"its input, which {node.inputs[0]!r} gives,", given, before, 0.0, samples)
        expected = output(node, tensors, given)
        _same(node.name, "what it computes", found, expected.values, expected.slack * coarser + underflow, samples)
        values[node.name] = found
    for last, given in ends(done.result, nodes, heads, type(model).__name__, samples[0]):
        result = _array(given, f"the network's output on {samples[0]}")
        _same(last, "the network's output, which it gives,", result, values[last], 0.0, samples)


def _array(value: Any, who: str) -> Reals:
    """Return the values of a tensor, or the means of a Gaussian.

    Where the weights are certain the variances of that Gaussian are 0.
    """
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], torch.Tensor):
        value = value[0]
    if not isinstance(value, torch.Tensor):
        raise BlrcError(f"{who}: gives a {type(value).__name__}, not a tensor; forward must pass on what layers give")
    return value.detach().to(torch.float64).numpy()


def _same(name: str, what: str, found: Reals, expected: Reals, slack: Reals | float, samples: Sequence[str]) -> None:
    """Refuse a difference of more than `slack`.

    Two values count as equal if neither is finite, as where a norm divides by 0.
    """
    where = f"layer {name!r}: the module differs from its captured graph on"
    if found.shape != expected.shape:
        raise BlrcError(
            f"{where} {samples[0]}: {what} has shape {found.shape}, captured {expected.shape}; write forward as plain "
            "calls of layers"
        )
    with np.errstate(invalid="ignore"):
        close = (
            (np.abs(found - expected) <= slack) | (found == expected) | ~(np.isfinite(found) | np.isfinite(expected))
        )
    if close.all():
        return
    place = tuple(int(i) for i in np.argwhere(~close)[0])
    raise BlrcError(
        f"{where} {samples[place[0]]}: {what} is {found[place]:.9g} at {place[1:]}, captured {expected[place]:.9g} "
        f"({int((~close).sum())} of {close.size} values differ); write forward as plain calls of layers"
    )
