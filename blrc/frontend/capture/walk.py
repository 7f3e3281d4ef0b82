"""List the modules that a module holds, and read the tensors that they compute with, from its registries alone.

A class may override ``named_modules``, ``children`` or ``get_submodule``. These would then show another network than
the one whose layers run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from blrc.errors import BlrcError
from blrc.net.net import INPUT
from blrc.reading.given import wrapper

MOST_NAMES = 100_000  # of modules, all paths counted; shared modules in shared modules have exponentially many


def named_modules(model: nn.Module) -> dict[str, nn.Module]:
    """Return each module under its first name, in the order of `nn.Module.named_modules`; the first is the root, "".

    Raises:
        BlrcError: modules hold each other, there are too many of them, or registries hold something else.
    """
    seen: set[int] = set()
    first = {}
    for name, module in all_names(model).items():
        if id(module) not in seen:
            seen.add(id(module))
            first[name] = module
    return first


def all_names(model: nn.Module) -> dict[str, nn.Module]:
    """Return every module under each of its names."""
    found: dict[str, nn.Module] = {}
    above: dict[int, str] = {}  # modules that hold the present one, and their names
    waiting: list[tuple[str, nn.Module, bool]] = [("", model, True)]
    while waiting:
        name, module, begins = waiting.pop()
        if not begins:
            del above[id(module)]
            continue
        if id(module) in above:
            raise BlrcError(
                f"module {name!r} is {_who(above[id(module)], model)}, which holds it: modules in a circle cannot be "
                "compiled; keep the reference outside of the module"
            )
        if len(found) == MOST_NAMES:
            raise BlrcError(f"{_who('', model)}: holds more than {MOST_NAMES} modules by name; put layers into it once")
        found[name] = module
        above[id(module)] = name
        waiting.append((name, module, False))
        for key, child in reversed(list(_children(_who(name, model), module))):
            waiting.append((f"{name}.{key}" if name else key, child, True))
    return found


def _children(who: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    if (instead := wrapper(module)) is not None and not isinstance(vars(module).get("_modules"), dict):  # TorchScript
        raise BlrcError(f"{who}: {type(module).__name__} is a wrapper around layers; {instead}")
    held = vars(module).get("_modules")
    if held is None and "_modules" not in vars(module):
        raise BlrcError(f"{who}: was not initialised; call super().__init__() first in its __init__")
    if not isinstance(held, Mapping):
        raise BlrcError(f"{who}: keeps its modules in a {type(held).__name__}; build it anew")
    for registry in ("_parameters", "_buffers"):
        tensors = vars(module).get(registry)
        if not isinstance(tensors, Mapping) or not all(
            isinstance(key, str) and (value is None or isinstance(value, torch.Tensor))
            for key, value in tensors.items()
        ):
            raise BlrcError(f"{who}: its {registry} hold something else than tensors by name; build it anew")
    for key in held:
        child = held[key]
        if child is None:
            continue
        if not isinstance(key, str) or not isinstance(child, nn.Module):
            raise BlrcError(f"{who}: holds a {type(child).__name__} {key!r} as a module; build it anew")
        yield key, child


def _who(name: str, model: nn.Module) -> str:
    return f"module {name!r}" if name else f"the network itself ({type(model).__name__})"


def array_of(value: torch.Tensor) -> NDArray[Any]:
    """Return a copy of a tensor's values as a NumPy array.

    bfloat16, which NumPy does not have, and float16 become float32.
    """
    # contiguous() first: a channels_last tensor has its values in another order of bytes.
    plain = value.detach().cpu().contiguous()
    return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy().copy()


def tensors_of(model: nn.Module, layers: Sequence[str]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield parameters and buffers of the named layers and of what they hold, in the order of ``state_dict``.

    They are read from where the layers read them, because a ``state_dict`` may be overridden, or changed by hooks. A
    tensor that several layers share comes under each of its names.
    """
    prefixes = tuple(f"{layer}." for layer in layers)
    for name, module in all_names(model).items():
        for registry in (module._parameters, module._buffers):
            for key, value in registry.items():
                full = f"{name}.{key}" if name else key
                if value is not None and full.startswith(prefixes):
                    yield full, array_of(value)


def free_name(modules: Mapping[str, nn.Module], name: str) -> str:
    """Return `name`, with as many underscores appended as it takes to differ from all modules of the model."""
    taken = {*modules, INPUT}
    while name in taken:
        name += "_"
    return name
