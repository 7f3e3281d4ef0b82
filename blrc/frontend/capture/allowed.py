"""Refuse by name whatever makes a module compute something else than its class says.

A layer is compiled as its class. So everything else that decides what it computes has to be what that class brings:
attributes found through the class, attributes of the instance, hooks, weights and their types. Other modules run their
own Python code, which is traced. Of these only what stands beside that code is checked: hooks and patched calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules import module as torch_module
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.utils import parametrize

from blrc.errors import BlrcError
from blrc.frontend.capture.graph_modules import check_graph_module
from blrc.frontend.capture.known import CLASSES, Blank, blank, known_class
from blrc.nn.layers.activation import StochasticSign, logistic_
from blrc.nn.noise import Noise, Noisy
from blrc.nn.weights.distribution import WeightDistribution
from blrc.nn.weights.table import DISTRIBUTIONS
from blrc.reading.given import wrapper

_ABSENT = object()
_DICT = vars(nn.Module)["__dict__"]  # the descriptor of what an instance has
# Attributes of a class that evaluation never uses: they make, describe, store or initialise an instance. Weights that a
# `new_weight` makes are looked at themselves, and tensors are read from the registries, not from a `state_dict`.
HARMLESS = frozenset(
    {
        "__init__", "__new__", "__init_subclass__", "__class_getitem__", "extra_repr", "__repr__", "__str__",
        "__format__", "__dir__", "__sizeof__", "_get_name", "reset_parameters", "reset_running_stats", "new_weight",
        "named_weight", "transfer_", "scatter_", "entropy", "total_variance", "share",
        "__doc__", "__module__", "__qualname__",
        "__name__", "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__",
        "__abstractmethods__", "_abc_impl", "__dict__", "__weakref__", "__slots__", "__static_attributes__",
        "__firstlineno__", "__orig_bases__", "__parameters__", "__constants__", "__type_params__",
        "__dataclass_fields__", "__dataclass_params__", "__match_args__", "state_dict", "_save_to_state_dict",
        "load_state_dict", "_load_from_state_dict", "_version", "dump_patches", "T_destination",
        # A copy is made without asking the class; torch.compile replaces __setstate__ for good when it first runs.
        "__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__",
        "__getnewargs_ex__",
    }
)  # fmt: skip
# Settings of training that stand on an instance before a default of the class.
_SETTINGS = frozenset({"signs_in", "joint", "spread", "_shared", "_sharing"})
# Ways in which a call of a module reaches its forward; nn.Module's own are the only ones that tracing sees.
_CALLS = ("__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward", "__getattribute__", "__class__")
_PATCHES = ("forward", *_CALLS, "_compiled_call_impl")
_HOOKS = {
    "_forward_hooks": "forward hooks",
    "_forward_pre_hooks": "forward hooks that run before it",
    "_backward_hooks": "backward hooks",
    "_backward_pre_hooks": "backward hooks that run before it",
}
_UTILITIES = {"WeightNorm": "remove_weight_norm", "SpectralNorm": "remove_spectral_norm"}


def _snapshot() -> dict[type, dict[str, Any]]:
    bases = {base for cls in CLASSES for base in cls.__mro__ if issubclass(base, nn.Module)}
    return {base: dict(vars(base)) for base in bases}


# The classes as they were when this module was imported, to find those that were patched since.
_CLASSES_AS_IMPORTED = _snapshot()


def check_process() -> None:
    """Refuse hooks on all modules of the process, and known classes that were patched."""
    for attribute, what in _HOOKS.items():
        if getattr(torch_module, f"_global{attribute}", None):
            raise BlrcError(
                f"torch has global {what}, which run for every module and cannot be compiled; remove them before saving"
            )
    for cls, before in _CLASSES_AS_IMPORTED.items():
        now = vars(cls)
        for name in sorted({*before, *now} - HARMLESS):
            added = name not in before
            if added:  # a name that nothing reads is harmless
                inherited = any(name in vars(base) for base in cls.__mro__[1:])
                changed = inherited or (name.startswith("__") and name.endswith("__")) or _is_read(name)
            else:
                changed = before[name] is not now.get(name, _ABSENT)
            if changed:
                raise BlrcError(
                    f"{cls.__module__}.{cls.__name__}.{name} was replaced since blrc was imported, which cannot be "
                    "compiled; restore it before saving"
                )


def _is_read(name: str) -> bool:
    return any(name in blank(cls).plain | blank(cls).held for cls in CLASSES)


def check_container(name: str, module: nn.Module) -> None:
    """Refuse hooks on a module whose forward is traced, and calls that do not lead to the forward of its class."""
    who = f"module {name!r}" if name else f"the network itself ({type(module).__name__})"
    _check_hooks(who, module)
    for attribute in _PATCHES:
        if _stands(module, attribute):
            raise BlrcError(f"{who}: {_patched(attribute)}; {_remedy(attribute)}")
    _check_calls(who, module)


def check_calls(modules: Mapping[str, nn.Module]) -> None:
    """Refuse every module whose class has its own way of calling its forward, which tracing would not see."""
    for name, module in modules.items():
        _check_calls(f"module {name!r}" if name else f"the network itself ({type(module).__name__})", module)


def _check_calls(who: str, module: nn.Module) -> None:
    if any(not isinstance(vars(base).get("__dict__", _DICT), type(_DICT)) for base in type(module).__mro__):
        raise BlrcError(
            f"{who}: {type(module).__name__} has a __dict__ of its own, which cannot be followed; remove it"
        )
    if isinstance(module, fx.GraphModule):
        check_graph_module(who, module)
    lists = type(module) in (nn.ParameterList, nn.ParameterDict)  # whose __call__ raises
    for attribute in _CALLS:
        if attribute == "__call__" and (lists or isinstance(module, fx.GraphModule)):
            continue
        if _static(type(module), attribute) is not _static(nn.Module, attribute):
            if (instead := wrapper(module)) is not None:
                raise BlrcError(f"{who}: {type(module).__name__} is a wrapper around layers; {instead}")
            raise BlrcError(
                f"{who}: {type(module).__name__} has a {attribute} of its own, which cannot be followed; put what it "
                "does into forward"
            )


def check_layer(name: str, module: nn.Module) -> None:
    """Refuse a layer (or a module that evaluation skips) unless it computes what its known class does."""
    _check_known(f"layer {name!r}", module)
    weight = module._modules.get("weight")
    if isinstance(weight, nn.Module):
        if not isinstance(weight, tuple(DISTRIBUTIONS.values())):
            kind = "distribution" if isinstance(weight, WeightDistribution) else "module"
            known = " or ".join(f'weight="{name}"' for name in DISTRIBUTIONS)
            raise BlrcError(
                f"layer {name!r}: its weights are the {kind} {type(weight).__name__}, which cannot be compiled; build "
                f"the layer with {known}"
            )
        _check_known(f"layer {name!r}: its weights", weight)


def check_evaluates(name: str, module: nn.Module) -> None:
    """Refuse a layer that still computes as in training after its network was told to evaluate."""
    if module.training:
        raise BlrcError(
            f"layer {name!r} stays in training mode after eval(), where it computes something else; let it switch"
        )


def explain(modules: Mapping[str, nn.Module]) -> None:
    """Check every module of a network that cannot be traced, and raise an error that says more than Python's own."""
    for name, module in modules.items():
        if known_class(module) is None:
            check_container(name, module)
        elif not isinstance(module, WeightDistribution):
            check_layer(name, module)


def _check_known(who: str, module: nn.Module) -> None:
    known = known_class(module)
    assert known is not None
    new = blank(known)
    _check_utilities(who, module)
    _check_class(who, type(module), known, new)
    _check_hooks(who, module)
    _check_instance(who, module, known, new)
    _check_settings(who, module)
    for key, value in _tensors(module):
        _check_tensor(f"{who}: {key}", value)


def _check_utilities(who: str, module: nn.Module) -> None:
    if parametrize.is_parametrized(module):
        raise BlrcError(f"{who}: has parametrisations; torch.nn.utils.parametrize.remove_parametrizations them")
    for hook in module._forward_pre_hooks.values():
        kinds = {cls.__name__ for cls in type(hook).__mro__}
        if "BasePruningMethod" in kinds:
            raise BlrcError(f"{who}: is pruned; torch.nn.utils.prune.remove makes the pruning permanent")
        for kind, remove in _UTILITIES.items():
            if kind in kinds:
                raise BlrcError(f"{who}: has a {kind}; torch.nn.utils.{remove} it before saving")


def _check_class(who: str, cls: type, known: type, new: Blank) -> None:
    """Refuse a class that replaces an attribute of its known base class `known`.

    The classes between the two and beside them count as well.
    """
    if cls is known:
        return
    for name in sorted({name for base in cls.__mro__ for name in vars(base)} - HARMLESS):
        own, expected = _static(cls, name), _static(known, name)
        if own is expected:
            continue
        # A name that the known class does not have is never looked up, but for the language's own names, and those
        # of its instances, before which a property of the class stands.
        if expected is not _ABSENT or name.startswith("__") or name in new.plain | new.held:
            raise BlrcError(
                f"{who}: {cls.__name__} has a {name} of its own, which cannot be compiled; use {known.__name__} itself"
            )


def _check_hooks(who: str, module: nn.Module) -> None:
    for attribute, what in _HOOKS.items():
        if vars(module).get(attribute):
            raise BlrcError(f"{who}: has {what}, which cannot be compiled; remove them before saving")


def _check_instance(who: str, module: nn.Module, known: type, new: Blank) -> None:
    name = known.__name__
    held = {**module._parameters, **module._buffers, **module._modules}
    for registry in (module._parameters, module._buffers, module._modules):
        if type(registry) is not dict:
            raise BlrcError(f"{who}: keeps its tensors in a {type(registry).__name__}; build the layer anew")
    for key, value in held.items():
        if value is not None and key not in new.held:
            what = "layer" if isinstance(value, nn.Module) else "parameter or buffer"
            raise BlrcError(f"{who}: has a {what} {key!r}, which {name} does not use; keep it outside of the layer")
    for key, value in vars(module).items():
        if key in held or (key in new.held and value is not None):
            raise BlrcError(f"{who}: {key} was set on the instance beside its parameters; register it as {name} does")
        if key in new.plain or key in new.held or key in HARMLESS or key in _SETTINGS:
            continue
        if (_static(type(module), key) is not _ABSENT or key in _PATCHES) and _stands(module, key):
            raise BlrcError(f"{who}: {_patched(key)}; {_remedy(key)}")


def _check_settings(who: str, module: nn.Module) -> None:
    signs_in = getattr(module, "signs_in", None)
    if signs_in is not None and not (isinstance(signs_in, torch.dtype) and signs_in.is_floating_point):
        raise BlrcError(f"{who}: signs_in {signs_in!r}: a floating type of torch, or None")
    if isinstance(module, Noisy):
        draw = logistic_ if isinstance(module, StochasticSign) else torch.Tensor.normal_
        if type(module.noise) is not Noise or module.noise.draw != draw or set(vars(module.noise)) - _NOISE:
            raise BlrcError(f"{who}: its noise is not that of {type(module).__name__}; build the layer anew")


_NOISE = frozenset({"draw", "reuse", "buffer"})


def _tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for key, value in (*module._parameters.items(), *module._buffers.items()):
        if value is not None:
            yield key, value


def check_materialised(modules: Mapping[str, nn.Module]) -> None:
    """Refuse lazy layers that have seen no input, and modules without values, before anything is copied."""
    for name, module in modules.items():
        for key, value in _tensors(module):
            who = f"layer {name!r}" if name else f"the network itself ({type(module).__name__})"
            if isinstance(value, UninitializedParameter | UninitializedBuffer):
                raise BlrcError(
                    f"{who}: is lazy, and its {key} has no shape yet; run the module once on a batch before saving"
                )
            if value.is_meta:
                raise BlrcError(
                    f"{who}: its {key} is on the device 'meta' and has no values; build the module on a real device "
                    "(or to_empty(device='cpu')) and load its state_dict"
                )


def _check_tensor(who: str, value: torch.Tensor) -> None:
    if type(value) not in (torch.Tensor, nn.Parameter):
        raise BlrcError(f"{who} is a {type(value).__name__}, not a plain tensor; turn it into one before saving")
    if value.dtype.is_floating_point and value.dtype not in _FLOATS:
        raise BlrcError(f"{who} is of type {value.dtype}, which layers cannot compute with; turn it into float32")
    if value.layout != torch.strided or value.is_quantized or value.is_nested or value.is_complex():
        raise BlrcError(f"{who} is {value.dtype} of layout {value.layout}; use a dense tensor of real numbers")
    if vars(value):  # such as a __torch_function__ of its own
        own = sorted(name for name in vars(value) if hasattr(torch.Tensor, name))
        if own:
            raise BlrcError(f"{who}: {own[0]} was replaced on the tensor, which cannot be compiled")


_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def _stands(module: nn.Module, attribute: str) -> bool:
    """Return whether the instance has this attribute itself, which hides that of its class.

    A ``_compiled_call_impl`` of None does not count, because it stands for no compiled call.
    """
    found = vars(module).get(attribute, _ABSENT)
    return found is not _ABSENT and not (attribute == "_compiled_call_impl" and found is None)


def _patched(attribute: str) -> str:
    if attribute == "_compiled_call_impl":
        return "was compiled in place (Module.compile)"
    return f"{attribute} was replaced on the instance, which cannot be compiled"


def _remedy(attribute: str) -> str:
    if attribute == "_compiled_call_impl":
        return "set its _compiled_call_impl to None before saving"
    return f"delete it (del module.{attribute}) or put what it does into the class of your network"


def _static(cls: type, name: str) -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), _ABSENT)
