"""Run a module beside its captured graph, and refuse it where the two differ.

The module's own Python code runs on real samples: its forward with all its conditions, its layers' forwards, whatever
stands before or behind them. It runs as a copy in which each weight is certain to be the likeliest one and noise is 0,
in float64 and evaluation mode; so a stochastic layer's mean is the value of the deterministic network, exactly. Layer
by layer, what it computes is compared with `blrc.capture.evaluate`, given the same input: so nothing accumulates, and
what is left to float64's rounding is bounded. Between layers, and from the last one to the output, values have to be
the very same. A decision can then differ on ties only, where a norm is 0 up to that bound.

This is the net below `blrc.capture.allowed`: it needs to know nothing of the ways in which Python can be bent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc.capture.evaluate import Reals, output
from blrc.capture.trace import first_line, twin, undisturbed
from blrc.encode import InputEncoding
from blrc.errors import BlrcError
from blrc.kinds.node import Node
from blrc.net import INPUT
from blrc.nn import Bernoulli
from blrc.nn.activation import StochasticSign
from blrc.nn.geometry import ConvLayer, DenseLayer
from blrc.nn.noise import Noise, Noisy

SAMPLES = 32  # by default
WIDE = 1 << 20  # weights from which on
SAMPLES_OF_WIDE = 8  # suffice by default: a second or two for the CIFAR-10 network at full width
BATCH = 8  # at once: float64 maps of a wide network take some 10 MB a sample
CERTAIN = 1e4  # a logit at which sigmoid is 0 or 1 exactly, in float64
SEED = 20260


def check_count(count: object) -> int | None:
    """Return on how many samples to compare, None for the default.

    Raises:
        BlrcError: no whole number from 1 on: the comparison cannot be switched off.
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
) -> None:
    """Compare a module with its captured graph on calibration samples (spread evenly), or on random ones.

    Args:
        count: how many; by default `SAMPLES`, and fewer of a wide network.

    Raises:
        BlrcError: the module computes something else in some layer (named, with the sample), or it does not run.
    """
    if count is None:
        count = SAMPLES if sum(value.size for value in tensors.values()) < WIDE else SAMPLES_OF_WIDE
    raw, places, what = _chosen(encoding, calibration, count)
    x = encoding.codes(raw).astype(np.float64) / encoding.scale
    with undisturbed(), torch.device("cpu"), torch.autocast("cpu", enabled=False):
        running = _likeliest(model)
        # All in batches; then, should the module look at the size of its batch or at gradients, one sample with them.
        for begin in range(0, len(x), BATCH):
            part = slice(begin, begin + BATCH)
            with torch.no_grad():
                _compare(running, nodes, tensors, x[part], [f"{what} {place}" for place in places[part]])
        with torch.enable_grad():
            _compare(running, nodes, tensors, x[:1], [f"{what} {places[0]}"])


def _chosen(
    encoding: InputEncoding, calibration: NDArray[Any] | None, count: int
) -> tuple[NDArray[Any], list[int], str]:
    """Samples, their numbers, and what to call one."""
    if calibration is not None:
        places = sorted(set(np.linspace(0, len(calibration) - 1, min(count, len(calibration))).astype(int).tolist()))
        return calibration[places], places, "calibration sample"
    low, high = {"uint8": (0, 256), "int8": (-128, 128), "bits": (0, 2)}[encoding.kind]
    raw = np.random.default_rng(SEED).integers(low, high, (count, *encoding.shape)).astype(encoding.dtype)
    return raw, list(range(count)), "random sample"


def _likeliest(model: nn.Module) -> nn.Module:
    """A copy that computes with its likeliest weights, without noise, in float64 on the CPU, in evaluation mode."""
    copied = twin(model).to("cpu", torch.float64)
    copied.eval()
    for module in copied.modules():
        if isinstance(module, Bernoulli):
            with torch.no_grad():
                module.logits.copy_(torch.where(module.logits <= 0, -CERTAIN, CERTAIN))
        if isinstance(module, Noisy):
            module.noise = Noise(torch.Tensor.zero_)
        if isinstance(module, StochasticSign):
            module.hard, module.exact = True, False  # a soft sample, and logits that cancel near 0, are for training
        if isinstance(module, DenseLayer | ConvLayer):
            module.signs_in = None  # rounds large sums, to be faster
    return copied


@dataclass(frozen=True, eq=False)
class _Call:
    x: Reals
    y: Reals


def _compare(
    model: nn.Module, nodes: Sequence[Node], tensors: Mapping[str, NDArray[Any]], x: Reals, samples: Sequence[str]
) -> None:
    calls, result = _run(model, nodes, x, samples[0])
    values: dict[str, Reals] = {INPUT: x}
    for node in nodes:
        made = calls.get(node.name, [])
        if node.kind == "flatten" and not _is_module(model, node.name):  # a function, which is no call of a module
            values[node.name] = output(node, tensors, values[node.inputs[0]]).values
            continue
        if len(made) != 1:
            times = f"{len(made)} times" if made else "never"
            raise BlrcError(
                f"layer {node.name!r}: tracing saw it run once, but on {samples[0]} it ran {times}; forward must not "
                "depend on values, on counters or on being traced"
            )
        _same(node.name, f"its input, which {node.inputs[0]!r} gives,", made[0].x, values[node.inputs[0]], 0.0, samples)
        expected = output(node, tensors, made[0].x)
        _same(node.name, "what it computes", made[0].y, expected.values, expected.slack, samples)
        values[node.name] = made[0].y
    last = nodes[-1].name if nodes else INPUT
    _same(last, "the network's output, which it gives,", result, values[last], 0.0, samples)


def _run(model: nn.Module, nodes: Sequence[Node], x: Reals, sample: str) -> tuple[dict[str, list[_Call]], Reals]:
    calls: dict[str, list[_Call]] = {}
    at = [INPUT]
    with _recording(model, nodes, calls, at):
        try:
            result = model(torch.from_numpy(x.copy()))
        except Exception as error:
            layer = "" if at[-1] == INPUT else f" in or after layer {at[-1]!r}"
            raise BlrcError(f"the module fails on {sample}{layer}: {first_line(error)}") from error
    return calls, _array(result, f"the network's output on {sample}")


@contextmanager
def _recording(model: nn.Module, nodes: Sequence[Node], calls: dict[str, list[_Call]], at: list[str]) -> Iterator[None]:
    """Within it every call of a layer is recorded, with its input and output, and `at` ends in the last one begun."""

    def record(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], y: Any) -> None:
            inputs = (*args, *kwargs.values())
            if len(inputs) != 1:
                raise BlrcError(f"layer {name!r}: is called with {len(inputs)} inputs; a layer takes one")
            calls.setdefault(name, []).append(_Call(_array(inputs[0], name), _array(y, name)))

        return hook

    def begin(name: str) -> Any:
        return lambda module, args: at.append(name)

    handles = []
    for node in nodes:
        if _is_module(model, node.name):
            module = model.get_submodule(node.name)
            handles.append(module.register_forward_pre_hook(begin(node.name)))
            handles.append(module.register_forward_hook(record(node.name), with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _is_module(model: nn.Module, name: str) -> bool:
    return any(name == other for other, _ in model.named_modules(remove_duplicate=False))


def _array(value: Any, who: str) -> Reals:
    """The values of a tensor, or the means of a Gaussian, whose variances are 0 where weights are certain."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], torch.Tensor):
        value = value[0]
    if not isinstance(value, torch.Tensor):
        raise BlrcError(f"{who}: gives a {type(value).__name__}, not a tensor; forward must pass on what layers give")
    return value.detach().to(torch.float64).numpy()


def _same(name: str, what: str, found: Reals, expected: Reals, slack: Reals | float, samples: Sequence[str]) -> None:
    """Refuse a difference beyond `slack`; what is not finite on both sides (a norm divides by 0) is the same."""
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
