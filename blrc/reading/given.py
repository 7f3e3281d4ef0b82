"""Recognise what was given in place of a module, a path or an array of samples, and say what to give instead.

Classes are recognised by the names in their method resolution order, so that no framework has to be imported.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError

P = ParamSpec("P")
R = TypeVar("R")

_PATHS = (str, bytes, os.PathLike)
_TYPES: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "str": ("text", lambda given: isinstance(given, str)),
    "Path": ("a path", lambda given: isinstance(given, _PATHS)),
    "int": ("a whole number", lambda given: isinstance(given, Integral) and not isinstance(given, bool)),
    "float": ("a number", lambda given: isinstance(given, Real | Decimal) and not isinstance(given, bool)),
    "Fraction": ("a fraction", lambda given: isinstance(given, Real) and not isinstance(given, bool)),
    "bool": ("True or False", lambda given: isinstance(given, bool | np.bool_)),
    "None": ("None", lambda given: given is None),
    "Sequence[str]": ("a list of texts", lambda given: _is_list(given, (str,))),
    "Sequence[str | Path]": ("a list of paths", lambda given: _is_list(given, _PATHS)),
    "NDArray[Any]": ("an array", lambda given: isinstance(given, np.ndarray)),
    "Whitening": ("a whitening", lambda given: _is(given, "blrc.datasets.whitening", "Whitening")),
    "TextIO": ("a stream of text", lambda given: hasattr(given, "write")),
    "Progress": ("a function", callable),
    "Say": ("a function", callable),
}
"""What annotations of options mean: in words, and as a check."""

_MODULE = ("torch.nn.modules.module", "Module")
# (module prefix, class name) of a wrapper, what to save instead of it, and the attribute that holds it.
_WRAPPERS = (
    (("torch.nn.parallel", "DataParallel"), "save the module that it wraps: its .module", "module"),
    (
        ("torch.nn.parallel", "DistributedDataParallel"),
        "save the module that it wraps, in one process: its .module",
        "module",
    ),
    (
        ("torch.optim.swa_utils", "AveragedModel"),
        "save the averaged module, its .module (after torch.optim.swa_utils.update_bn)",
        "module",
    ),
    (("torch._dynamo", "OptimizedModule"), "save the module that torch.compile was given: its ._orig_mod", "_orig_mod"),
    (
        ("torch.distributed", "FullyShardedDataParallel"),
        "load its full state_dict into a module of your own on one process, and save that",
        None,
    ),
    (("torch.distributed", "FSDPModule"), "load its full state_dict into a module of your own, and save that", None),
    (("torch.jit", "ScriptModule"), "save the module that it was scripted or traced from", None),
    (("torch.export", "ExportedProgram"), "save the module that it was exported from", None),
    (("deepspeed", "DeepSpeedEngine"), "save the module that it wraps: its .module", "module"),
)
# Wrappers that compute what the module inside of them does, and the attribute that holds it.
_TRANSPARENT = (
    ("torch.nn.parallel", "DataParallel", "module"),
    ("torch.nn.parallel", "DistributedDataParallel", "module"),
    ("torch._dynamo", "OptimizedModule", "_orig_mod"),
)
_MOST_WRAPPERS = 8  # around each other; one that wraps itself has no end


def wrapper(model: object) -> str | None:
    """Return what to save instead of a wrapper around a module, or None if `model` is no known wrapper.

    For a wrapper around a wrapper, the advice names the innermost module.
    """
    path: list[str] = []
    advice, inner = None, model
    while len(path) < _MOST_WRAPPERS:
        found = next((entry for entry in _WRAPPERS if _is(inner, *entry[0])), None)
        if found is None:
            break
        _, advice, attribute = found
        if attribute is None:
            return advice
        path.append(attribute)
        inner = _held(inner, attribute)
    return advice if len(path) < 2 else f"save what is inside of all its wrappers: its .{'.'.join(path)}"


def transparent(model: object) -> tuple[object, tuple[str, ...]]:
    """Return the module inside of wrappers that compute the same, and the path of attributes that leads to it."""
    path: list[str] = []
    while len(path) < _MOST_WRAPPERS:
        kind = type(model)  # itself: a subclass may do anything
        found = next(
            (name for module, cls, name in _TRANSPARENT if kind.__name__ == cls and kind.__module__.startswith(module)),
            None,
        )
        hooks = any(getattr(model, f"_forward{each}_hooks", None) for each in ("", "_pre"))
        inner = None if found is None or hooks else _held(model, found)
        if found is None or inner is None:
            break
        path.append(found)
        model = inner
    return model, tuple(path)


def _held(wrapper: object, attribute: str) -> object | None:
    """Return what a wrapper holds under `attribute`, which may be a registered submodule or a plain attribute."""
    held = getattr(wrapper, "__dict__", {})
    modules = held.get("_modules")
    return held.get(attribute, modules.get(attribute) if isinstance(modules, dict) else None)


def is_module(given: object) -> bool:
    """Return whether something is a module of torch."""
    return _is(given, *_MODULE)


def check_module(model: object) -> None:
    """Raise a `BlrcError` with advice unless `model` is a torch module that does not wrap another one."""
    what = type(model).__name__
    if (instead := wrapper(model)) is not None:
        raise BlrcError(f"model: {what} is a wrapper around a network; {instead}")
    if is_module(model):
        return
    if isinstance(model, type):
        raise BlrcError(
            f"model: {model.__name__} is a class; make a module of it, {model.__name__}(...), and save that"
        )
    if isinstance(model, str | bytes | os.PathLike):
        raise BlrcError("model: is a path; the module comes first: blrc.save(model, path=...)")
    if _is_checkpoint(model):
        raise BlrcError("model: is a loaded checkpoint; save the module that its .model() makes")
    if isinstance(model, dict):
        raise BlrcError(
            "model: is a dictionary (a state_dict?); load it into your model with load_state_dict, and save the model"
        )
    raise BlrcError(f"model: is a {what}; give a torch.nn.Module made of the layers of blrc.nn")


def path_of(given: object, what: str = "the path of a checkpoint that blrc.save() or 'blrc train' wrote") -> Path:
    """Return a path from text, bytes or a path-like object.

    Args:
        what: what is expected, for the message.

    Raises:
        BlrcError: something else was given; the message says what to do.
    """
    if isinstance(given, str | bytes | os.PathLike):
        try:
            return Path(os.fsdecode(given))
        except TypeError:
            pass  # a path-like object whose path is neither text nor bytes
    name = type(given).__name__
    if _is(given, *_MODULE) or wrapper(given) is not None:
        raise BlrcError(f"{name}: a module, where {what} is expected; write it with blrc.save(model, path=...) first")
    if isinstance(given, dict):
        raise BlrcError(
            f"a dictionary (a state_dict?), where {what} is expected; load it into your model, and then blrc.save"
        )
    raise BlrcError(f"a {name}, where {what} is expected")


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function refuse options of other types than it is annotated with, by their names.

    Options are keyword-only. One whose annotation has a type that is not in `_TYPES` is not checked.
    """
    annotations = {
        name: re.findall(r"\w+(?:\[[^]]*\])?", parameter.annotation)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    checked = {name: kinds for name, kinds in annotations.items() if set(kinds) <= _TYPES.keys()}

    @wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        for name in checked.keys() & options.keys():
            kinds, given = [_TYPES[kind] for kind in checked[name]], options[name]
            if not any(check(given) for _, check in kinds):
                *others, last = (words for words, _ in kinds)
                expected = f"{', '.join(others)} or {last}" if others else last
                found = "None" if given is None else f"a {type(given).__name__}"
                raise BlrcError(f"{name}: {found}, where {expected} is expected")
        return function(*args, **options)

    return called


def _is_list(given: object, types: tuple[type, ...]) -> bool:
    return isinstance(given, Collection) and not isinstance(given, _PATHS) and all(isinstance(i, types) for i in given)


def check_loaded(given: object, what: str) -> None:
    """Raise a `BlrcError` with advice unless `given` is a loaded checkpoint.

    Args:
        what: the function that takes the checkpoint, for the message.
    """
    if _is_checkpoint(given):
        return
    if isinstance(given, str | bytes | os.PathLike):
        raise BlrcError(f"{what} takes a loaded checkpoint, not a path; give blrc.load(path)")
    path_of(given)


def samples_of(given: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return calibration samples as an array, or None if there are none.

    Only what shows a mistake is refused here. The input encoding checks the type and the shape.

    Raises:
        BlrcError: the samples are no array (a list, a DataLoader, a Dataset), or an array of floats, which were
            probably standardised.
    """
    if given is None:
        return None
    wanted = f"one array of raw {dtype} samples (N, {', '.join(map(str, shape))})"
    if not isinstance(given, np.ndarray) or isinstance(given, np.ma.MaskedArray):
        name = type(given).__name__
        if isinstance(given, list | tuple):
            how = "numpy.stack(samples) makes one of a list of samples, without their labels"
        elif _is(given, "torch.utils.data", "DataLoader") or _is(given, "torch.utils.data", "Dataset"):
            how = "collect raw samples from it, before they are turned into floats, and numpy.stack them"
        else:
            how = "numpy.asarray may make one"
        raise BlrcError(f"calibration: is a {name}; give {wanted}: {how}")
    if given.dtype.kind in "fc":
        raise BlrcError(
            f"calibration samples: type {given.dtype}, but this network takes raw {dtype}; give them as the device "
            "will see them, before ToTensor, division by 255 and standardisation"
        )
    return np.asarray(given)


def _is_checkpoint(given: object) -> bool:
    return type(given).__module__.startswith("blrc.") and type(given).__name__ == "Checkpoint"


def _is(given: object, module: str, name: str) -> bool:
    return any(
        cls.__name__ == name and (cls.__module__ == module or cls.__module__.startswith(module + "."))
        for cls in type(given).__mro__
    )
