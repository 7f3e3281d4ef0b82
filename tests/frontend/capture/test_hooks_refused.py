"""Hooks, and calls that do more than forward, are refused wherever they are registered."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from layers_taken import Nested, refusal
from torch import nn
from torch.nn.modules import module as torch_module

from blrc.frontend.capture.trace import capture


def hooks() -> Iterator[tuple[str, Callable[[nn.Module], Any]]]:
    yield "forward", lambda m: m.register_forward_hook(lambda module, x, y: None)
    yield "forward, prepended", lambda m: m.register_forward_hook(lambda module, x, y: None, prepend=True)
    yield "forward, with kwargs", lambda m: m.register_forward_hook(lambda *_: None, with_kwargs=True)
    yield "forward, always", lambda m: m.register_forward_hook(lambda *_: None, always_call=True)
    yield "before", lambda m: m.register_forward_pre_hook(lambda module, x: None)
    yield "before, with kwargs", lambda m: m.register_forward_pre_hook(lambda *_: None, with_kwargs=True)
    yield "backward", lambda m: m.register_full_backward_hook(lambda *_: None)
    yield "before backward", lambda m: m.register_full_backward_pre_hook(lambda *_: None)
    yield "old backward", lambda m: m.register_backward_hook(lambda *_: None)


@pytest.mark.parametrize("where", ["", "features", "features.0", "features.0.weight", "features.1", "scores"])
@pytest.mark.parametrize(("kind", "register"), list(hooks()), ids=lambda x: x if isinstance(x, str) else "")
def test_every_kind_of_hook_everywhere(kind: str, register: Callable[[nn.Module], Any], where: str) -> None:
    model = Nested()
    handle = register(model.get_submodule(where))
    line = refusal(model)
    assert "hooks" in line
    assert ("the network itself" if not where else repr(where.removesuffix(".weight"))) in line
    handle.remove()
    capture(model)


@pytest.mark.parametrize(
    "register",
    [
        torch_module.register_module_forward_hook,
        torch_module.register_module_forward_pre_hook,
        torch_module.register_module_full_backward_hook,
        torch_module.register_module_full_backward_pre_hook,
    ],
)
def test_regression_global_hooks(register: Callable[..., Any]) -> None:
    handle = register(lambda *_: None)
    try:
        assert "torch has global" in refusal(Nested())
    finally:
        handle.remove()
    capture(Nested())


@pytest.mark.parametrize("where", ["", "features", "features.0", "features.1", "scores"])
def test_regression_a_forward_on_an_instance(where: str) -> None:
    """The root's and a layer's were dropped in silence."""
    model = Nested()
    module: Any = model.get_submodule(where)
    before = module.forward
    module.forward = lambda x: before(-x)
    line = refusal(model)
    assert "forward was replaced on the instance" in line
    assert (repr(where) if where else "the network itself (Nested)") in line
    module.forward = types.MethodType(type(module).forward, module)
    assert "forward was replaced on the instance" in refusal(model)
    del module.forward
    capture(model)


def call_of_its_own(self: Any, x: torch.Tensor) -> torch.Tensor:
    return nn.Module.__call__(self, x)[:, [1, 0]]  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward"])
@pytest.mark.parametrize("where", ["", "features"])
def test_a_call_that_does_more_than_forward(where: str, name: str) -> None:
    model = Nested()
    module = model.get_submodule(where)
    module.__class__ = type("Own", (type(module),), {name: call_of_its_own})
    assert f"Own has a {name} of its own" in refusal(model)
