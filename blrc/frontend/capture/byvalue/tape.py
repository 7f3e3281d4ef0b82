"""Watch a module run: every tensor operation passes here, whoever called it.

torch hands each operation to a `TorchDispatchMode` after it was brought into one of few basic forms, so that modules,
functions, methods, operators and the forwards of autograd functions all look alike. What does not depend on the
network's input is simply computed; such values, effective weights among them, need no explanation. Tensors are known by
the memory that they lie in, because ``x.data = y`` gives a tensor other memory without any operation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.values import LABELS, Atom, Held

_OURS = str(Path(__file__).parents[3]) + os.sep  # where blrc lies
_THEIRS = (str(Path(torch.__file__).parent) + os.sep, "<eval_with_key>")  # torch, and what it writes
Key = tuple[int, int, tuple[int, ...], tuple[int, ...]]
# Operations whose result depends on the shape of their input alone.
_SHAPE_ONLY = frozenset(
    [
        "ones_like",
        "zeros_like",
        "full_like",
        "empty_like",
        "new_ones",
        "new_zeros",
        "new_full",
        "new_empty",
        "new_empty_strided",
    ]
)
_LOOKS = {"_local_scalar_dense": "a single value", "equal": "values", "nonzero": "values", "is_nonzero": "a value"}


@dataclass(frozen=True, eq=False)
class Operation:
    """Describe one operation on tensors of which at least one depends on the input.

    Attributes:
        func: what torch calls.
        name: its name, without the underscore of the form that works in place.
        given: its arguments by name, defaults included.
        held: what the tensors among its arguments stand for, by name; those that do not depend on the input are absent.
        samples: how many samples go in at once.
        out: its result, of several the first.
        path: path of the module whose forward runs.
        number: which of the run's operations it is, counted from 0, those that do not depend on the input too.
    """

    func: Any
    name: str
    given: Mapping[str, Any]
    held: Mapping[str, Held]
    samples: int
    out: torch.Tensor
    path: str
    number: int

    def tensor(self, name: str) -> torch.Tensor:
        """Return an argument that is a tensor, or a list that begins with one."""
        return _tensors(self.given[name])[0]


Explain = Callable[[Operation], Held]


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Keep what every tensor that depends on the input stands for, as `explain` says for each operation."""

    def __init__(self, explain: Explain, unknown: Callable[[str, tuple[int, ...], str], Held], samples: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.explain, self.unknown, self.samples = explain, unknown, samples
        self.path = [""]
        self.steps: list[str] = []
        self._held: dict[int, dict[Key, Held]] = {}
        self._alive: list[torch.Tensor] = []  # so that no memory is used for something else

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from importing its compiler, which takes seconds, to leave this class out of it."""
        return False

    def hold(self, tensor: torch.Tensor, held: Held) -> None:
        """Remember what a tensor stands for, and forget what others stood for that lie in the same memory."""
        self._alive.append(tensor)
        self._held.setdefault(_memory(tensor), {})[_key(tensor)] = held

    def held(self, tensor: torch.Tensor) -> Held | None:
        """Return what a tensor stands for, or None if it does not depend on the input."""
        found = self._held.get(_memory(tensor))
        if not found:
            return None
        return found.get(_key(tensor)) or self.unknown(
            "changes a part of a tensor, or looks at its memory in another way", tuple(tensor.shape[1:]), self.path[-1]
        )

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        self.steps.append(name)
        given = _bound(func, args, kwargs)
        held = {
            key: found
            for key, value in given.items()
            for tensor in _tensors(value)
            if (found := self.held(tensor)) is not None
        }
        if held and name in _LOOKS:
            raise BlrcError(
                f"{_where(self.path[-1])} looks at {_LOOKS[name]} of a tensor that depends on the input, as for a "
                f"condition; a network takes the same steps for every input: leave the condition out{line()}"
            )
        written = {
            argument.name: tensor
            for argument in func._schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
            for tensor in _tensors(given.get(argument.name))
        }
        if held:
            given |= {key: tensor.clone() for key, tensor in written.items()}
        result = func(*args, **kwargs)
        for tensor in written.values():
            self._held.pop(_memory(tensor), None)
        if not held or name in _SHAPE_ONLY or set(held) == {"out"}:
            return result
        outs = [tensor for tensor in _tensors(result) if tensor.numel()]
        if not outs:
            return result
        base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        number = len(self.steps) - 1
        operation = Operation(func, base, given, held, self.samples, outs[0], self.path[-1], number)
        explained = replace(self.explain(operation), number=number)
        self.hold(outs[0], explained)
        for other in outs[1:]:
            if isinstance(explained.value, Atom) and explained.value.kind == LABELS:  # labels beside their scores
                self.hold(other, explained)
                continue
            self.hold(other, self.unknown(f"uses a second result of {base}", tuple(other.shape[1:]), self.path[-1]))
        return result

    @contextmanager
    def watching(self, modules: Mapping[str, nn.Module]) -> Any:
        """Follow which module's forward runs, within this context."""

        def enter(name: str) -> Any:
            return lambda module, args: self.path.append(name)

        def leave(module: nn.Module, args: Any, y: Any) -> None:
            self.path.pop()

        with ExitStack() as stack:
            for name, module in modules.items():
                if name:
                    stack.callback(module.register_forward_pre_hook(enter(name), prepend=True).remove)
                    stack.callback(module.register_forward_hook(leave).remove)
            with self:
                yield


def name_of(func: Any) -> str:
    """Return the name of an operation of torch, without its namespace and the form of its arguments."""
    return str(func._schema.name).rpartition("::")[2]


def _where(path: str) -> str:
    return f"layer {path!r}: its forward" if path else "forward"


def line() -> str:
    """Return `` (FILE line N)`` of the code outside of torch that called the operation that is looked at.

    It is empty where no operation is, or where torch's own modules call each other, as in an `nn.Sequential`.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not Tape.__torch_dispatch__.__code__:
        frame = frame.f_back
    frame = None if frame is None else frame.f_back
    while frame is not None and not (file := frame.f_code.co_filename).startswith(_OURS):
        if not file.startswith(_THEIRS):
            return f" ({Path(file).name} line {frame.f_lineno})"
        frame = frame.f_back
    return ""


def _bound(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation by name."""
    arguments = func._schema.arguments
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    return {**defaults, **{a.name: value for a, value in zip(arguments, args, strict=False)}, **kwargs}


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [item for item in value if isinstance(item, torch.Tensor)] if isinstance(value, list | tuple) else []


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _key(tensor: torch.Tensor) -> Key:
    return _memory(tensor), int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride())
