"""Run the given module itself, and compare the values that pass between its layers.

A forward may branch on anything: the type, the number or the memory layout of its inputs, whether gradients are taken,
where a weight lies in memory, or how often it was called. So the module itself, not a copy, runs in its own type and on
its own device under several conditions. Its weights are random, so the values that a layer computes are not compared
here; `blrc.frontend.capture.check` does that with a copy. But each layer has to run once, with the weights and options
that were captured, on exactly the output of the layer before it, and the network's output has to be that of the last
layer. Afterwards everything that the module holds is restored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.capture.copies import Kept
from blrc.frontend.capture.recording import begin_evaluation, ends, run
from blrc.frontend.capture.walk import array_of, named_modules
from blrc.frontend.graph import KINDS
from blrc.frontend.kinds.node import Node
from blrc.net.heads import Heads
from blrc.net.net import INPUT

MANY = 12  # samples at once at least; the full-width CIFAR-10 network takes 0.1 s for each on a core
Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class _Condition:
    """Describe the circumstances of a call.

    Attributes:
        what: the words for it in messages.
        mode: torch's context in which the module runs.
        samples: how many samples go in at once; 0 stands for all.
        of_input: whether gradients of the input are taken, too.
        layout: memory layout of the input.
    """

    what: str
    mode: type[AbstractContextManager[Any]]
    samples: int = 0
    of_input: bool = False
    layout: torch.memory_format | None = torch.contiguous_format  # None: with gaps between the values


_CONDITIONS = (
    _Condition("in inference mode", torch.inference_mode),
    _Condition("in inference mode, again", torch.inference_mode, samples=3),
    _Condition("without gradients, channels last", torch.no_grad, layout=torch.channels_last),
    _Condition("without gradients, not contiguous", torch.no_grad, samples=2, layout=None),
    _Condition("without gradients", torch.no_grad, samples=1),
    _Condition("in inference mode", torch.inference_mode, samples=1),
    _Condition("with gradients", torch.enable_grad, samples=2),
    _Condition("with gradients of its input", torch.enable_grad, samples=1, of_input=True),
)


def check_wiring(
    model: nn.Module,
    nodes: Sequence[Node],
    tensors: Tensors,
    x: NDArray[np.float64],
    samples: str,
    heads: Heads = (),
) -> None:
    """Run a module itself under several conditions.

    Raises:
        BlrcError: a layer does not run once on the output of the layer before it, or not with the captured weights.
    """
    dtype, device = own_type(model, nodes)
    differentiable = not any(value.is_inference() for value in _of_layers(model, nodes))
    enough = np.resize(x, (max(len(x), MANY), *x.shape[1:]))  # samples again, where there are few
    given = torch.from_numpy(enough).to(device, dtype)
    kept = Kept(model)
    with ExitStack() as stack:
        stack.callback(kept.restore)
        if device.type != "cpu":
            stack.enter_context(torch.autocast(device.type, enabled=False))
            stack.enter_context(torch.random.fork_rng(devices=[device], device_type=device.type))
        begin_evaluation(model)
        for condition in _CONDITIONS:
            if condition.mode is torch.enable_grad and not differentiable:
                continue  # a module that was made in inference mode
            part = given[: condition.samples] if condition.samples else given
            part = _laid_out(part, condition.layout)
            what = f"{samples} ({len(part)} at once, {str(dtype).removeprefix('torch.')}, {condition.what})"
            with condition.mode():
                _check_run(model, nodes, tensors, part.requires_grad_(condition.of_input), what, heads)


def _laid_out(x: torch.Tensor, layout: torch.memory_format | None) -> torch.Tensor:
    if layout is None:
        return torch.stack((x, x), dim=-1)[..., 0]
    return x.clone(memory_format=layout if x.ndim == 4 else torch.contiguous_format)


def own_type(model: nn.Module, nodes: Sequence[Node]) -> tuple[torch.dtype, torch.device]:
    """Return the type and the device of the first real numbers that a layer of a module holds."""
    for value in _of_layers(model, nodes):
        if value.is_floating_point():
            return value.dtype, value.device
    return torch.float32, torch.device("cpu")


def _of_layers(model: nn.Module, nodes: Sequence[Node]) -> list[torch.Tensor]:
    modules = named_modules(model)
    return [value for node in nodes if node.name in modules for value in named_tensors(modules[node.name]).values()]


def _check_run(
    model: nn.Module, nodes: Sequence[Node], tensors: Tensors, x: torch.Tensor, what: str, heads: Heads
) -> None:
    kinds = {node.name: node for node in nodes}

    def visit(name: str, layer: nn.Module) -> None:
        where = f"layer {name!r}: on {what}"
        if layer.training:
            raise BlrcError(f"{where} it computes as in training; forward must leave the mode of layers alone")
        if KINDS[kinds[name].kind].read(layer) != kinds[name].options:
            raise BlrcError(f"{where} its options are others than those that were captured; forward must leave them")
        for key, value in named_tensors(layer).items():
            captured = tensors.get(f"{name}.{key}")
            if captured is None or not np.array_equal(captured, array_of(value), equal_nan=captured.dtype.kind == "f"):
                raise BlrcError(f"{where} its {key} is another than the captured one; forward must leave it alone")

    begun = x.detach().clone()
    modules = named_modules(model)
    done = run(modules, nodes, x, what, visit)
    values: dict[str, Any] = {INPUT: begun}
    for node in nodes:
        before = values[node.inputs[0]]
        if node.kind == "flatten" and node.name not in modules:  # a function, which is no call of a module
            values[node.name] = before.flatten(1)
            continue
        call = done.call(node.name, what)
        if not _equal(call.x, before):
            raise _differs(node.name, what, f"its input is not what {node.inputs[0]!r} gives")
        values[node.name] = call.y
    for last, given in ends(done.result, nodes, heads, type(model).__name__, what):
        if not _equal(given, values[last]):
            raise _differs(last, what, "the network's output is not what it gives")


def named_tensors(layer: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a layer and of what it holds, as its forward finds them now."""
    return {
        f"{name}.{key}" if name else key: value
        for name, module in named_modules(layer).items()
        for registry in (module._parameters, module._buffers)
        for key, value in registry.items()
        if value is not None
    }


def _differs(name: str, what: str, how: str) -> BlrcError:
    return BlrcError(
        f"layer {name!r}: the module differs from its captured graph on {what}: {how}; write forward as plain calls of "
        "layers"
    )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(torch.equal(a, b) or ((a == b) | (a.isnan() & b.isnan())).all())
