"""Layers of plain PyTorch, of users and of blrc, read as what they compute."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from spelled_networks import BITS, SHAPE, Network, OnlySigns, Signs, Step, sign, taken
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.lowering.lower import score_scale
from blrc.net.encoding import device_layout
from blrc.program import reference


def test_the_shape_of_the_input() -> None:
    model = nn.Sequential(nn.Unflatten(1, SHAPE), Network(sign))
    with pytest.raises(BlrcError, match=r"reshapes \(40,\) to \(2, 5, 4\).*describe the input .* shape \(2, 5, 4\)"):
        taken(model, blrc.bits((40,)))
    with pytest.raises(BlrcError, match=r"example: has shape \(3, 40\), but the input is described as \(N, 2, 5, 4\)"):
        taken(Network(sign), example=torch.zeros(3, 40))
    with pytest.raises(BlrcError, match="example=int: expected a tensor"):
        taken(Network(sign), example=3)
    assert taken(Network(sign), example=torch.ones(7, *SHAPE)).nodes == taken(Network(sign)).nodes


def test_names_are_those_of_modules_and_differ() -> None:
    """One sign for several layers, and functions of a module that has layers, too."""
    names = [node.name for node in taken(Network(lambda x: sign(F.relu(x - 1)))).nodes]
    assert names == ["conv", "shift", "relu", "sign", "flatten", "fc"]
    one = Signs()
    linear = nn.Linear(8, 8, bias=False)
    linear.weight.data.sign_()
    model = nn.Sequential(nn.Flatten(), OnlySigns(40, 8), one, linear, one, linear, one, nn.Linear(8, 3))
    nodes = taken(model).nodes
    assert [node.name for node in nodes] == ["0", "1", "2", "3", "2_2", "3_2", "2_3", "7"]
    assert len({node.name for node in nodes}) == len(nodes)


def test_plain_layers_with_binary_weights_are_binary() -> None:
    """A last nn.Linear, too, whose scale and bias become those of the scores."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Flatten(), OnlySigns(40, 8), Signs(), nn.Linear(8, 3))
    model[3].weight.data = 0.3 * sign(model[3].weight)
    checkpoint = taken(model)
    assert [node.kind for node in checkpoint.nodes][-3:] == ["ste_linear", "scale", "shift"]
    program, nets = build(checkpoint, [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (50, *SHAPE)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    assert np.abs(reference.scores(program, device_layout(raw)) * score_scale(nets) - expected).max() < 1e-3


def test_real_scores_take_up_the_norm_behind_them() -> None:
    torch.manual_seed(2)
    norm = nn.BatchNorm1d(3)
    norm.running_mean, norm.running_var = torch.randn(3), torch.rand(3) + 0.1
    model = nn.Sequential(nn.Flatten(), OnlySigns(40, 8), Signs(), nn.Linear(8, 3), norm).eval()
    program, nets = build(taken(model), [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (50, *SHAPE)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    found = reference.scores(program, device_layout(raw)) * score_scale(nets)
    assert np.abs(found - expected).max() <= 9.001 * score_scale(nets) / 2


class Stepping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Step.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class Anew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(x)


def test_layers_of_blrc_are_still_read_by_class() -> None:
    """Refuse with words that say what stands in the way, and not torch's own."""
    for strange, words in (
        (Stepping(), "does not support item"),
        (Anew(), "a function of torch that takes tensors only"),
    ):
        model = nn.Sequential(nn.Flatten(), bnn.SteLinear(40, 64), strange, nn.Linear(64, 3))
        with pytest.raises(BlrcError, match=f"forward cannot be followed .*{words}"):
            taken(model)


@pytest.mark.parametrize("kind", [nn.LogSoftmax, nn.Softmax])
def test_a_softmax_at_the_end_of_plain_pytorch_is_left_out_with_a_word(kind: type[nn.Module]) -> None:
    model = nn.Sequential(Network(sign), kind(dim=1))
    with pytest.warns(UserWarning, match=r"leaves out the softmax at the end \(1\): the labels are the same"):
        found = from_model(model, BITS)
    assert found.nodes[-1].kind == "softmax" and found.nodes[-1].options["out_features"] == 4


class Quantised(NamedTuple):
    """A value with its scale, as Brevitas hands it from layer to layer."""

    value: torch.Tensor
    scale: torch.Tensor


class QuantSign(nn.Module):
    def forward(self, x: Any) -> Quantised:
        x = x.value if isinstance(x, Quantised) else x
        return Quantised(0.5 * sign(x), torch.tensor(0.5))


class QuantLinear(nn.Linear):
    def forward(self, x: Any) -> Quantised:  # type: ignore[override]
        scale = torch.tensor(0.25)
        return Quantised(F.linear(x.value, scale.to(x.value) * sign(self.weight), self.bias), x.scale * scale)


class Quantising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.fc1, self.act, self.fc2 = QuantSign(), QuantLinear(40, 8), QuantSign(), QuantLinear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(self.first(x.flatten(1))))).value  # type: ignore[no-any-return]


def test_values_that_travel_with_their_scale_are_taken() -> None:
    """Such modules ended in a message of NumPy's about `__cuda_array_interface__`."""
    model = Quantising()
    program, nets = build(taken(model), [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (50, *SHAPE)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    assert np.abs(reference.scores(program, device_layout(raw)) * score_scale(nets) - expected).max() < 1e-3


def test_pixels_that_are_rounded_are_named_for_plain_pytorch_alone() -> None:
    """A network of blrc's layers is trained on the codes; nobody trains plain PyTorch on them."""
    pixels = blrc.pixels(SHAPE, mean=[0.5] * 2, std=[0.25, 0.3])
    with pytest.warns(UserWarning, match="pixels are rounded to int8 codes"):
        from_model(Network(sign), pixels)
    ours = nn.Sequential(nn.Flatten(), bnn.SteLinear(40, 8), bnn.SteSign(), bnn.SteLinear(8, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_model(Network(sign), blrc.int8_codes(SHAPE, scale=64))
        from_model(Network(sign), blrc.pixel_codes(SHAPE, table=np.arange(-128, 128)))
        from_model(Network(sign), blrc.pixels(SHAPE, mean=[0.5] * 2, std=[0.25, 0.3], exact=False))
        from_model(Network(sign), blrc.pixels(SHAPE, mean=[0.5] * 2, std=[0.25] * 2))
        from_model(ours, pixels)
