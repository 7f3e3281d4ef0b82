"""What is looked at is a copy with the same class and contents, whatever classes say of copying and listing."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from random_networks import randomise
from test_wiring import ENCODING, SAMPLES, Net, net, refusal
from torch import fx, nn

from blrc import nn as bnn
from blrc.frontend.capture.copies import Kept, copied
from blrc.frontend.capture.walk import all_names, named_modules
from blrc.frontend.saving import from_model


def other() -> Other:
    return Other(-1)


class Other:
    """An object that is copied as another."""

    def __init__(self, sign: int) -> None:
        self.sign = sign


def copying(name: str) -> type:
    """A class whose copies are other objects."""
    methods: dict[str, Callable[..., Any]] = {
        "__deepcopy__": lambda self, memo: other(),
        "__reduce__": lambda self: (other, ()),
        "__reduce_ex__": lambda self, protocol: (other, ()),
        "__getstate__": lambda self: {"sign": -1},
        "__setstate__": lambda self, state: vars(self).update(sign=-1),
    }
    return type("Own", (Other,), {name: methods[name]})


COPYING = ["__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"]


@pytest.mark.parametrize("name", COPYING)
@pytest.mark.parametrize("holds", [False, True])
def test_regression_an_attribute_that_is_copied_as_another(name: str, holds: bool) -> None:
    """The copy, which another sign makes another network, was compiled."""

    def call(m: Any, x: torch.Tensor) -> Any:
        return m.plain(x) if m.held.sign == 1 else m.scores(m.flat(m.norm(m.sign(m.conv(x)))))

    model = net(call)
    model.held = copying(name)(1)
    if holds:
        model.held.layer = model.conv  # type: ignore[union-attr]
    kinds = [node.kind for node in from_model(model, ENCODING, SAMPLES).nodes]
    assert kinds == ["ste_conv2d", "plain_norm2d", "ste_sign", "flatten", "softmax"]


@pytest.mark.parametrize("name", COPYING)
def test_a_module_that_is_copied_as_another_is_itself(name: str) -> None:
    methods: dict[str, Callable[..., Any]] = {
        "__deepcopy__": lambda self, memo: net(lambda m, x: m.scores(x)),
        "__reduce__": lambda self: (Net, ()),
        "__reduce_ex__": lambda self, protocol: (Net, ()),
        "__getstate__": lambda self: {},
        "__setstate__": lambda self, state: None,
    }
    model = net()
    expected = from_model(model, ENCODING, SAMPLES)
    model.__class__ = type("Own", (Net,), {name: methods[name]})
    found = from_model(model, ENCODING, SAMPLES)
    assert found.nodes == expected.nodes
    for key, value in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[key], value)


LISTING: dict[str, Callable[..., Any]] = {
    name: (lambda self, *args, **options: iter(()))
    for name in ("named_modules", "modules", "parameters", "named_parameters", "buffers", "named_buffers")
}
DOING: dict[str, Callable[..., Any]] = {
    name: (lambda self, *args, **options: 1 / 0)
    for name in ("to", "_apply", "state_dict", "get_submodule", "float", "double", "cpu", "requires_grad_")
}


@pytest.mark.parametrize("name", [*LISTING, *DOING])
def test_regression_a_method_that_lists_or_changes_modules_is_never_asked(name: str) -> None:
    model = net()
    expected = from_model(model, ENCODING, SAMPLES)
    model.__class__ = type("Own", (Net,), {name: {**LISTING, **DOING}[name]})
    assert from_model(model, ENCODING, SAMPLES).nodes == expected.nodes


@pytest.mark.parametrize("name", ["children", "named_children"])
def test_layers_that_eval_does_not_reach(name: str) -> None:
    model = net()
    model.__class__ = type("Own", (Net,), {name: lambda self: iter(())})
    assert "layer 'conv' stays in training mode after eval()" in refusal(model)


def test_an_eval_that_changes_weights() -> None:
    class Folding(Net):
        def train(self, mode: bool = True) -> Folding:
            with torch.no_grad():
                self.scores.weight.neg_()
            return super().train(mode)

    model = randomise(Folding(), 3)
    before = model.scores.weight.detach().clone()
    assert "layer 'scores'" in refusal(model)
    assert torch.equal(model.scores.weight, before)


@pytest.mark.parametrize("where", ["", "norm", "norm.inner"])
def test_regression_modules_in_a_circle(where: str) -> None:
    model = net()
    model.norm.inner = nn.Sequential()
    model.get_submodule(where).add_module("back", model)
    assert f"module '{where + '.' if where else ''}back' is the network itself (Net), which holds it" in refusal(model)


@pytest.mark.nightly
def test_modules_without_init_and_too_many_names() -> None:
    model: Any = nn.Sequential(nn.Identity(), nn.Flatten())
    model._modules["0"] = nn.Identity.__new__(nn.Identity)
    assert "module '0': was not initialised" in refusal(model)
    shared = nn.Sequential(nn.Identity())
    for _ in range(40):
        shared = nn.Sequential(shared, shared)
    assert "more than 100000 modules by name" in refusal(shared)
    deep = nn.Sequential(nn.Flatten())
    for _ in range(1500):
        deep = nn.Sequential(deep)
    assert "recursion" in refusal(deep)


@pytest.mark.parametrize("registry", ["_parameters", "_buffers", "_modules"])
@pytest.mark.parametrize("held", [None, [1], {"weight": 3}, {1: torch.zeros(1)}, {1: nn.ReLU()}], ids=repr)
def test_registries_that_hold_something_else(registry: str, held: Any) -> None:
    model = net()
    vars(model.norm)[registry] = held
    assert "module 'norm': " in refusal(model)


def test_what_layers_do_not_use_may_be_anything() -> None:
    model: Any = net()
    model.register_buffer("eight", torch.ones(3).to(torch.float8_e4m3fn))
    model.register_buffer("sparse", torch.eye(3).to_sparse())
    model.register_buffer("complex", torch.ones(3, dtype=torch.complex64))
    model.numbers = nn.ParameterList([nn.Parameter(torch.ones(2))])
    model.plain_sparse = torch.eye(3).to_sparse()
    model.meta = torch.zeros(3, device="meta")
    from_model(model, ENCODING, SAMPLES)
    with torch.inference_mode():
        made = net()
    from_model(made, ENCODING, SAMPLES)


def test_names_are_torchs() -> None:
    model: Any = nn.Sequential(nn.Sequential(nn.Identity(), nn.Flatten()), nn.Sequential(nn.ReLU()))
    model.add_module("again", model[0])
    model.add_module("none", None)
    assert list(named_modules(model).items()) == list(model.named_modules())
    assert list(all_names(model).items()) == list(model.named_modules(remove_duplicate=False))


class Slotted:
    __slots__ = ("layer", "nothing")


def test_a_copy_holds_copies() -> None:
    model: Any = net()
    model.layers = [
        model.conv,
        (model.norm, {"a": model.sign}),
        OrderedDict(b=model.flat),
        defaultdict(list, c=[model]),
    ]
    model.bound = model.plain
    model.alias = model.conv.weight
    model.slotted = Slotted()
    model.slotted.layer = model.scores
    model.array = np.zeros(3)
    model.lock = threading.Lock()
    model.tied = bnn.SteLinear(2, 2)
    model.tied.bias = model.norm.bias
    twin: Any = copied(model)
    assert type(twin) is Net
    for name, module in model.named_modules():
        assert twin.get_submodule(name) is not module
    assert twin.layers[0] is twin.conv
    assert twin.layers[1][0] is twin.norm
    assert twin.layers[1][1]["a"] is twin.sign
    assert twin.layers[2]["b"] is twin.flat
    assert twin.layers[3]["c"][0] is twin
    assert twin.bound.__self__ is twin
    assert twin.alias is twin.conv.weight is not model.conv.weight
    assert twin.slotted.layer is twin.scores
    assert twin.tied.bias is twin.norm.bias
    assert twin.array is not model.array
    assert twin.lock is model.lock
    for key, value in twin.state_dict().items():
        assert torch.equal(value, model.state_dict()[key])
        assert value.data_ptr() != model.state_dict()[key].data_ptr()


def test_what_is_kept_is_put_back() -> None:
    model: Any = net()
    model.items = {"a": [1, {2}], "b": OrderedDict(x=1)}
    model.meter = Other(1)
    weight, values, address = model.conv.weight, model.conv.weight.detach().clone(), model.conv.weight.data_ptr()
    state = repr((sorted(vars(model)), model.items, vars(model.meter)))
    kept = Kept(model)
    model.items["a"][1].add(3)
    model.items["b"].clear()
    model.items["c"] = 1
    model.meter.sign = 5
    del model.count
    model.new = 1
    model.conv.weight.data = torch.zeros(1)
    model.conv.weight.requires_grad_(False)
    model.norm.weight.data.zero_()
    model.conv.weight = nn.Parameter(torch.ones(2))
    del model.scores
    kept.restore()
    assert repr((sorted(vars(model)), model.items, vars(model.meter))) == state
    assert model.conv.weight is weight
    assert torch.equal(weight, values)
    assert (weight.data_ptr(), weight.requires_grad) == (address, True)
    from_model(model, ENCODING, SAMPLES)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not isinstance(m, Net)


def made_by_fx() -> Any:
    model = net()
    return fx.GraphModule(model, _Tracer().trace(model))


def without_norm(made: Any) -> None:
    norm = next(node for node in made.graph.nodes if node.target == "norm")
    norm.replace_all_uses_with(norm.args[0])
    made.graph.erase_node(norm)


def patched(name: str) -> Callable[[Any], None]:
    def change(made: Any) -> None:
        before = getattr(type(made), name)
        setattr(type(made), name, lambda self, x: before(self, -x))

    return change


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_norm, "runs other code than its graph; call recompile()"),
        (patched("forward"), "runs other code than its graph"),
        (patched("__call__"), "the __call__ of its fx.GraphModule was replaced"),
        (patched("_wrapped_call"), "the __call__ of its fx.GraphModule was replaced"),
        (lambda made: setattr(type(made)._wrapped_call, "cls_call", lambda m, x: -x), "__call__ of its fx.GraphModule"),
        (lambda made: setattr(type(made), "_call_impl", lambda m, x: x), "has a _call_impl of its own"),
    ],
)
def test_regression_modules_of_fx_that_run_something_else(
    change: Callable[[Any], None], words: str, nested: bool
) -> None:
    """Their copy, made anew from the graph, was compiled."""
    made = made_by_fx()
    plain = [node.kind for node in from_model(made, ENCODING, SAMPLES).nodes]
    assert plain == ["ste_conv2d", "plain_norm2d", "ste_sign", "flatten", "softmax"]
    change(made)
    assert words in refusal(nn.Sequential(made) if nested else made)


def test_modules_of_fx_that_were_edited_and_recompiled_are_taken() -> None:
    made = made_by_fx()
    without_norm(made)
    made.recompile()
    assert "plain_norm2d" not in [node.kind for node in from_model(made, ENCODING, SAMPLES).nodes]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile, of itself
def test_regression_saving_after_torch_compile_ran() -> None:
    """It replaces `nn.Module.__setstate__` for the rest of the process, after which nothing could be saved."""
    before = nn.Module.__init__, nn.Module.__setstate__
    try:
        torch.compile(nn.Flatten(), backend="eager")(torch.zeros(1, 2))
        assert nn.Module.__setstate__ is not before[1]
        from_model(net(), ENCODING, SAMPLES)
    finally:
        nn.Module.__init__, nn.Module.__setstate__ = before  # type: ignore[method-assign]
        if hasattr(nn.Module, "___needs_generation_tag_patch"):
            delattr(nn.Module, "___needs_generation_tag_patch")
