"""Spellings that have no form are refused by name, with the line of the module's code and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from spelled_networks import Network, OnlySigns, Signs, scores, sign, taken
from torch import nn

from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP


def scaled_by_data(m: Network, x: torch.Tensor) -> torch.Tensor:
    return m.fc((x.sign() * x.abs().mean(1, keepdim=True)).flatten(1))  # type: ignore[no-any-return]


def condition(m: Network, x: torch.Tensor) -> torch.Tensor:
    return m.fc((x if x.sum() > 0 else -x).sign().flatten(1))  # type: ignore[no-any-return]


def written(m: Network, x: torch.Tensor) -> torch.Tensor:
    x = sign(x)
    x[:, 0] = 1.0
    return m.fc(x.flatten(1))  # type: ignore[no-any-return]


COUNT = [0]


def counted(m: Network, x: torch.Tensor) -> torch.Tensor:
    COUNT[0] += 1
    return m.fc((x + COUNT[0]).sign().flatten(1))  # type: ignore[no-any-return]


def identity(x: torch.Tensor) -> torch.Tensor:
    return x


REFUSED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "real activations": (
        lambda m, x: m.fc(torch.relu(x).flatten(1)),
        ["layer 'fc' (Linear)", "whose input is not binary", "'relu'", "put a sign"],
    ),
    "K of XNOR-Net": (scaled_by_data, ["multiplies two values that both depend on the input", "K of XNOR-Net"]),
    "weights from data": (
        lambda m, x: F.linear(sign(x).flatten(1), x[:4].flatten(1)),
        ["weights or a bias that depend on the input"],
    ),
    "residual": (lambda m, x: m.fc(sign(x + F.relu(x)).flatten(1)), ["adds what", "residual", "chain of layers"]),
    "maximum of a batch": (lambda m, x: scores(m, x).max(), ["takes max along another dimension than that of the"]),
    "mean": (lambda m, x: m.fc(sign(x).mean(1).flatten(1).repeat(1, 6)), ["computes mean", "nn.AdaptiveAvgPool2d(1)"]),
    "dropout": (lambda m, x: scores(m, F.dropout(x)), ["training=self.training"]),
    "sigmoid": (lambda m, x: m.fc(torch.sigmoid(x).flatten(1)), ["computes sigmoid"]),
    "condition": (condition, ["forward looks at a single value", "condition"]),
    "counter": (counted, ["for another input, or at each call"]),
    "batch": (lambda m, x: scores(m, x + len(x)), ["for another input, or at each call"]),
    "two outputs that are no scores": (lambda m, x: (x, x), ["no sign follows"]),
    "NumPy": (lambda m, x: torch.from_numpy(x.numpy().copy()), ["do not depend on its input", "NumPy"]),
    "no sign": (lambda m, x: x.flatten(1) * 2, ["no sign follows"]),
    "ends in a sign": (lambda m, x: sign(x).flatten(1), ["no softmax layer at its end"]),
    "three values": (lambda m, x: m.fc((x > 0).to(x).add(x < 0).flatten(1)), ["other values than two"]),
    "part": (lambda m, x: m.fc(torch.cat([x, -x], 1)[:, :6].sign().flatten(1)), ["computes cat", "chain"]),
    "written in part": (written, ["part of a tensor"]),
    "batch norm": (
        lambda m, x: scores(m, F.batch_norm(x, torch.zeros(6), torch.ones(6), training=True)),
        ["statistics of its batch"],
    ),
    "softmax of maps": (lambda m, x: scores(m, x.softmax(1)), ["softmax along another dimension"]),
    "error": (lambda m, x: m.fc(x), ["fails on an input of shape", "mat1 and mat2"]),
    "transposed": (lambda m, x: m.fc(sign(x).permute(0, 2, 3, 1).flatten(1)), ["permute", "(N, C, H, W)"]),
    "padded": (
        lambda m, x: m.fc(F.pad(sign(x), (1, 0, 1, 0))[:, :, 1:, 1:].flatten(1)),
        ["pads with 0 what no convolution (for 0) or max pooling (for -inf) reads next"],
    ),
    "padded with 2": (
        lambda m, x: scores(m, F.conv2d(F.pad(sign(x), (0, 2, 0, 2), value=2.0), torch.ones(6, 6, 3, 3).to(x))),
        ["a convolution whose input was padded with 2", "pad bits, behind the sign, with 0 or with one of their"],
    ),
    "padded channels": (lambda m, x: m.fc(F.pad(sign(x), (0, 0, 0, 0, 1, 0))[:, 1:].flatten(1)), ["height and width"]),
    "padded with 0 and pooled": (
        lambda m, x: scores(m, F.max_pool2d(F.pad(x, (0, 1, 0, 1)), 2, 1)),
        ["pools what was padded with 0, which may be the largest", "-inf"],
    ),
    "pool of a pad": (
        lambda m, x: scores(m, F.max_pool2d(F.pad(x, (0, 2, 0, 2), value=-torch.inf), 2, 1)[:, :, :3, :2]),
        ["pools with padding (0, 0, 2, 2)", "at most (1, 1)"],
    ),
    "pool": (
        lambda m, x: scores(m, F.max_pool2d(x, (2, 1), 1, dilation=2).repeat(1, 1, 3, 1)),
        ["pools with dilation"],
    ),
    "whole numbers": (lambda m, x: m.fc(x.int().to(x).flatten(1)), ["into whole numbers"]),
    "sign of -0.0": (
        lambda m, x: scores(m, torch.copysign(torch.ones_like(x), x)),
        ["computes copysign, which has no binary form", "signs"],
    ),
    "another sign far from 0": (
        lambda m, x: m.fc(torch.where(x > 6, torch.zeros(()).to(x), sign(x)).flatten(1)),
        ["combines two values that both depend on the input", "chain of layers"],
    ),
    "real inner layer": (
        lambda m, x: F.linear(sign(m.fc(sign(x).flatten(1))), torch.ones(4, 4)),
        ["'fc'", "only a last linear layer may have real ones", "sign(w)"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_is_refused_by_name(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(BlrcError) as error:
        taken(Network(identity, call))
    said = str(error.value)
    assert "\n" not in said
    for word in words:
        assert word in said


class OwnLinear(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight.tanh())


class Drawn(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, torch.sign(torch.randn_like(self.weight)))


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (OwnLinear(40, 8), ["layer '1' (OwnLinear)", "take 40 values in output channel 0", "sign(w) times a scale"]),
        (Drawn(40, 8), ["layer '1': its weight is another", "at each call"]),
        (nn.Linear(40, 8), ["layer '1' (Linear)", "take 40 values"]),
        (nn.Bilinear(40, 40, 8), ["layer '1' (Bilinear)", "fails on an input"]),
    ],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.filterwarnings("ignore:.*pixels are rounded to int8 codes:UserWarning")
def test_layers_of_ones_own_that_are_not_binary(layer: nn.Module, words: list[str]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), layer, nn.BatchNorm1d(8), nn.Hardtanh(), nn.Identity(), Signs(), nn.Linear(8, 3)
    )
    with pytest.raises(BlrcError) as error:
        taken(model)
    for word in words:
        assert word in str(error.value)


def test_one_output_and_other_distributions_are_refused() -> None:
    model = nn.Sequential(nn.Flatten(), OnlySigns(40, 64), Signs(), nn.Linear(64, 1))
    with pytest.raises(BlrcError, match="layer '3': one output is no choice"):
        build(taken(model), [MAP])

    class Halves(bnn.Bernoulli):
        """Weights of another size, by another law."""

        def moments(self) -> Any:
            return tuple(each / 2 for each in super().moments())

    layer = bnn.BinaryLinear(40, 64)
    layer.weight = Halves((64, 40))
    net = nn.Sequential(nn.Flatten(), layer, bnn.StochasticSign(), bnn.SoftmaxLinear(64, 3))
    with pytest.raises(BlrcError, match="layer '1': its weights: Halves has a moments of its own"):
        taken(net)


class Deterministic(nn.Module):
    """Layers of blrc with weights that are not random, and a forward that calls functions of torch."""

    def __init__(self, function: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer, self.norm, self.sign = bnn.SteLinear(40, 8), nn.BatchNorm1d(8), bnn.SteSign()
        self.out, self.factor, self.function = bnn.SoftmaxLinear(8, 3), nn.Parameter(torch.tensor(2.0)), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


MESSAGES: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], str]] = {
    "view": (lambda m, x: m.out(m.sign(m.norm(m.layer(x.view(-1, 40))))), "'view' .*nn.Flatten"),
    "sign": (lambda m, x: m.out(torch.sign(m.norm(m.layer(x.flatten(1))))), "'sign' .*use blrc.nn.SteSign"),
    "log_softmax": (
        lambda m, x: F.log_softmax(m.out(m.sign(m.norm(m.layer(x.flatten(1))))), 1),
        "'log_softmax' .*leave it out where it ends the network: the labels are the same",
    ),
    "twice": (
        lambda m, x: m.out(m.sign(m.norm(m.layer(m.sign(x.flatten(1)))))),
        "layer 'sign' is used twice; make a layer of its own",
    ),
    "parameter": (
        lambda m, x: m.out(m.sign(m.factor * m.norm(m.layer(x.flatten(1))))),
        "computes with the parameter or buffer 'factor' itself; use a layer for that: blrc.nn.ChannelScale",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_layers_of_blrc_are_not_called_with_is_told_with_its_remedy(name: str) -> None:
    function, words = MESSAGES[name]
    with pytest.raises(BlrcError, match=words):
        taken(Deterministic(function))


class Lines(nn.Module):
    """Do what has no form, in lines that a message can name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.conv, self.fc, self.kind = nn.Conv2d(2, 6, 3), nn.Linear(36, 4), kind
        self.conv.weight.data.sign_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        if self.kind == "mean":
            x = x * torch.where(x.mean(1, keepdim=True) > 0, 1.0, -1.0)  # mean
        if self.kind == "condition" and x.sum() > 0:  # condition
            x = -x
        if self.kind == "sine":
            x = torch.sin(x)  # sine
        return self.fc(torch.sign(x).flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["mean", "condition", "sine"])
def test_a_refusal_names_the_line_of_the_modules_code(kind: str) -> None:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(i for i, text in enumerate(lines, 1) if text.endswith(f"  # {kind}"))
    words = {"mean": "multiplies two values", "condition": "a single value", "sine": "computes sin, which"}[kind]
    with pytest.raises(BlrcError) as error:
        taken(Lines(kind))
    assert words in str(error.value) and str(error.value).endswith(f" (test_refused_spellings.py line {number})")


def test_a_refusal_names_no_line_where_there_is_none() -> None:
    with pytest.raises(BlrcError, match=r"^layer '2' \(Sigmoid\): computes sigmoid.*signs$"):
        taken(nn.Sequential(nn.Conv2d(2, 6, 3), nn.Flatten(), nn.Sigmoid(), nn.Linear(36, 4)).apply(_signs))


def _signs(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        module.weight.data.sign_()


def test_a_softmax_layer_at_the_end_is_told_to_be_left_out() -> None:
    model = nn.Sequential(nn.Flatten(), bnn.SteLinear(40, 8), bnn.SteSign(), bnn.SoftmaxLinear(8, 3), nn.LogSoftmax(1))
    with pytest.raises(BlrcError, match=r"layer '4' \(LogSoftmax\) .*leave it out where it ends the network"):
        taken(model)


def test_two_random_variables_are_not_joined_by_plus() -> None:
    """It made a tuple of four, which the next layer took for something else."""
    x = bnn.BinaryLinear(4, 3)(torch.ones(2, 4))
    with pytest.raises(TypeError, match=r"a Gaussian .* takes no \+"):
        x + x
