"""Whatever makes a module compute something else than its class says is refused by name, wherever it stands."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize, prune

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.capture.allowed import HARMLESS
from blrc.frontend.capture.known import CLASSES, SKIPPED, known_class
from blrc.frontend.capture.trace import capture
from blrc.nn.noise import Noise
from blrc.nn.ranks import JointBatchNorm1d, JointBatchNorm2d


def layer_of(cls: type[nn.Module]) -> nn.Module:
    """A small instance of a class that is compiled."""
    if cls in (bnn.BinaryConv1d, bnn.BinaryConv2d, bnn.SteConv1d, bnn.SteConv2d):
        return cls(1, 2, 3, bias=True)
    if cls in (bnn.BinaryLinear, bnn.SteLinear, bnn.SoftmaxLinear, nn.Linear):
        return cls(2, 2, bias=True)
    if issubclass(cls, nn.BatchNorm1d | nn.BatchNorm2d | bnn.StochasticBatchNorm1d | bnn.StochasticBatchNorm2d):
        return cls(2)
    pools = (bnn.StochasticMaxPool1d, bnn.StochasticMaxPool2d, bnn.MaxPool1d, bnn.MaxPool2d, nn.MaxPool1d, nn.MaxPool2d)
    given = (bnn.ChannelScale, bnn.ChannelShift, bnn.Threshold, bnn.SteLevels, bnn.StochasticLevels)
    return cls(2) if cls in (*pools, *given) else cls()


LAYERS = [cls for cls in CLASSES if not issubclass(cls, bnn.WeightDistribution)]


def network(layer: nn.Module) -> nn.Sequential:
    """The layer as the second of a network that tracing can follow."""
    return nn.Sequential(bnn.StochasticSign() if known_class(layer) not in SKIPPED else nn.Identity(), layer)


def refusal(model: nn.Module) -> str:
    with pytest.raises(BlrcError) as error:
        capture(model)
    assert "\n" not in str(error.value)
    return str(error.value)


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


@pytest.mark.parametrize("cls", LAYERS, ids=lambda cls: cls.__name__)
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


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(bnn.BinaryConv2d(1, 2, 3), nn.Identity(), bnn.StochasticSign(), nn.Flatten())
        self.scores = bnn.SoftmaxLinear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.features(x))  # type: ignore[no-any-return]


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


class Negated(bnn.BinaryConv2d):
    def convolve(self, x: Any, weight: Any, bias: Any, signs: bool = False) -> torch.Tensor:
        return super().convolve(-x, weight, bias, signs)


class Doubled(bnn.BinaryLinear):
    def multiply(self, x: Any, weight: Any, signs: bool) -> torch.Tensor:
        return 2 * super().multiply(x, weight, signs)


class Shifted(bnn.StochasticBatchNorm2d):
    def affine_pair(self) -> tuple[torch.Tensor, torch.Tensor]:
        weight, bias = super().affine_pair()
        return weight, bias + 1


class Certain(bnn.Bernoulli):
    def moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        mean, variance = super().moments()
        return -mean, variance


class OwnWeight(bnn.BinaryLinear):
    def new_weight(self, shape: Any, device: Any, dtype: Any) -> bnn.WeightDistribution:
        return Certain(shape, device=device, dtype=dtype)


class Foreign(bnn.WeightDistribution):
    name = "foreign"
    support = (-1, 0, 1)

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(shape))

    shape = property(lambda self: self.logits.shape)  # type: ignore[assignment]

    def mean(self) -> torch.Tensor:
        return 0.5 * torch.tanh(self.logits)

    def variance(self) -> torch.Tensor:
        return torch.ones_like(self.logits)

    def map(self) -> torch.Tensor:
        return torch.zeros_like(self.logits)

    def sample(self, generator: Any = None) -> torch.Tensor:
        return self.map()

    def entropy(self) -> torch.Tensor:
        return torch.zeros_like(self.logits)

    def transfer_(self, weight: torch.Tensor) -> float:
        return 1.0

    def scatter_(self, reach: float) -> None:
        pass

    def settle_(self) -> None:
        pass


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (Negated(1, 2, 3), "Negated has a convolve of its own"),
        (Doubled(2, 2), "Doubled has a multiply of its own"),
        (Shifted(2), "Shifted has a affine_pair of its own"),
        (OwnWeight(2, 2), "its weights: Certain has a moments of its own"),
    ],
)
def test_regression_what_forward_calls_is_overridden(layer: nn.Module, words: str) -> None:
    """They were compiled as their base class."""
    line = refusal(network(layer))
    assert "layer '1'" in line
    assert words in line


@pytest.mark.parametrize("layer", [bnn.BinaryLinear(2, 2), bnn.BinaryConv2d(2, 2, 1)])
def test_regression_a_foreign_distribution_of_weights(layer: Any) -> None:
    layer.weight = Foreign(tuple(layer.weight.shape))
    line = refusal(network(layer))
    assert "layer '1': its weights are the distribution Foreign, which cannot be compiled" in line
    assert line.endswith('build the layer with weight="binary" or weight="ternary"')


def test_subclasses_that_compute_the_same_are_taken() -> None:
    class Named(bnn.BinaryConv2d):
        """With a docstring, a constructor, a helper, and attributes of its own."""

        group = "slow"

        def __init__(self, width: int) -> None:
            super().__init__(1, width, 3)
            self.rate = 0.1

        def extra_repr(self) -> str:
            return "named"

        def reset(self) -> None:
            self.weight.reset_parameters()  # type: ignore[operator]

    nodes = capture(network(Named(2)))
    assert nodes[1].kind == "binary_conv2d"


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
