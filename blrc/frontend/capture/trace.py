"""Follow a module's ``forward`` to a graph of named layers.

torch.fx runs ``forward`` on a copy of the module, in evaluation mode, with the layers of `blrc.nn` as leaves. Nothing
needs to be registered. The module that was given stays as it is, whatever its code does when it runs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from blrc.errors import BlrcError
from blrc.frontend.capture.allowed import (
    check_calls,
    check_container,
    check_evaluates,
    check_layer,
    check_materialised,
    check_process,
    explain,
)
from blrc.frontend.capture.copies import copied
from blrc.frontend.capture.known import SKIPPED, check_fixed, kind_of, known_class
from blrc.frontend.capture.recording import first_line, heads_of, outputs, unpacked
from blrc.frontend.capture.walk import all_names, free_name, named_modules
from blrc.frontend.graph import KINDS, GraphModel
from blrc.frontend.kinds.linear import RANDOM
from blrc.frontend.kinds.node import Node
from blrc.net.heads import Heads
from blrc.net.net import INPUT
from blrc.reading.given import check_module, wrapper

# Layers over random variables that hand a Gaussian on, their counterparts over tensors, and what to use instead where
# one kind follows the other: that could not run.
_RANDOM_KINDS = tuple(kind.name for kind in RANDOM)
_GAUSSIAN = (*_RANDOM_KINDS, "batch_norm1d", "batch_norm2d", "max_pool1d", "max_pool2d")
_GIVEN = ("scale", "shift", "prelu", "relu", "clip", "threshold", "strict_sign")
_AVERAGES = ("average_pool1d", "average_pool2d", "global_pool1d", "global_pool2d")
_TENSOR = (
    *("ste_conv1d", "ste_conv2d", "ste_linear", "int8_conv1d", "int8_conv2d", "int8_linear"),
    *("whole_conv1d", "whole_conv2d", "whole_linear"),
    *("plain_norm1d", "plain_norm2d", "plain_pool1d", "plain_pool2d"),
    *("gaussian_sample", *_GIVEN[:5]),
)
_BEHIND_TENSOR = {
    "batch_norm1d": "torch.nn.BatchNorm1d",
    "batch_norm2d": "torch.nn.BatchNorm2d",
    "max_pool1d": "torch.nn.MaxPool1d",
    "max_pool2d": "torch.nn.MaxPool2d",
    "sign": "blrc.nn.SteSign",
    "levels": "blrc.nn.SteLevels", "gaussian_sample": "the tensor as it is",
}  # fmt: skip
_BEHIND_GAUSSIAN = {
    "plain_norm1d": "blrc.nn.StochasticBatchNorm1d",
    "plain_norm2d": "blrc.nn.StochasticBatchNorm2d",
    "plain_pool1d": "blrc.nn.StochasticMaxPool1d",
    "plain_pool2d": "blrc.nn.StochasticMaxPool2d",
    "ste_sign": "blrc.nn.StochasticSign", "ste_levels": "blrc.nn.StochasticLevels",
    "even_levels": "blrc.nn.StochasticLevels",
    **dict.fromkeys(_AVERAGES, "it behind blrc.nn.StochasticSign"),
    **dict.fromkeys(_GIVEN, "it behind blrc.nn.SteConv2d or SteLinear"),
}  # fmt: skip
MOST_STEPS = 10_000  # of a forward; a loop that never ends while it is traced would take all memory
_INSTEAD: Mapping[type | tuple[type, ...], str] = {
    nn.Conv2d: "use blrc.nn.BinaryConv2d (or SteConv2d)",
    nn.SyncBatchNorm: "use torch.nn.BatchNorm1d or BatchNorm2d, which can load its state_dict",
    (nn.Softmax, nn.LogSoftmax): "leave it out where it ends the network: the labels are the same",
}
_INSTEAD_OF = {
    **dict.fromkeys(("sign", "sgn", "where"), "use blrc.nn.SteSign (or StochasticSign)"),
    **dict.fromkeys(("softmax", "log_softmax"), "leave it out where it ends the network: the labels are the same"),
    **dict.fromkeys(("hardtanh", "clamp"), "use nn.Hardtanh"),
    **dict.fromkeys(("mean", "sum"), "use nn.AdaptiveAvgPool2d(1) and nn.Flatten()"),
    **dict.fromkeys(("avg_pool2d", "adaptive_avg_pool2d"), "use nn.AvgPool2d, or nn.AdaptiveAvgPool2d(1)"),
    **dict.fromkeys(("avg_pool1d", "adaptive_avg_pool1d"), "use nn.AvgPool1d, or nn.AdaptiveAvgPool1d(1)"),
}
"""Name what to use in place of a function of torch."""


def capture(model: nn.Module) -> tuple[Node, ...]:
    """Return the layers of a module, as `capture_heads` does."""
    return capture_heads(model)[0]


def capture_heads(model: nn.Module, names: Sequence[str] | None = None) -> tuple[tuple[Node, ...], Heads]:
    """Return the graph of a module, and its heads if it returns several outputs.

    The module may be a user's own, or one that `GraphModel` built and that may have been changed since.

    Args:
        names: names for the heads, in their order; None takes those that the forward gives them.

    Raises:
        BlrcError: a layer or operation without a binary form (named, with what to use instead), a layer that computes
            something else than its class (see `blrc.frontend.capture.allowed`), several inputs, a
            ``forward`` that cannot be followed, or something that is no module.
    """
    check_module(model)
    if known_class(model) is not None:
        raise BlrcError(
            f"a single {type(model).__name__} is a layer, not a network; put the layers into an nn.Sequential"
        )
    modules = named_modules(model)
    check_process()
    check_materialised(modules)
    check_container("", model)
    check_calls(modules)
    if isinstance(model, GraphModel):
        _check_names(model)
    with undisturbed():
        twin = copied(model)
        try:
            twin.eval()  # What is exported is what evaluation computes, whatever mode the module is in.
            return _followed(twin, names)
        except BaseException as error:
            if type(error) is KeyboardInterrupt:
                raise
            explain(named_modules(twin))
            if isinstance(error, BlrcError):
                raise
            raise BlrcError(
                f"{type(model).__name__}.forward cannot be followed ({_reason(error)}); write it as plain calls of "
                "layers, without conditions on data"
            ) from error


def _reason(error: BaseException) -> str:
    """Say why tracing failed."""
    line = first_line(error)
    if "__cuda_array_interface__" in line:  # torch's words for a tensor that was made of a traced value
        return "it calls a function of torch that takes tensors only, such as that of an autograd function"
    return line


def _followed(model: nn.Module, names: Sequence[str] | None) -> tuple[tuple[Node, ...], Heads]:
    modules = named_modules(model)
    tracer = _Tracer(modules)
    traced = tracer.trace(model)
    for name in tracer.called:
        if known_class(modules[name]) is None:
            check_container(name, modules[name])
    nodes, values = _nodes(modules, traced)
    (result,) = next(node for node in reversed(traced.nodes) if node.op == "output").args
    found = outputs(unpacked(result), type(model).__name__, names)
    layers = {name: values.get(x, "") if isinstance(x, fx.Node) else "" for name, x in found.items()}
    return tuple(nodes), heads_of(layers, nodes[-1].name if nodes else INPUT, type(model).__name__)


class _Tracer(fx.Tracer):
    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.called: list[str] = []
        self.steps = 0
        self.names = {id(module): name for name, module in modules.items()}

    def path_of_module(self, mod: nn.Module) -> str:
        if id(mod) not in self.names:
            raise BlrcError(
                f"forward calls a {type(mod).__name__} that is no part of the network; make it an attribute of a module"
            )
        return self.names[id(mod)]

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return known_class(m) is not None or super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self.called.append(self.path_of_module(m))
        if known_class(m) is None:
            check_container(self.called[-1], m)  # before its hooks run, which may never end on what tracing gives them
        return super().call_module(m, forward, args, kwargs)

    def create_node(self, *args: Any, **options: Any) -> fx.Node:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise BlrcError(
                f"forward takes more than {MOST_STEPS} steps; write it as plain calls of layers, without loops that "
                "wait for a value"
            )
        return super().create_node(*args, **options)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the random number generators of torch, NumPy and Python on leaving this context, whatever a module draws.

    Within it torch is not in inference mode, whose tensors have no gradients.
    """
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode(False):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)


def _check_names(model: GraphModel) -> None:
    """Refuse a loaded network that lacks a layer of its graph, or has a layer that its graph never runs."""
    names = [node.name for node in model.nodes]
    have = set(all_names(model))
    for name in names:
        if name not in have:
            raise BlrcError(
                f"layer {name!r} of the loaded network was removed or renamed, but its forward runs it; put an "
                "nn.Identity() there, or write the changed network as a module of your own"
            )
    for name in sorted(have - {""}):
        inside = any(name == other or name.startswith(f"{other}.") for other in names)
        if not inside and not any(other.startswith(f"{name}.") for other in names):
            raise BlrcError(
                f"layer {name!r} was added to the loaded network, whose forward never runs it; put it into an "
                "nn.Sequential in the place of another layer, or write the changed network as a module of your own"
            )


def _nodes(modules: Mapping[str, nn.Module], traced: fx.Graph) -> tuple[list[Node], dict[fx.Node, str]]:
    values: dict[fx.Node, str] = {}
    nodes: list[Node] = []
    for node in traced.nodes:
        if node.op == "placeholder":
            if INPUT in values.values():
                raise BlrcError(f"{type(modules['']).__name__}.forward has several inputs; a network takes one")
            values[node] = INPUT
        elif node.op != "output" and unpacked(node) is node:
            captured = _capture_node(modules, node, values)
            if isinstance(captured, str):
                values[node] = captured
                continue
            if captured.name == INPUT:
                raise BlrcError(f"layer {INPUT!r}: that name stands for the network's input; give the layer another")
            if captured.name in {other.name for other in nodes}:
                raise BlrcError(f"layer {captured.name!r} is used twice; make a layer of its own for each use")
            _check_flow(captured, nodes)
            nodes.append(captured)
            values[node] = captured.name
    return nodes, values


def _capture_node(modules: Mapping[str, nn.Module], node: fx.Node, values: Mapping[fx.Node, str]) -> Node | str:
    """Return the layer that a node of the trace calls, or the name of the value that the node merely passes on."""
    inputs = tuple(values[x] for x in node.all_input_nodes)
    if node.op == "call_module":
        name = str(node.target)
        module = modules[name]
        if known_class(module) in SKIPPED:
            check_layer(name, module)
            check_evaluates(name, module)
            return inputs[0]
        kind = kind_of(module)
        if kind is None:
            cls = type(module)
            if (instead := wrapper(module)) is not None:
                raise BlrcError(f"layer {name!r}: {cls.__name__} is a wrapper around layers; {instead}")
            remedy = next(
                (text for base, text in _INSTEAD.items() if isinstance(module, base)), "use the layers of blrc.nn"
            )
            raise BlrcError(f"layer {name!r} ({cls.__name__}) has no binary form; {remedy}")
        check_layer(name, module)
        check_evaluates(name, module)
        check_fixed(name, kind, module)
        if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1):
            raise BlrcError(f"layer {name!r}: Flatten must keep the batch and nothing else: use nn.Flatten()")
        return Node(name, kind, inputs, _options(name, KINDS[kind].read(module)))
    if node.target in (torch.flatten, "flatten"):
        given = {**dict(zip(("start_dim", "end_dim"), node.args[1:], strict=False)), **node.kwargs}
        if (given.get("start_dim", 0), given.get("end_dim", -1)) != (1, -1):
            raise BlrcError(
                f"operation 'flatten' ({node.name}): must keep the batch and nothing else: use nn.Flatten()"
            )
        return Node(free_name(modules, node.name), "flatten", inputs, {})
    if node.op == "get_attr":
        raise BlrcError(
            f"{type(modules['']).__name__}.forward computes with the parameter or buffer {node.target!r} itself; use a "
            "layer for that: blrc.nn.ChannelScale multiplies and ChannelShift adds numbers by channel"
        )
    what = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    raise BlrcError(
        f"operation {what!r} ({node.name}) has no binary form; "
        + _INSTEAD_OF.get(what, "use the layers of blrc.nn, and nn.Flatten() for reshaping")
    )


def _options(name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a layer, and refuse any but finite numbers, words, None and lists of these."""
    for option, value in options.items():
        for part in value if isinstance(value, list) else [value]:
            plain = part is None or type(part) in (bool, int, float, str)
            if not plain or (isinstance(part, float) and not math.isfinite(part)):
                raise BlrcError(f"layer {name!r}: {option} {value!r}: a plain, finite number is expected")
    return options


def _check_flow(node: Node, before: Sequence[Node]) -> None:
    """Refuse a layer over random variables that directly follows a layer over tensors, and the other way round."""
    kinds = {other.name: other.kind for other in before}
    for x in node.inputs:
        instead = (
            _BEHIND_GAUSSIAN.get(node.kind)
            if kinds.get(x) in _GAUSSIAN
            else _BEHIND_TENSOR.get(node.kind)
            if kinds.get(x) in _TENSOR
            else None
        )
        if instead is not None:
            cls, other = KINDS[node.kind].cls.__name__, KINDS[kinds[x]].cls.__name__
            levels = ", or for levels put blrc.nn.GaussianSample between them" if kinds[x] in _RANDOM_KINDS else ""
            raise BlrcError(f"layer {node.name!r} ({cls}) cannot follow {x!r} ({other}); use {instead}{levels}")
