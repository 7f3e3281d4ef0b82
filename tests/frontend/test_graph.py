"""Capture follows a user's own module, keeps its names and options, and refuses by name what has no binary form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.capture.trace import capture
from blrc.frontend.graph import GraphModel, Node
from blrc.nn import Gaussian

SHAPE = (1, 6, 6)


def chain(nodes: tuple[Node, ...]) -> list[tuple[str, str]]:
    return [(node.name, node.kind) for node in nodes]


class Block(nn.Module):
    """A user's own block; the norm may be left out."""

    def __init__(self, inputs: int, outputs: int, norm: bool) -> None:
        super().__init__()
        self.conv = bnn.BinaryConv2d(inputs, outputs, 3, padding="same")
        self.norm = bnn.StochasticBatchNorm2d(outputs) if norm else nn.Identity()
        self.sign = bnn.StochasticSign()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.sign(self.norm(self.conv(x)))  # type: ignore[no-any-return]


class Own(nn.Module):
    """Nested, with an own forward, a loop, a functional flatten, a dropout and a layer that forward never calls."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(1, 3, True), Block(3, 2, False)])
        self.unused = bnn.BinaryLinear(5, 5)
        self.drop = nn.Dropout(0.5)
        self.scores = bnn.SoftmaxLinear(72, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        x = self.drop(torch.flatten(x, 1))
        return self.scores(x)  # type: ignore[no-any-return]


def test_a_users_own_module_is_followed() -> None:
    nodes = capture(Own())
    assert chain(nodes) == [
        ("blocks.0.conv", "binary_conv2d"),
        ("blocks.0.norm", "batch_norm2d"),
        ("blocks.0.sign", "sign"),
        ("blocks.1.conv", "binary_conv2d"),
        ("blocks.1.sign", "sign"),
        ("flatten", "flatten"),
        ("scores", "softmax"),
    ]
    assert [node.inputs for node in nodes] == [(name,) for name in ["input", *(n.name for n in nodes[:-1])]]


OPTIONS: list[tuple[nn.Module, dict[str, Any]]] = [
    (
        bnn.BinaryConv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2, True),
        {
            "in_channels": 4,
            "out_channels": 6,
            "kernel_size": [3, 2],
            "stride": [2, 1],
            "padding": [1, 0],
            "dilation": [1, 2],
            "groups": 2,
            "bias": True,
        },
    ),
    (bnn.BinaryConv2d(4, 6, 3, padding="same"), {"padding": "same", "bias": False}),
    (bnn.BinaryConv2d(4, 6, 3, padding="valid"), {"padding": "valid"}),
    (bnn.BinaryLinear(3, 5, bias=True), {"in_features": 3, "out_features": 5, "bias": True}),
    (bnn.BinaryLinear(3, 5), {"bias": False}),
    (
        bnn.StochasticBatchNorm1d(3, eps=1e-3, momentum=0.5),
        {"num_features": 3, "eps": 1e-3, "momentum": 0.5, "affine": True},
    ),
    (bnn.StochasticBatchNorm2d(3, momentum=None, affine=False), {"momentum": None, "affine": False}),
    (bnn.StochasticMaxPool2d((3, 2), 2, (1, 0)), {"kernel_size": [3, 2], "stride": [2, 2], "padding": [1, 0]}),
    (bnn.StochasticMaxPool2d(2), {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0]}),
    (bnn.StochasticSign(tau=0.5, hard=False, exact=True), {"tau": 0.5, "hard": False, "exact": True}),
    (bnn.SoftmaxLinear(3, 4, bias=False), {"in_features": 3, "out_features": 4, "bias": False}),
    (nn.Linear(3, 4), {"in_features": 3, "out_features": 4, "bias": True}),
    (nn.Flatten(), {}),
    (bnn.SteConv2d(4, 6, (3, 2), padding="same", bias=True), {"kernel_size": [3, 2], "padding": "same", "bias": True}),
    (bnn.SteLinear(3, 5), {"in_features": 3, "out_features": 5, "bias": False}),
    (bnn.SteSign(), {}),
    (nn.BatchNorm1d(3, eps=1e-3, momentum=None), {"num_features": 3, "eps": 1e-3, "momentum": None, "affine": True}),
    (nn.BatchNorm2d(3, affine=False), {"momentum": 0.1, "affine": False}),
    (nn.MaxPool2d(2), {"kernel_size": 2, "stride": 2, "padding": 0}),
    (nn.MaxPool2d((3, 2), 2, (1, 0)), {"kernel_size": [3, 2], "stride": 2, "padding": [1, 0]}),
]


@pytest.mark.parametrize(("layer", "options"), OPTIONS, ids=lambda x: type(x).__name__)
def test_every_option_survives_capture_and_rebuilding(layer: nn.Module, options: dict[str, Any]) -> None:
    nodes = capture(nn.Sequential(layer))
    assert {key: nodes[0].options[key] for key in options} == options
    again = capture(nn.Sequential(GraphModel(nodes).get_submodule("0")))
    assert again == nodes
    wanted = {key: value.shape for key, value in nn.Sequential(layer).state_dict().items()}
    assert {key: value.shape for key, value in GraphModel(nodes).state_dict().items()} == wanted


def test_regression_momentum_none_stays_none() -> None:
    """It became False, with which a rebuilt norm tracked statistics with momentum 0."""
    norm = GraphModel(capture(nn.Sequential(bnn.StochasticBatchNorm1d(3, momentum=None)))).get_submodule("0")
    assert norm.momentum is None


def test_regression_numpy_numbers_become_plain() -> None:
    """NumPy's integers went into the file, which then did not load under weights_only."""
    nodes = capture(nn.Sequential(bnn.BinaryConv2d(np.int64(3), np.int64(5), (np.int64(3), 3))))  # type: ignore[arg-type]
    assert type(nodes[0].options["in_channels"]) is int
    assert [type(k) for k in nodes[0].options["kernel_size"]] == [int, int]


def test_a_rebuilt_model_computes_the_same() -> None:
    model = Own().eval()
    again = GraphModel(capture(model)).eval()
    again.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("unused")})
    x = torch.randn(3, *SHAPE)
    torch.manual_seed(1)
    expected = model(x)
    torch.manual_seed(1)
    assert torch.equal(again(x), expected)
    assert capture(again) == again.nodes


class Call(nn.Module):
    """A forward given as a function of the module and x."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.a = bnn.BinaryLinear(4, 4)
        self.sign = bnn.StochasticSign()
        self.b = bnn.BinaryLinear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.alias = self.a
        self.call = call

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(self, x)


class TwoInputs(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x


def stop(m: nn.Module, x: Any) -> Any:
    raise BlrcError("from the module itself")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, x: m.b(m.sign(m.b(x))), ["'b'", "used twice", "of its own"]),
        (lambda m, x: m.alias(m.sign(m.a(x))), ["'a'", "used twice"]),
        (lambda m, x: m.a(x) + m.b(x), ["add", "no binary form", "blrc.nn"]),
        (lambda m, x: m.a(x) if x.sum() > 0 else m.b(x), ["Call.forward", "cannot be followed", "conditions on data"]),
        (lambda m, x: m.a(x) if len(x) > 0 else m.b(x), ["Call.forward", "cannot be followed"]),
        (lambda m, x: [m.a(x), m.b(x)][0], ["output of its last layer"]),
        (lambda m, x: None, ["output of its last layer"]),
        (lambda m, x: m.a(x) * m.scale, ["the parameter or buffer 'scale' itself", "blrc.nn.ChannelScale"]),
        (lambda m, x: torch.relu(m.a(x)), ["relu", "no binary form"]),
        (lambda m, x: m.a(x).view(-1), ["view", "nn.Flatten()"]),
        (lambda m, x: m.a(torch.flatten(x)), ["flatten", "nn.Flatten()"]),
        (lambda m, x: m.a(torch.flatten(x, end_dim=1)), ["flatten", "keep the batch"]),
        (lambda m, x: m.a(torch.flatten(x, 1, 2)), ["flatten", "keep the batch"]),
        (lambda m, x: m.a(x.flatten(2)), ["flatten", "keep the batch"]),
        (stop, ["from the module itself"]),
    ],
)
def test_a_forward_that_is_no_chain_of_layers_is_refused(call: Any, words: list[str]) -> None:
    with pytest.raises(BlrcError) as error:
        capture(Call(call))
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.a(torch.flatten(x, 1)),
        lambda m, x: m.a(torch.flatten(x, start_dim=1)),
        lambda m, x: m.a(torch.flatten(x, end_dim=-1, start_dim=1)),
        lambda m, x: m.a(x.flatten(1)),
        lambda m, x: m.a(x.flatten(1, -1)),
    ],
)
def test_flatten_in_every_spelling(call: Any) -> None:
    assert chain(capture(Call(call))) == [("flatten", "flatten"), ("a", "binary_linear")]


def test_regression_flatten_over_the_batch_is_not_taken_for_one_within() -> None:
    """``torch.flatten(x, end_dim=1)`` merges batch and channels; it was read as ``start_dim=1``."""
    with pytest.raises(BlrcError, match="keep the batch"):
        capture(Call(lambda m, x: m.a(torch.flatten(x, end_dim=1))))


@pytest.mark.parametrize(
    ("layer", "instead"),
    [
        (nn.Conv2d(1, 2, 3), "blrc.nn.BinaryConv2d"),
        (nn.BatchNorm1d(3), "blrc.nn.StochasticBatchNorm1d"),
        (nn.BatchNorm2d(3), "blrc.nn.StochasticBatchNorm2d"),
        (nn.MaxPool2d(2), "blrc.nn.StochasticMaxPool2d"),
        (nn.Sigmoid(), "use the layers of blrc.nn"),
        (nn.Sigmoid(), "layers of blrc.nn"),
        (nn.LSTM(3, 3), "layers of blrc.nn"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_layers_without_a_binary_form_are_named_with_the_remedy(layer: nn.Module, instead: str) -> None:
    model = nn.Sequential(nn.Sequential(bnn.BinaryConv2d(1, 1, 1), layer))
    with pytest.raises(BlrcError, match=r"layer '0\.1'") as error:
        capture(model)
    assert type(layer).__name__ in str(error.value)
    assert instead in str(error.value)


@pytest.mark.parametrize(
    ("layer", "instead"),
    [
        (bnn.StochasticBatchNorm2d(1), "use torch.nn.BatchNorm2d"),
        (bnn.StochasticMaxPool2d(2), "use torch.nn.MaxPool2d"),
        (bnn.StochasticSign(), "use blrc.nn.SteSign"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_stochastic_layers_behind_those_of_a_binarized_nn(layer: nn.Module, instead: str) -> None:
    for before in (bnn.SteConv2d(1, 1, 1), nn.BatchNorm2d(1), nn.MaxPool2d(2)):
        with pytest.raises(BlrcError, match=rf"layer '1' .* cannot follow '0' \({type(before).__name__}\); {instead}"):
            capture(nn.Sequential(before, layer))
    with pytest.raises(BlrcError, match=r"layer '1' \(SteSign\) cannot follow '0' .*; use blrc.nn.StochasticSign"):
        capture(nn.Sequential(bnn.BinaryLinear(2, 2), bnn.SteSign()))


@pytest.mark.parametrize(
    ("layer", "option"),
    [
        (nn.BatchNorm1d(2, track_running_stats=False), "track_running_stats=False"),
        (nn.BatchNorm2d(2, track_running_stats=False), "track_running_stats=False"),
        (nn.MaxPool2d(2, dilation=2), "dilation=2"),
        (nn.MaxPool2d(2, dilation=(1, 2)), r"dilation=\(1, 2\)"),
        (nn.MaxPool2d(2, ceil_mode=True), "ceil_mode=True"),
        (nn.MaxPool2d(2, return_indices=True), "return_indices=True"),
    ],
)
def test_options_of_torchs_layers_without_an_integer_form(layer: nn.Module, option: str) -> None:
    with pytest.raises(BlrcError, match=f"layer '1': {type(layer).__name__} with {option} cannot be compiled"):
        capture(nn.Sequential(bnn.SteConv2d(2, 2, 1), layer))
    capture(nn.Sequential(bnn.SteConv2d(2, 2, 1), nn.MaxPool2d(2, dilation=(1, 1))))


def test_other_refusals() -> None:
    with pytest.raises(BlrcError, match=r"TwoInputs\.forward has several inputs"):
        capture(TwoInputs())
    with pytest.raises(BlrcError, match=r"single BinaryLinear is a layer.*nn\.Sequential"):
        capture(bnn.BinaryLinear(2, 2))
    with pytest.raises(BlrcError, match=r"layer '0': Flatten must keep the batch"):
        capture(nn.Sequential(nn.Flatten(2)))
    with pytest.raises(BlrcError, match=r"layer 'x'.*'new_kind'.*does not know"):
        GraphModel((Node("x", "new_kind", ("input",), {}),))


def test_regression_a_layer_called_input_is_told_why() -> None:
    """It was told that it is used twice."""
    model = nn.Sequential()
    model.add_module("input", bnn.BinaryLinear(2, 2))
    with pytest.raises(BlrcError, match=r"layer 'input': that name stands for the network's input"):
        capture(model)


class NamedFlatten(nn.Module):
    """A container called as torch names the functional flatten."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Sequential(bnn.BinaryLinear(4, 4), bnn.StochasticSign())
        self.last = bnn.SoftmaxLinear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.flatten(torch.flatten(x, 1)))  # type: ignore[no-any-return]


def test_regression_a_functional_flatten_does_not_hide_a_module_of_that_name() -> None:
    nodes = capture(NamedFlatten())
    assert len({node.name for node in nodes}) == len(nodes)
    assert set(NamedFlatten().state_dict()) == set(GraphModel(nodes).state_dict())


def test_the_same_graph_from_the_same_module() -> None:
    assert capture(Own()) == capture(Own())


class Negated(bnn.BinaryConv2d):
    def forward(self, x: torch.Tensor) -> Gaussian:
        return super().forward(-x)


class Tempered(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) / 2


def _with(first: nn.Module, last: nn.Module) -> nn.Module:
    return nn.Sequential(first, bnn.StochasticSign(), nn.Flatten(), last)


def test_a_layer_with_its_own_forward_is_refused() -> None:
    """It was compiled as its base class, and verify said equal."""
    with pytest.raises(BlrcError, match=r"'0': Negated has a forward of its own"):
        capture(_with(Negated(1, 2, 3), bnn.SoftmaxLinear(2, 2)))
    with pytest.raises(BlrcError, match=r"'3': Tempered has a forward of its own"):
        capture(_with(bnn.BinaryConv2d(1, 2, 3), Tempered(2, 2)))


def test_a_layer_with_hooks_is_refused() -> None:
    model = _with(bnn.BinaryConv2d(1, 2, 3), bnn.SoftmaxLinear(2, 2))
    handle = model[0].register_forward_pre_hook(lambda module, inputs: (-inputs[0],))  # type: ignore[index]
    with pytest.raises(BlrcError, match=r"'0': has forward hooks"):
        capture(model)
    handle.remove()
    assert len(capture(model)) == 4


def test_a_parametrised_layer_is_refused() -> None:
    model = _with(bnn.BinaryConv2d(1, 2, 3), nn.utils.parametrizations.weight_norm(bnn.SoftmaxLinear(2, 2)))
    with pytest.raises(BlrcError, match=r"'3'.*(parametrisations|forward of its own)"):
        capture(model)


class TwoHeads(nn.Module):
    """With another head in training, as deep supervision has it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(bnn.BinaryConv2d(1, 2, 3), bnn.StochasticSign(), nn.Flatten())
        self.head, self.auxiliary = bnn.SoftmaxLinear(2, 2), bnn.SoftmaxLinear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.body(x)
        return self.auxiliary(features) if self.training else self.head(features)


def test_what_evaluation_computes_is_captured_in_either_mode() -> None:
    model = TwoHeads().train()
    model.body.eval()
    assert capture(model)[-1].name == "head"
    assert model.training
    assert not model.body.training
    assert capture(model.eval())[-1].name == "head"
    assert not model.training


def test_a_bad_option_of_a_node_names_the_layer() -> None:
    nodes = capture(_with(bnn.BinaryConv2d(1, 2, 3), bnn.SoftmaxLinear(2, 2)))
    broken = replace(nodes[0], options={**nodes[0].options, "stride": [0, 0]})
    with pytest.raises(BlrcError, match=r"layer '0': stride \[0, 0\]"):
        GraphModel((broken, *nodes[1:]))
