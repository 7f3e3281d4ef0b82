"""Networks with levels in checkpoints: captured, compared, read back, and drawn as nets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.capture.check import check_equal
from blrc.frontend.capture.trace import capture
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import Member, sample
from blrc.net.net import Conv, Dense, Levels, MaxPool, Norm

ENCODING = blrc.int8_codes((2, 8, 8), scale=16.0)


def network(second: nn.Module) -> nn.Sequential:
    """An LR-net whose second activation is `second`."""
    torch.manual_seed(1)
    model = nn.Sequential(
        bnn.BinaryConv2d(2, 5, 3, padding="same"), bnn.GaussianSample(), nn.BatchNorm2d(5), nn.MaxPool2d(2),
        bnn.SteLevels(2, 0.375), bnn.BinaryConv2d(5, 6, 3), bnn.StochasticBatchNorm2d(6), second, nn.Flatten(),
        bnn.BinaryLinear(24, 7), bnn.GaussianSample(), nn.BatchNorm1d(7), bnn.SteLevels(4, 0.1),
        bnn.SoftmaxLinear(7, 3),
    )  # fmt: skip
    for _ in range(3):
        model(torch.randn(16, 2, 8, 8) * 2)
    return model


def samples(count: int = 40) -> np.ndarray:
    return np.random.default_rng(0).integers(-100, 101, (count, 2, 8, 8)).astype(np.int8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_read_back_as_it_was(tmp_path: Path, dtype: torch.dtype) -> None:
    model = network(bnn.StochasticLevels(3, 0.3)).to(dtype)
    blrc.save(model, path=tmp_path / "x.pt", input=ENCODING, calibration=samples())
    held = blrc.load(tmp_path / "x.pt")
    kinds = [node.kind for node in held.nodes]
    assert kinds[1] == kinds[10] == "gaussian_sample" and kinds[4] == "ste_levels" and kinds[7] == "levels"
    assert [dict(held.nodes[i].options) for i in (4, 7, 12)] == [{"bits": 2}, {"bits": 3}, {"bits": 4}]
    again = held.model()
    assert again.state_dict().keys() == model.state_dict().keys()
    x = torch.from_numpy(ENCODING.real(samples()))
    one, two = (bnn.reestimate(bnn.deterministic(each.float()), x)(x) for each in (model, again))
    assert torch.equal(one, two) and one.std() > 0
    blrc.save(held.model(), path=tmp_path / "y.pt", input=ENCODING, calibration=samples())
    assert blrc.load(tmp_path / "y.pt").nodes == held.nodes
    once_more = blrc.load(tmp_path / "y.pt").model().state_dict()
    assert all(torch.equal(value, once_more[key]) for key, value in held.model().state_dict().items())
    assert type(again.get_submodule("7")) is bnn.StochasticLevels and type(again.get_submodule("4")) is bnn.SteLevels


def test_the_net_of_a_member_has_levels_and_no_samples(tmp_path: Path) -> None:
    blrc.save(network(bnn.StochasticLevels(3, 0.25)), path=tmp_path / "x.pt", input=ENCODING, calibration=samples())
    for member in (Member(), Member(3, 1)):
        layers = sample(blrc.load(tmp_path / "x.pt"), member).layers
        assert [type(layer) for layer in layers[:4]] == [Conv, Norm, MaxPool, Levels]
        names = ["input", *(layer.name for layer in layers)]
        assert [layer.x for layer in layers] == names[:-1] and not {"1", "10"} & set(names)
        found = [layer for layer in layers if isinstance(layer, Levels)]
        assert [(layer.bits, layer.step) for layer in found] == [(2, 0.375), (3, 0.25), (4, float(np.float32(0.1)))]
    first, second = (
        next(
            layer.weights
            for layer in sample(blrc.load(tmp_path / "x.pt"), Member(3, i)).layers
            if isinstance(layer, Dense)
        )
        for i in (0, 1)
    )
    assert (first != second).any()  # the number of a layer among all keys its random bits


def test_other_arithmetic_than_the_captured_one_is_refused_by_layer() -> None:
    class Rounds(bnn.SteLevels):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.step * torch.round(x / self.step).clamp(0, self.top)

    with pytest.raises(BlrcError, match="layer '12'"):
        model = network(bnn.StochasticLevels(2))
        model[12] = Rounds(4, 0.1)
        blrc.save(model, path="never.pt", input=ENCODING, calibration=samples())
    model = network(bnn.StochasticLevels(2, 0.5))
    nodes = capture(model)
    tensors = {key: value.numpy() for key, value in model.state_dict().items()}
    check_equal(model, nodes, tensors, ENCODING, samples())
    for layer in ("4", "7"):
        other = {**tensors, f"{layer}.step": tensors[f"{layer}.step"] * np.float32(1.001)}
        with pytest.raises(BlrcError, match=f"layer '{layer}': .* what it computes"):
            check_equal(model, nodes, other, ENCODING, samples())


@pytest.mark.parametrize("layer", [bnn.SteLevels(2, 0.3), bnn.StochasticLevels(2, 0.3)])
def test_values_next_to_a_threshold_are_no_reason_to_refuse(layer: nn.Module) -> None:
    """In float32 a quotient next to a half may round to it, and what is added to it as well."""
    ties = [np.float32(0.3) * (t - 0.5) for t in (1, 2, 3)]
    near = [np.nextafter(x, np.float32(to)) for x in ties for to in (-9, 9)]
    values = np.array([*ties, *near], np.float32)
    conv = (bnn.SteConv2d if isinstance(layer, bnn.SteLevels) else bnn.BinaryConv2d)(1, 9, 1, bias=True)
    conv.bias.data = torch.from_numpy(values)
    model = nn.Sequential(conv, layer, nn.Flatten(), bnn.SoftmaxLinear(9, 2))
    tensors = {key: value.numpy() for key, value in model.state_dict().items()}
    check_equal(model, capture(model), tensors, blrc.int8_codes((1, 1, 1), scale=1.0), np.zeros((4, 1, 1, 1), np.int8))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((bnn.SteLinear(4, 4), bnn.StochasticLevels(2)), r"'1' \(StochasticLevels\) cannot .*; use blrc.nn.SteLevels"),
        ((bnn.SteLinear(4, 4), bnn.GaussianSample()), r"'1' \(GaussianSample\) cannot .*; use the tensor as it is"),
        ((bnn.BinaryLinear(4, 4), bnn.SteLevels(2)), r"'1' \(SteLevels\) cannot .*; use blrc.nn.StochasticLevels"),
        (
            (bnn.BinaryLinear(4, 4), bnn.GaussianSample(), bnn.StochasticBatchNorm1d(4)),
            r"'2' \(StochasticBatchNorm1d\) cannot follow '1' \(GaussianSample\); use torch.nn.BatchNorm1d",
        ),
    ],
)
def test_what_cannot_follow_is_refused_with_what_to_use(layers: tuple[nn.Module, ...], message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        capture(nn.Sequential(*layers, bnn.SoftmaxLinear(4, 2)))


def test_a_sampled_first_value_is_passed_on_to_every_reader() -> None:
    """Two samples in a row, which no forward of layers makes, still lead back to the value before both."""
    model = network(bnn.StochasticLevels(2))
    nodes = list(capture(model))
    twice = [
        *nodes[:2],
        replace(nodes[1], name="again", inputs=("1",)),
        replace(nodes[2], inputs=("again",)),
        *nodes[3:],
    ]
    tensors = {key: value.numpy() for key, value in model.state_dict().items()}
    net = sample(Checkpoint(tuple(twice), tensors, ENCODING, None, "x"))
    assert [layer.x for layer in net.layers][:2] == ["input", "0"]


def test_torchs_own_layer_beside_levels_is_refused_with_what_to_use() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), bnn.SteLevels(2), nn.Linear(4, 2))
    model[0].weight.data.sign_()
    with pytest.raises(BlrcError, match=r"layer '2': SteLevels behind torch's own layers.* use SteConv2d or"):
        blrc.save(model, path="never.pt", input=blrc.int8_codes((4,), scale=1.0), calibration=None)
