"""Run a module and record what goes into each of its layers and what comes out, of its heads too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node
from blrc.net.heads import Heads
from blrc.net.net import INPUT
from blrc.nn.gaussian import Gaussian

Visit = Callable[[str, nn.Module], None]
ONE = ""
"""The name of the output of a network that has only one."""


@dataclass(frozen=True, eq=False)
class Call:
    """Record one call of a layer: its input and output, each a copy of a tensor or of a tuple of tensors."""

    x: Any
    y: Any


@dataclass(frozen=True, eq=False)
class Run:
    """Record one call of a module: the calls of each of its layers, and its result."""

    calls: Mapping[str, Sequence[Call]]
    result: Any

    def call(self, name: str, sample: str) -> Call:
        """Return the only call of a layer.

        Raises:
            BlrcError: the layer never ran, or ran several times.
        """
        made = self.calls.get(name, [])
        if len(made) != 1:
            times = f"{len(made)} times" if made else "never"
            raise BlrcError(
                f"layer {name!r}: tracing saw it run once, but on {sample} it ran {times}; forward must not "
                "depend on values, on counters or on being traced"
            )
        return made[0]


def run(modules: Mapping[str, nn.Module], nodes: Sequence[Node], x: torch.Tensor, sample: str, visit: Visit) -> Run:
    """Call the module ``modules[""]`` and record the calls of its layers; `visit` sees each layer just before it runs.

    Raises:
        BlrcError: the module raises anything but an interruption from the keyboard.
    """
    calls: dict[str, list[Call]] = {}
    at = [INPUT]
    with _recording(modules, nodes, calls, at, visit):
        try:
            result = modules[""](x)
        except BaseException as error:
            if type(error) is KeyboardInterrupt:
                raise
            layer = "" if at[-1] == INPUT else f" in or after layer {at[-1]!r}"
            raise BlrcError(f"the module fails on {sample}{layer}: {first_line(error)}") from error
    return Run(calls, result)


@contextmanager
def _recording(
    modules: Mapping[str, nn.Module],
    nodes: Sequence[Node],
    calls: dict[str, list[Call]],
    at: list[str],
    visit: Visit,
) -> Iterator[None]:
    """Record every call of a layer within this context, and append to `at` the name of each layer that begins."""

    def end(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], y: Any) -> None:
            calls.setdefault(name, []).append(Call(begun[name], _snapshot(y)))

        return hook

    begun: dict[str, Any] = {}

    def begin(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            at.append(name)
            inputs = (*args, *kwargs.values())
            if len(inputs) != 1:
                raise BlrcError(f"layer {name!r}: is called with {len(inputs)} inputs; a layer takes one")
            begun[name] = _snapshot(inputs[0])
            visit(name, module)

        return hook

    handles = []
    for node in nodes:
        if (module := modules.get(node.name)) is not None:
            handles.append(module.register_forward_pre_hook(begin(node.name), with_kwargs=True))
            handles.append(module.register_forward_hook(end(node.name), with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _snapshot(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, tuple) and all(isinstance(item, torch.Tensor) for item in value):
        return tuple(item.detach().clone() for item in value)
    return value


def begin_evaluation(model: nn.Module) -> None:
    """Put a module into evaluation mode, whatever its class does then.

    Raises:
        BlrcError: the module's own code raises anything but an interruption from the keyboard.
    """
    try:
        model.eval()
    except BaseException as error:
        if type(error) is KeyboardInterrupt:
            raise
        raise BlrcError(f"{type(model).__name__}.eval() fails: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if it has no message."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # the error's own code
        lines = []
    line = "".join(c if c.isprintable() else "?" for c in lines[0]) if lines else ""
    return line if line and isinstance(error, Exception) else f"{type(error).__name__} {line}".strip()


def outputs(result: Any, who: str, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return what a forward returned by the heads' names; without names of their own they are head0, head1 and so on.

    A dictionary or tuple of one value is that value.

    Args:
        who: what messages call the network.
        names: the names to give in place of those, in the order of the outputs.

    Raises:
        BlrcError: there are other names than text, or not as many as outputs.
    """
    if isinstance(result, Mapping):
        if not all(isinstance(name, str) for name in result):
            raise BlrcError(f"{who}.forward returns a dictionary whose keys are not text; name each head by a text")
        found = dict(result)
    elif isinstance(result, tuple | list) and not isinstance(result, Gaussian):
        given = getattr(result, "_fields", None) or [f"head{index}" for index in range(len(result))]
        found = dict(zip(given, result, strict=True))
    else:
        found = {ONE: result}
    if not found:
        raise BlrcError(f"{who}.forward returns nothing; it must return the scores")
    if names is None:
        return found if len(found) > 1 else {ONE: next(iter(found.values()))}
    return dict(zip(head_names(list(found), list(found), who, names), found.values(), strict=True))


def head_names(outputs: Sequence[str], heads: Sequence[str], who: str, names: Sequence[str]) -> list[str]:
    """Return the names that a user gives to heads; outputs that are no heads, such as labels, may have some too.

    Args:
        outputs: the names that a forward gives its outputs.
        heads: those of them that are heads.
        who: what messages call the network.
        names: the user's names, in the order of the outputs or of the heads.

    Raises:
        BlrcError: names are not as many as outputs or heads, or two are the same.
    """
    names = [names] if isinstance(names, str) else list(names)
    if len(names) not in (len(outputs), len(heads)) or len(names) < 2 or len(set(names)) < len(names):
        raise BlrcError(
            f"heads={names}: {who}.forward returns {len(heads) or 1} outputs; give each a name of its own, and none "
            "where there is only one"
        )
    of = dict(zip(outputs if len(names) == len(outputs) else heads, names, strict=True))
    return [of[head] for head in heads]


def ends(result: Any, nodes: Sequence[Node], heads: Heads, who: str, sample: str) -> list[tuple[str, Any]]:
    """Return the layers that give a network's outputs, each with that output of a run.

    Args:
        who, sample: what messages call the network, and what it ran on.

    Raises:
        BlrcError: the run gave another number of outputs.
    """
    found = list(outputs(result, who).values())
    layers = [layer for _, layer in heads] or [nodes[-1].name if nodes else INPUT]
    if len(found) != len(layers):
        raise BlrcError(
            f"the network's output on {sample}: {who}.forward returns {len(found)} values, and {len(layers)} "
            "when it is traced; let it return the same for every input"
        )
    return list(zip(layers, found, strict=True))


def unpacked(value: Any) -> Any:
    """Return the named tuple that a node of a trace makes, and anything else as it is."""
    made = getattr(value, "target", None)
    if isinstance(made, type) and issubclass(made, tuple) and hasattr(made, "_fields"):
        return made(*value.args, **value.kwargs)
    return value


def heads_of(layers: Mapping[str, str], last: str, who: str) -> Heads:
    """Return the heads of a network, or none if it has one output, which its last layer has to give.

    Args:
        layers: the layer that gives each output, by the names of the heads; empty where none does.

    Raises:
        BlrcError: an output is given by no layer, or the only one not by the last.
    """
    if layers == {ONE: last}:
        return ()
    if ONE in layers or not all(layers.values()):
        raise BlrcError(f"{who}.forward must return the output of its last layer, or of several last layers by name")
    return tuple(layers.items())
