"""Copy a module so that the copy computes what the module does, and undo what the module's own code changes.

`copy.deepcopy` asks each object how it is to be copied, and some objects then make something else: an
``fx.GraphModule`` compiles its graph again, and a class may bring a ``__deepcopy__``. Here a copy has the class and the
contents of its original. Modules, tensors, containers and bound methods are copied, and so are objects that hold a
module of the network. All other objects are shared.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from blrc.frontend.capture.walk import named_modules

_CONTAINERS = (OrderedDict, defaultdict, dict, list, set)  # changed in place; OrderedDict before dict


def copied(model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.clone) -> nn.Module:
    """Return a copy of a module; `convert` makes the copies of its parameters and buffers."""
    result: nn.Module = _Copier(model, convert).module(model)
    return result


class _Copier:
    def __init__(self, model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.convert = convert
        self.made: dict[int, Any] = {}
        self.kept: list[Any] = []  # as long as the identities above are used
        modules = list(named_modules(model).values())
        self.registered = {
            id(value)
            for module in modules
            for registry in (module._parameters, module._buffers)
            for value in registry.values()
        }
        for module in modules:  # first of all, so that a deep network needs no deep recursion
            self._begin(module)
        for module in modules:
            self._fill(module)

    def module(self, module: nn.Module) -> Any:
        if id(module) not in self.made:  # one that stands in no registry
            self._begin(module)
            self._fill(module)
        return self.made[id(module)]

    def _begin(self, original: object) -> None:
        self._made(original, object.__new__(type(original)))

    def _made(self, original: object, new: Any) -> Any:
        self.kept.append(original)
        self.made[id(original)] = new
        return new

    def _fill(self, original: object) -> None:
        new = self.made[id(original)]
        if hasattr(original, "__dict__"):
            for key, value in vars(original).items():
                vars(new)[key] = self.value(value)
        for descriptor in _slots(type(original)):
            if (value := _slot(descriptor, original)) is not _EMPTY:
                descriptor.__set__(new, self.value(value))

    def value(self, x: Any) -> Any:
        if id(x) in self.made:
            return self.made[id(x)]
        if isinstance(x, nn.Module):
            return self.module(x)
        if type(x) in (torch.Tensor, nn.Parameter):
            return self._made(x, self._tensor(x))
        if type(x) is np.ndarray:
            return self._made(x, x.copy())
        if type(x) is types.MethodType:
            return types.MethodType(x.__func__, self.value(x.__self__))
        if type(x) is functools.partial:
            return functools.partial(self.value(x.func), *map(self.value, x.args), **self.value(x.keywords))
        if isinstance(x, tuple):
            new = [self.value(item) for item in x]
            same = all(a is b for a, b in zip(new, x, strict=True))
            return x if same else self._made(x, tuple.__new__(type(x), new))
        if isinstance(x, _CONTAINERS):
            return self._container(x)
        if _is_plain(x) and any(id(item) in self.made and isinstance(item, nn.Module) for item in _near(x)):
            self._begin(x)
            self._fill(x)
            return self.made[id(x)]
        return x

    def _tensor(self, x: torch.Tensor) -> torch.Tensor:
        make = self.convert if id(x) in self.registered else torch.Tensor.clone
        with torch.no_grad():
            new = make(x.detach())
        if isinstance(x, nn.Parameter):
            new = nn.Parameter(new, requires_grad=x.requires_grad)
        elif x.requires_grad and new.is_floating_point():
            new.requires_grad_()
        # A method that was replaced on the tensor, or another tensor, such as the real weights of a binarised one.
        vars(new).update(
            {key: make(held.detach()) if type(held) is torch.Tensor else held for key, held in vars(x).items()}
        )
        return new

    def _container(self, x: Any) -> Any:
        base: Any = next(base for base in _CONTAINERS if isinstance(x, base))
        if base is defaultdict:
            if type(x) is not defaultdict:
                return x
            new: Any = self._made(x, defaultdict(x.default_factory))
        else:
            new = self._made(x, base.__new__(type(x)))
            if base is not dict and base is not OrderedDict:
                base.__init__(new)
        if base is list:
            list.extend(new, [self.value(item) for item in list.__iter__(x)])
        elif base is set:
            set.update(new, [self.value(item) for item in set.__iter__(x)])
        else:
            for key, item in list(base.items(x)):
                base.__setitem__(new, self.value(key), self.value(item))
        if type(x) is not base and hasattr(x, "__dict__"):
            self._fill(x)
        return new


class Kept:
    """Remember the attributes, containers and tensors that a module holds, to restore them after its own code ran."""

    def __init__(self, model: nn.Module) -> None:
        self._undo: list[Callable[[], None]] = []
        self._seen: dict[int, object] = {}
        for module in named_modules(model).values():
            self._keep(module)

    def restore(self) -> None:
        """Restore everything that the module held."""
        with torch.no_grad():
            for undo in self._undo:
                undo()

    def _keep(self, x: Any, near: bool = True) -> None:
        """Remember one value and what it holds.

        An object that is neither a module nor a container is remembered only where a module holds it itself (`near`),
        directly or in a container.
        """
        if id(x) in self._seen:
            return
        if type(x) in (torch.Tensor, nn.Parameter):
            self._seen[id(x)] = x
            if x.layout == torch.strided and not x.is_meta:
                self._undo.append(_tensor_undo(x))
        elif isinstance(x, _CONTAINERS):
            self._seen[id(x)] = x
            self._undo.append(_container_undo(x))
            for item in _items(x):
                self._keep(item, near)
        elif isinstance(x, tuple):
            for item in tuple.__iter__(x):
                self._keep(item, near)
        elif isinstance(x, nn.Module) or (near and _is_plain(x)):
            self._seen[id(x)] = x
            held = vars(x) if hasattr(x, "__dict__") else {}
            self._undo.append(_container_undo(held))
            self._undo.extend(functools.partial(d.__set__, x, _slot(d, x)) for d in _slots(type(x))
                              if _slot(d, x) is not _EMPTY)  # fmt: skip
            for item in list(held.values()):
                self._keep(item, isinstance(x, nn.Module))


def _tensor_undo(x: torch.Tensor) -> Callable[[], None]:
    data, values, grad, requires_grad = x.data, x.detach().clone(), x.grad if x.is_leaf else None, x.requires_grad

    def undo() -> None:
        if x.data_ptr() != data.data_ptr() or x.shape != data.shape or x.dtype != data.dtype:
            x.data = data
        if not torch.equal(x.detach(), values):
            x.data.copy_(values)
        if x.is_leaf and x.requires_grad != requires_grad:
            x.requires_grad_(requires_grad)
        if x.is_leaf and x.grad is not grad:
            x.grad = grad

    return undo


def _container_undo(x: Any) -> Callable[[], None]:
    if isinstance(x, list):
        items = list(list.__iter__(x))
        return lambda: list.__setitem__(x, slice(None), items)
    base: Any = next(base for base in _CONTAINERS if isinstance(x, base))
    held = set(set.__iter__(x)) if base is set else list(base.items(x))

    def undo() -> None:
        base.clear(x)
        base.update(x, held)

    return undo


def _items(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [*dict.keys(x), *dict.values(x)]
    return list(list.__iter__(x) if isinstance(x, list) else set.__iter__(x))


def _near(x: object) -> Iterator[Any]:
    """Yield the values that an object holds as attributes, and those in containers among its attributes."""
    for value in vars(x).values() if hasattr(x, "__dict__") else ():
        yield value
        if isinstance(value, _CONTAINERS):
            yield from _items(value)
        elif isinstance(value, tuple):
            yield from tuple.__iter__(value)
    for descriptor in _slots(type(x)):
        yield _slot(descriptor, x)


def _is_plain(x: object) -> bool:
    """Return whether an object holds nothing but attributes, and is an instance of a class that Python code defines."""
    cls = type(x)
    if isinstance(x, type | types.ModuleType | types.FunctionType | torch.Tensor | BaseException | fx.Graph):
        return False
    if cls.__module__ == "builtins" or any("__del__" in vars(base) for base in cls.__mro__):
        return False
    try:
        object.__new__(cls)
    except TypeError:
        return False
    return True


_EMPTY = object()


def _slots(cls: type) -> list[Any]:
    return [
        value
        for base in cls.__mro__
        if "__slots__" in vars(base)
        for value in vars(base).values()
        if type(value) is types.MemberDescriptorType
    ]


def _slot(descriptor: Any, x: object) -> Any:
    try:
        return descriptor.__get__(x)
    except AttributeError:
        return _EMPTY
