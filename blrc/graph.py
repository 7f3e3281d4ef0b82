"""A torch network as a graph of named layers: captured from a user's own module, and built again.

Capture follows the module's ``forward`` with torch.fx, with the layers of `blrc.nn` (and their subclasses) as leaves;
nothing needs to be registered. The graph is a list of nodes with named inputs, so that later kinds of network need no
new format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx, nn
from torch.nn.utils import parametrize

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.kinds import table
from blrc.kinds.node import Node
from blrc.net import INPUT


@dataclass(frozen=True)
class _Kind:
    cls: type[nn.Module]
    options: tuple[str, ...]

    def read(self, module: nn.Module) -> dict[str, Any]:
        return {option: _plain(option, getattr(module, option)) for option in self.options}

    def build(self, options: Mapping[str, Any]) -> nn.Module:
        return self.cls(**{name: _tuples(value) for name, value in options.items()})


_CLASSES: Mapping[str, type[nn.Module]] = {
    "binary_conv2d": bnn.BinaryConv2d,
    "binary_linear": bnn.BinaryLinear,
    "batch_norm1d": bnn.StochasticBatchNorm1d,
    "batch_norm2d": bnn.StochasticBatchNorm2d,
    "max_pool2d": bnn.StochasticMaxPool2d,
    "sign": bnn.StochasticSign,
    "softmax": bnn.SoftmaxLinear,
    "flatten": nn.Flatten,
    "ste_conv2d": bnn.SteConv2d,
    "ste_linear": bnn.SteLinear,
    "ste_sign": bnn.SteSign,
    "plain_norm1d": nn.BatchNorm1d,
    "plain_norm2d": nn.BatchNorm2d,
    "plain_pool2d": nn.MaxPool2d,
}
# Options are those of the table, so that nothing is captured that the reader of checkpoints does not know.
KINDS: Mapping[str, _Kind] = {name: _Kind(cls, tuple(table.KINDS[name].options)) for name, cls in _CLASSES.items()}
# Layers over random variables that hand a Gaussian on, their counterparts over tensors, and what to use instead where
# one kind follows the other: that could not run.
_GAUSSIAN = ("binary_conv2d", "binary_linear", "batch_norm1d", "batch_norm2d", "max_pool2d")
_TENSOR = ("ste_conv2d", "ste_linear", "plain_norm1d", "plain_norm2d", "plain_pool2d")
_BEHIND_TENSOR = {
    "batch_norm1d": "torch.nn.BatchNorm1d",
    "batch_norm2d": "torch.nn.BatchNorm2d",
    "max_pool2d": "torch.nn.MaxPool2d",
    "sign": "blrc.nn.SteSign",
}
_BEHIND_GAUSSIAN = {
    "plain_norm1d": "blrc.nn.StochasticBatchNorm1d",
    "plain_norm2d": "blrc.nn.StochasticBatchNorm2d",
    "plain_pool2d": "blrc.nn.StochasticMaxPool2d",
    "ste_sign": "blrc.nn.StochasticSign",
}
# Options of torch's layers that have no integer form, and the only value that is taken.
_FIXED: Mapping[str, Mapping[str, Any]] = {
    "plain_norm1d": {"track_running_stats": True},
    "plain_norm2d": {"track_running_stats": True},
    "plain_pool2d": {"dilation": 1, "ceil_mode": False, "return_indices": False},
}
_SKIPPED = (nn.Identity, nn.Dropout, nn.Dropout2d)
_INSTEAD = {
    nn.Conv2d: "use blrc.nn.BinaryConv2d (or SteConv2d)",
    nn.ReLU: "use blrc.nn.StochasticSign (or SteSign)",
}


def capture(model: nn.Module) -> tuple[Node, ...]:
    """The graph of a module.

    Raises:
        BlrcError: a layer or operation without a binary form (named, with what to use instead), a layer that computes
            something else than its class (an own ``forward``, hooks, parametrisations), several inputs or outputs, or a
            ``forward`` that cannot be followed.
    """
    if isinstance(model, GraphModel):
        return model.nodes
    if _kind_of(model) is not None:
        raise BlrcError(
            f"a single {type(model).__name__} is a layer, not a network; put the layers into an nn.Sequential"
        )
    # What is exported is what evaluation computes, whatever mode the module is in.
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        traced = _Tracer().trace(model)
    except BlrcError:
        raise
    except Exception as error:
        raise BlrcError(
            f"{type(model).__name__}.forward cannot be followed ({error}); write it as plain calls of layers, "
            "without conditions on data"
        ) from error
    finally:
        for module in training:
            module.training = True
    return tuple(_nodes(model, traced))


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return _kind_of(m) is not None or super().is_leaf_module(m, module_qualified_name)


def _nodes(model: nn.Module, traced: fx.Graph) -> list[Node]:
    values: dict[fx.Node, str] = {}
    nodes: list[Node] = []
    for node in traced.nodes:
        if node.op == "placeholder":
            if INPUT in values.values():
                raise BlrcError(f"{type(model).__name__}.forward has several inputs; a network takes one")
            values[node] = INPUT
        elif node.op == "output":
            if not isinstance(node.args[0], fx.Node) or values[node.args[0]] != (nodes[-1].name if nodes else INPUT):
                raise BlrcError(f"{type(model).__name__}.forward must return the output of its last layer")
        else:
            captured = _capture_node(model, node, values)
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
    return nodes


def _capture_node(model: nn.Module, node: fx.Node, values: Mapping[fx.Node, str]) -> Node | str:
    """The node's layer, or the name of the value that it merely passes on."""
    inputs = tuple(values[x] for x in node.all_input_nodes)
    if node.op == "call_module":
        name = str(node.target)
        module = model.get_submodule(name)
        if isinstance(module, _SKIPPED):
            return inputs[0]
        kind = _kind_of(module)
        if kind is None:
            cls = type(module)
            remedy = next(
                (text for base, text in _INSTEAD.items() if isinstance(module, base)), "use the layers of blrc.nn"
            )
            raise BlrcError(f"layer {name!r} ({cls.__name__}) has no binary form; {remedy}")
        _check_unchanged(name, module, kind)
        for option, only in _FIXED.get(kind, {}).items():
            if getattr(module, option) not in (only, (only, only)):
                raise BlrcError(
                    f"layer {name!r}: {type(module).__name__} with {option}={getattr(module, option)!r} cannot be "
                    f"compiled; only {option}={only!r} can"
                )
        if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1):
            raise BlrcError(f"layer {name!r}: Flatten must keep the batch and nothing else: use nn.Flatten()")
        return Node(name, kind, inputs, KINDS[kind].read(module))
    if node.target in (torch.flatten, "flatten"):
        given = {**dict(zip(("start_dim", "end_dim"), node.args[1:], strict=False)), **node.kwargs}
        if (given.get("start_dim", 0), given.get("end_dim", -1)) != (1, -1):
            raise BlrcError(
                f"operation 'flatten' ({node.name}): must keep the batch and nothing else: use nn.Flatten()"
            )
        return Node(_free_name(model, node.name), "flatten", inputs, {})
    what = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    raise BlrcError(
        f"operation {what!r} ({node.name}) has no binary form; "
        "use the layers of blrc.nn, and nn.Flatten() for reshaping"
    )


def _check_flow(node: Node, before: Sequence[Node]) -> None:
    """Within a stage there are layers over random variables or layers over tensors, not both."""
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
            raise BlrcError(f"layer {node.name!r} ({cls}) cannot follow {x!r} ({other}); use {instead}")


def _free_name(model: nn.Module, name: str) -> str:
    """`name`, with underscores behind it as long as a module of the model has it."""
    taken = {other for other, _ in model.named_modules()} | {INPUT}
    while name in taken:
        name += "_"
    return name


def _check_unchanged(name: str, module: nn.Module, kind: str) -> None:
    """Only the class is compiled, so the module must compute what its class does."""
    known = nn.Linear if isinstance(module, nn.Linear) and type(module) is nn.Linear else KINDS[kind].cls
    if type(module).forward is not known.forward:
        raise BlrcError(
            f"layer {name!r}: {type(module).__name__} has a forward of its own, which cannot be compiled; "
            f"use {known.__name__} itself"
        )
    parts = [part for _, part in module.named_modules()]
    for part in parts:
        if isinstance(part, bnn.WeightDistribution) and type(part) is not bnn.Bernoulli:
            raise BlrcError(
                f"layer {name!r}: its weights are {type(part).__name__}, which has no binary form; only "
                "blrc.nn.Bernoulli, +1 or -1, can be compiled"
            )
    if any(part._forward_hooks or part._forward_pre_hooks for part in parts):
        raise BlrcError(f"layer {name!r}: has forward hooks, which cannot be compiled; remove them before saving")
    if any(parametrize.is_parametrized(part) for part in parts):
        raise BlrcError(
            f"layer {name!r}: has parametrisations; torch.nn.utils.parametrize.remove_parametrizations them"
        )


def _kind_of(module: nn.Module) -> str | None:
    for kind, known in KINDS.items():
        if isinstance(module, known.cls):
            return kind
    return "softmax" if isinstance(module, nn.Linear) else None


class GraphModel(nn.Module):
    """A module built from a graph; its ``state_dict`` has the keys of the module that was captured.

    Raises:
        BlrcError: nodes that no checkpoint may hold (`blrc.kinds.table.check_nodes`), or a name that a module has.
    """

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        super().__init__()
        table.check_nodes(nodes)
        self.nodes = nodes
        for node in nodes:
            *path, last = node.name.split(".")
            parent: nn.Module = self
            try:
                for part in path:
                    if part not in parent._modules:
                        parent.add_module(part, nn.Module())
                    parent = parent.get_submodule(part)
                parent.add_module(last, KINDS[node.kind].build(node.options))
            except BlrcError as error:
                raise BlrcError(f"layer {node.name!r}: {error}") from None
            except KeyError:  # what every module has already, such as "forward"
                raise BlrcError(f"layer {node.name!r}: a module has that name; give the layer another") from None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values: dict[str, Any] = {INPUT: x}
        for node in self.nodes:
            values[node.name] = self.get_submodule(node.name)(*(values[name] for name in node.inputs))
        result: torch.Tensor = values[self.nodes[-1].name]
        return result


def build(nodes: tuple[Node, ...], tensors: Mapping[str, NDArray[Any]]) -> GraphModel:
    """Return a module of these layers with these parameters and buffers, which are copied."""
    model = GraphModel(nodes)
    model.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in tensors.items()})
    return model


def _plain(option: str, value: Any) -> Any:
    """Plain data: tuples become lists, NumPy's and torch's numbers Python's, a bias whether it is there."""
    if option == "bias":
        return value is not None
    if isinstance(value, tuple):
        return [_plain(option, item) for item in value]
    return value.item() if isinstance(value, np.generic | torch.Tensor) else value


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
