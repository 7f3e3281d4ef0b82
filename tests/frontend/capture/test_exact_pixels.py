"""Pixels of plain PyTorch are not rounded: the first layer's sums take account of their mean and deviation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from by_night import first
from pixel_networks import (
    GRAY,
    NETWORKS,
    PLAIN,
    SAMPLES,
    Affine,
    Conv,
    Given,
    Last,
    Signs,
    dense,
    network,
    pixels,
    sign,
    standardised,
)
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.rules import entry
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.net.encoding import device_layout
from blrc.program import reference


def quietly(model: nn.Module, encoding: blrc.InputEncoding) -> Checkpoint:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return from_model(model, encoding)


@pytest.mark.parametrize("seed", first(1, range(4)))
@pytest.mark.parametrize("name", NETWORKS)
def test_scores_are_those_of_the_module_on_its_own_pixels(name: str, seed: int) -> None:
    encoding, model = network(name, seed)
    checkpoint = quietly(model, encoding)
    assert checkpoint.encoding.exact
    raw = pixels(encoding, seed)
    with torch.no_grad():
        wanted = model.double()(torch.from_numpy(standardised(encoding, raw))).numpy()
    program = build(checkpoint, [MAP])[0]
    assert np.array_equal(reference.scores(program, device_layout(raw)) * program.score_scale, wanted)
    assert len({*map(tuple, wanted)}) > SAMPLES // 8


def test_pixels_on_a_threshold_are_those_of_the_module() -> None:
    """0.2 is 51 / 255 in float32, in which modules are given pixels, and a little more as a rational number."""
    encoding = blrc.pixels((1, 6, 6), mean=[0.2], std=[0.5])
    model = dense(1, Signs()).eval()
    checkpoint = quietly(model, encoding)
    assert checkpoint.encoding.at == (51,)
    assert checkpoint.encoding.is_binary


@pytest.mark.parametrize(
    ("encoding", "options", "words"),
    [
        (GRAY, {"padding": 1}, "pads the input with zeros, which no pixel or code stands for"),
        (blrc.pixels((3, 6, 6), mean=[0.4] * 3, std=[0.2, 0.3, 0.4]), {}, "another number for each channel"),
    ],
)
def test_what_has_no_exact_form_is_rounded_unless_that_is_refused(
    encoding: blrc.InputEncoding, options: dict[str, Any], words: str
) -> None:
    channels = encoding.shape[0]
    model = nn.Sequential(
        Conv(channels, 6, 3, **options), nn.AdaptiveMaxPool2d(1), nn.BatchNorm2d(6), Signs(), nn.Flatten(), Last(6, 5)
    ).eval()
    with pytest.warns(UserWarning, match=f"pixels are rounded to int8 codes.*layer '0'.*{words}"):
        assert from_model(model, encoding).encoding == encoding
    stated = [blrc.pixels(encoding.shape, mean=encoding.mean, std=encoding.std, exact=exact) for exact in (False, True)]
    assert quietly(model, stated[0]).encoding == stated[0]
    with pytest.raises(BlrcError, match=f"layer '0'.*{words}.*exact=False"):
        from_model(model, stated[1])


def test_a_scale_says_that_rounding_is_meant() -> None:
    encoding = blrc.pixels((1, 6, 6), mean=[0.5], std=[0.5], scale=50)
    assert quietly(dense(1).eval(), encoding).encoding == encoding


class Heads(nn.Module):
    def __init__(self, *by: float) -> None:
        super().__init__()
        self.by, self.heads = by, nn.ModuleList(Last(36, 3) for _ in by)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(head(sign(x + by).flatten(1)) for head, by in zip(self.heads, self.by, strict=True))


def test_heads_read_bits_of_one_threshold() -> None:
    assert quietly(Heads(0.0, 0.0).eval(), GRAY).encoding.at == (34,)
    with pytest.raises(BlrcError, match=r"the heads: .*several thresholds"):
        from_model(Heads(0.0, -0.01).eval(), GRAY)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (lambda x: sign(nn.functional.relu(x) - 0.5), r"layer '0' \(Given\): computes relu of pixels"),
        (lambda x: torch.sign(x * 0), "gives other values than two"),
        (
            lambda x: x.flatten(1) * torch.linspace(1, 2, 36),
            r"multiplied by another number .*; multiply all .* alike \(pixel_networks.py line \d+\)$",
        ),
    ],
)
def test_what_neither_form_takes_is_refused_by_its_own_reason(
    first: Callable[[torch.Tensor], torch.Tensor], words: str
) -> None:
    with pytest.raises(BlrcError, match=words):
        from_model(dense(1, Given(first)).eval(), GRAY)


def test_zeros_may_be_padded_where_they_are_a_pixel() -> None:
    """A pixel of 128 is 0 where forward reads pixels of 0 to 255 less 128, as the codes are."""
    torch.manual_seed(0)
    layer = Conv(1, 6, 3, padding=1)  # whose bias leaves no tie to rounding
    model = nn.Sequential(Affine(255.0, -128.0), layer, Signs(), nn.Flatten(), Last(216, 5)).eval()
    checkpoint = quietly(model, PLAIN)
    assert checkpoint.encoding.exact
    raw = pixels(PLAIN, 0)
    with torch.no_grad():
        wanted = model(torch.from_numpy(checkpoint.encoding.real(raw))).numpy()
    program = build(checkpoint, [MAP])[0]
    assert np.array_equal(reference.scores(program, device_layout(raw)) * program.score_scale, wanted)


def test_a_threshold_of_pixels_is_a_constant() -> None:
    by_batch = dense(1, Given(lambda x: sign(x - 0.3 * len(x)))).eval()
    by_type = dense(1, Given(lambda x: sign(x - (0.3 if x.dtype == torch.float32 else 0.6)))).eval()
    encoding = replace(GRAY, scale=1.0, exact=True)
    with pytest.raises(BlrcError, match="the sign of pixels: is another for another input"):
        from_model(by_batch, encoding)
    with pytest.raises(BlrcError, match="the sign of pixels: has another threshold in float64"):
        from_model(by_type, encoding)


@pytest.mark.parametrize("mean", [0.7019608, 0.29803923])
def test_pixels_on_a_threshold_in_float32_alone_are_those_of_the_module(mean: float) -> None:
    """Decide as the module does: its means are 179 / 255 and 76 / 255 in float32, and more in float64."""
    encoding = blrc.pixels((1, 6, 6), mean=[mean], std=[0.5])
    for model in (dense(1, Signs()).eval(), dense(1, Signs()).double().eval()):
        assert quietly(model, encoding).encoding.at == (round(mean * 255),)


def test_the_encoding_of_a_checkpoint_is_for_other_networks_of_its_pixels() -> None:
    encoding = quietly(dense(1, Signs()).eval(), GRAY).encoding
    assert encoding.at == (34,)
    assert quietly(dense(1).eval(), encoding).encoding.at == ()
    assert quietly(dense(1, Affine(1.0, -1.0), Signs()).eval(), encoding).encoding.at == (112,)


def test_an_input_that_is_codes_may_be_multiplied_and_shifted() -> None:
    torch.manual_seed(0)
    encoding = blrc.int8_codes((1, 6, 6), scale=16)
    model = dense(1, Affine(0.5, 0.25)).eval()
    raw = np.random.default_rng(0).integers(-128, 128, (SAMPLES, 1, 6, 6)).astype(np.int8)
    program = build(quietly(model, encoding), [MAP])[0]
    with torch.no_grad():
        wanted = model.double()(torch.from_numpy(raw / 16)).numpy()
    assert np.array_equal(reference.scores(program, device_layout(raw)) * program.score_scale, wanted)


def test_layers_of_blrc_train_on_codes() -> None:
    encoding = blrc.pixels((40,), mean=[0.5], std=[0.25], exact=True)
    model = nn.Sequential(bnn.SteLinear(40, 8), bnn.SteSign(), bnn.SteLinear(8, 3))
    with pytest.raises(BlrcError, match="exact pixels are for networks in plain PyTorch"):
        from_model(model, encoding)
    with pytest.raises(BlrcError, match="exact pixels are not scaled"):
        blrc.pixels((40,), mean=[0.5], std=[0.25], scale=3, exact=True)


def test_numbers_in_the_source_may_need_more_floats_in_float64() -> None:
    """A sum of many 0.1307 is one float64 where each is a float32, and two where each is a float64."""
    torch.manual_seed(0)
    model = dense(1, Given(lambda x: (x - 0.1307) / 0.3081)).eval()
    raw = pixels(PLAIN, 0)
    checkpoint = quietly(model, PLAIN)
    assert checkpoint.encoding.exact
    with torch.no_grad():
        wanted = model(torch.from_numpy(checkpoint.encoding.real(raw))).numpy()
    program = build(checkpoint, [MAP])[0]
    assert np.array_equal(reference.scores(program, device_layout(raw)) * program.score_scale, wanted)
    assert len({*map(tuple, wanted)}) > SAMPLES // 8


@pytest.mark.parametrize("encoding", [PLAIN, blrc.pixels((1, 6, 6), mean=[0.0], std=[1.0], exact=True)])
@pytest.mark.parametrize(
    ("before", "words"),
    [
        (lambda x: x * torch.inf, "not finite"),
        (lambda x: x + torch.nan, "not finite"),
        (lambda x: x * 1e200 * 1e200, "module's type has no float for"),
        (lambda x: x * 1e-200 * 1e-200, "module's type has no float for"),
        (
            lambda x: x + torch.tensor([10.0 ** -(40 * (i % 7)) for i in range(36)], dtype=x.dtype).reshape(1, 6, 6),
            "not one for each channel",
        ),
        (
            lambda x: x.flatten(1) + torch.tensor([10.0 ** -(40 * (i % 7)) for i in range(36)], dtype=x.dtype),
            "sums no few floats hold",
        ),
    ],
)
def test_numbers_that_no_float_holds_are_refused(
    encoding: blrc.InputEncoding, before: Callable[[torch.Tensor], torch.Tensor], words: str
) -> None:
    with pytest.raises(BlrcError, match=words):
        from_model(dense(1, Given(before)).double().eval(), encoding)


@pytest.mark.parametrize("scale", [1.0, 16.0])
def test_codes_that_a_layer_did_not_compute_are_found_at_any_scale(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first layer whose shifts are lost is seen by its values, also where codes are parts of a unit."""
    monkeypatch.setattr(entry, "_added", lambda *given: [])
    with pytest.raises(BlrcError, match="differs from what was captured"):
        from_model(dense(1, Affine(1.0, 0.25)).eval(), blrc.int8_codes((1, 6, 6), scale=scale))
