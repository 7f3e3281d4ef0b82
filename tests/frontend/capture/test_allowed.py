"""Whatever makes a module compute something else than its class says is refused by name, wherever it stands."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from by_night import where
from layers_taken import Nested, network, refusal
from torch import fx, nn
from torch.nn.utils import parametrize, prune

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.capture.allowed import HARMLESS
from blrc.frontend.capture.known import CLASSES
from blrc.frontend.capture.trace import capture
from blrc.nn.noise import Noise
from blrc.nn.ranks import JointBatchNorm1d, JointBatchNorm2d


def layer_of(cls: type[nn.Module]) -> nn.Module:
    """A small instance of a class that is compiled."""
    whole = (bnn.Int8Conv1d, bnn.Int8Conv2d, bnn.WholeConv1d, bnn.WholeConv2d)
    if cls in (bnn.BinaryConv1d, bnn.BinaryConv2d, bnn.SteConv1d, bnn.SteConv2d, *whole):
        return cls(1, 2, 3, bias=True)
    if cls in (bnn.BinaryLinear, bnn.SteLinear, bnn.Int8Linear, bnn.WholeLinear, bnn.SoftmaxLinear, nn.Linear):
        return cls(2, 2, bias=True)
    if issubclass(cls, nn.BatchNorm1d | nn.BatchNorm2d | bnn.StochasticBatchNorm1d | bnn.StochasticBatchNorm2d):
        return cls(2)
    pools = (bnn.StochasticMaxPool1d, bnn.StochasticMaxPool2d, bnn.MaxPool1d, bnn.MaxPool2d, nn.MaxPool1d, nn.MaxPool2d)
    averages = (nn.AvgPool1d, nn.AvgPool2d)
    if cls in (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d):
        return cls(1)
    given = (bnn.ChannelScale, bnn.ChannelShift, bnn.Threshold, bnn.SteLevels, bnn.StochasticLevels)
    if cls is bnn.EvenLevels:
        return cls(-1, 1)
    return cls(2) if cls in (*pools, *averages, *given) else cls()


LAYERS = [cls for cls in CLASSES if not issubclass(cls, bnn.WeightDistribution)]


def attributes(cls: type) -> list[str]:
    """Names that a class can be given anew; Python itself keeps the others."""
    kept = {"__class__", "__dict__", "__weakref__", "__slots__", "__abstractmethods__", "_abc_impl", "__annotations__"}
    return sorted(set(dir(cls)) - kept - {"__module__", "__qualname__", "__doc__", "__new__", "__init_subclass__"})


@pytest.mark.parametrize("cls", LAYERS, ids=lambda cls: cls.__name__)
def test_plain_layers_are_taken(cls: type[nn.Module]) -> None:
    capture(network(layer_of(cls)))


def derived(cls: type, name: str, where: str) -> type:
    """A subclass that brings an attribute of its own, which does what the class's does."""
    original = getattr(cls, name, None)

    def own(*args: Any, **options: Any) -> Any:
        return original(*args, **options)  # type: ignore[misc]

    value = own if callable(original) else original
    if isinstance(value, property):
        value = property(value.fget)
    elif value is None or isinstance(value, bool | int | float | str | tuple):
        value = property(lambda self: original)
    if where == "subclass":
        return type("Own", (cls,), {name: value})
    mixin = type("Mixin", (nn.Module,) if where == "module" else (), {name: value})
    return type("Own", (mixin, cls), {})


MIXED = (bnn.BinaryConv2d, bnn.StochasticSign, nn.Linear, bnn.Bernoulli, bnn.Ternary)


@pytest.mark.parametrize(
    ("cls", "where"),
    [
        *((cls, "mixin") for cls in MIXED),
        *(pytest.param(cls, "subclass", marks=[] if cls in MIXED else [pytest.mark.nightly]) for cls in CLASSES),
    ],
    ids=lambda x: x if isinstance(x, str) else x.__name__,
)
def test_every_attribute_of_every_known_class_overridden(cls: type[nn.Module], where: str) -> None:
    """The only ones that are taken are listed; a layer whose class was swapped after it was made."""
    taken = set()
    for name in attributes(cls):
        weights = issubclass(cls, bnn.WeightDistribution)
        layer = bnn.BinaryLinear(2, 2, weight=cls.name) if weights else layer_of(cls)
        swapped: Any = layer.weight if weights else layer
        try:
            swapped.__class__ = derived(cls, name, where)
        except TypeError:
            continue
        if name in ("__del__", "__init__"):
            continue
        try:
            capture(network(layer))
        except BlrcError as error:
            assert f"has a {name} of its own" in str(error), (name, error)
        else:
            taken.add(name)
    assert taken <= HARMLESS


READ = [
    (cls, name)
    for cls in (bnn.BinaryConv2d, bnn.StochasticBatchNorm2d, bnn.StochasticMaxPool2d, nn.Linear)
    for name in ("weight", "bias", "eps", "kernel_size", "_parameters", "training", "noise")
    if hasattr(layer_of(cls), name)
]


@pytest.mark.parametrize(("cls", "name"), READ, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_a_property_that_stands_before_what_an_instance_has(cls: type[nn.Module], name: str) -> None:
    layer = layer_of(cls)
    value = getattr(layer, name)
    layer.__class__ = type("Own", (cls,), {name: property(lambda self: value, lambda self, value: None)})
    assert f"has a {name} of its own" in refusal(network(layer))


@pytest.mark.parametrize("cls", where(MIXED.__contains__, LAYERS), ids=lambda cls: cls.__name__)
def test_every_attribute_of_every_known_class_set_on_an_instance(cls: type[nn.Module]) -> None:
    taken = set()
    for name in attributes(cls):
        if name in ("T_destination", "__hash__", "__eq__"):
            continue
        layer = layer_of(cls)
        vars(layer)[name] = getattr(layer, name)
        try:
            capture(network(layer))
        except BlrcError as error:
            assert name in str(error) or name == "_compiled_call_impl"
        else:
            taken.add(name)
    settings = {"signs_in", "joint", "_compiled_call_impl"}  # of training, and None
    in_every_instance = set(vars(layer_of(cls)))
    assert taken <= HARMLESS | settings | in_every_instance


def test_norms_of_a_distributed_run_are_torchs_in_evaluation() -> None:
    """`blrc.nn.join_norms` puts them into a network in training; saved as it is, it was refused."""
    kinds = [capture(network(norm))[1].kind for norm in (JointBatchNorm1d(2), JointBatchNorm2d(2))]
    assert kinds == ["plain_norm1d", "plain_norm2d"]


def test_what_torchs_utilities_change() -> None:
    def check(change: Callable[[nn.Module], Any], words: str) -> None:
        layer = bnn.SoftmaxLinear(2, 2)
        change(layer)
        assert words in refusal(network(layer))

    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 2

    check(lambda m: prune.l1_unstructured(m, "weight", 1), "torch.nn.utils.prune.remove")  # type: ignore[no-untyped-call]
    check(lambda m: parametrize.register_parametrization(m, "weight", Half()), "remove_parametrizations")
    with pytest.warns(FutureWarning):
        check(nn.utils.weight_norm, "torch.nn.utils.remove_weight_norm")
    check(nn.utils.spectral_norm, "torch.nn.utils.remove_spectral_norm")


def test_a_class_that_was_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls, name in [
        (bnn.BinaryConv2d, "forward"),
        (bnn.BinaryConv2d, "convolve"),
        (bnn.Bernoulli, "moments"),
        (nn.Linear, "forward"),
        (nn.Module, "__call__"),
        (nn.BatchNorm2d, "_check_input_dim"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(cls, name, lambda *_: None)
            assert f".{name} was replaced since blrc was imported" in refusal(Nested())
    monkeypatch.setattr(nn.Module, "describe", lambda self: "harmless", raising=False)
    capture(Nested())


class Marked(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: setattr(m, "weight", nn.Parameter(torch.ones(2, 2).as_subclass(Marked))), "is a Marked"),
        (lambda m: m.register_buffer("weight_g", torch.ones(2)), "has a parameter or buffer 'weight_g'"),
        (lambda m: m.add_module("inner", nn.ReLU()), "has a layer 'inner'"),
        (lambda m: vars(m).update(weight=torch.ones(2, 2)), "weight was set on the instance"),
        (lambda m: setattr(m, "_parameters", types.MappingProxyType(m._parameters)), "keeps its tensors in a"),
        (lambda m: setattr(m, "weight", nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))), "complex64"),
        (lambda m: setattr(m, "weight", nn.Parameter(torch.eye(2).to_sparse())), "layout torch.sparse"),
    ],
)
def test_tensors_that_are_not_what_the_class_registers(change: Callable[[nn.Module], Any], words: str) -> None:
    layer = bnn.SoftmaxLinear(2, 2)
    change(layer)
    assert words in refusal(network(layer))


@pytest.mark.parametrize(
    "noise", [Noise(torch.Tensor.zero_), types.SimpleNamespace(like=torch.zeros_like), Noise(lambda x: x)]
)
def test_noise_of_ones_own(noise: Any) -> None:
    layer = bnn.StochasticSign()
    layer.noise = noise
    assert "its noise is not that of StochasticSign" in refusal(nn.Sequential(bnn.BinaryLinear(2, 2), layer))


def test_a_layer_that_stays_in_training() -> None:
    model = nn.Sequential(bnn.SteLinear(2, 2), nn.BatchNorm1d(2))

    class Stubborn(nn.Sequential):
        def train(self, mode: bool = True) -> Stubborn:
            return super().train(True)

    model.__class__ = Stubborn
    assert "layer '0' stays in training mode after eval()" in refusal(model)


def test_settings_of_training_are_no_change() -> None:
    model = Nested()
    bnn.multiply_signs_in(model, torch.bfloat16)
    bnn.reuse_noise(model)
    bnn.restrain(model, 0.5)
    model(torch.randn(2, 1, 3, 3))
    plain = capture(Nested())
    assert capture(model) == plain
    model.features[0].signs_in = torch.int8
    assert "signs_in torch.int8" in refusal(model)


def test_modules_that_torch_fx_made_are_taken() -> None:
    graph = fx.Tracer().trace(nn.Sequential(nn.Sequential(nn.Flatten())))
    made = fx.GraphModule(nn.Sequential(nn.Sequential(nn.Flatten())), graph)
    assert [node.kind for node in capture(made)] == ["flatten"]


def test_capture_leaves_everything_as_it_is() -> None:
    class Counting(Nested):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            torch.rand(1)
            return super().forward(x)

    model = Counting().train()
    model.features.eval()
    torch.manual_seed(3)
    state = torch.get_rng_state()
    capture(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert (model.calls, model.training, model.features.training) == (0, True, False)


def test_modules_without_values_are_told_why() -> None:
    assert "layer '1': is lazy, and its weight has no shape yet" in refusal(
        nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
    )
    with torch.device("meta"):
        model = Nested()
    assert "'features.0.weight': its logits is on the device 'meta'" in refusal(model)


def test_the_layers_of_a_loaded_network_are_its_graphs() -> None:
    from blrc.frontend.graph import GraphModel

    model: Any = GraphModel(capture(Nested()))
    model.features.extra = bnn.StochasticSign()
    assert "layer 'features.extra' was added to the loaded network" in refusal(model)
    model = GraphModel(capture(Nested()))
    del model.features._modules["2"]
    assert "layer 'features.2' of the loaded network was removed or renamed" in refusal(model)


def test_regression_a_loop_that_never_ends_while_it_is_traced() -> None:
    """As torch's own backward hooks of the old kind have one: memory grew until the process was killed."""

    class Waiting(Nested):
        def forward(self, x: Any) -> torch.Tensor:
            while not isinstance(x, torch.Tensor):
                x = x[0]
            return super().forward(x)

    assert "more than 10000 steps" in refusal(Waiting())
