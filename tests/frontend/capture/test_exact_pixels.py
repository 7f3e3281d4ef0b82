"""Pixels of plain PyTorch are not rounded: the first layer's sums take account of their mean and deviation."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_night import first
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.rules import entry
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.graph import codes
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.net.encoding import device_layout
from blrc.program import reference

SAMPLES = 200


def sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


class Dense(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, sign(self.weight) * 0.37, self.bias)


class Conv(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.linspace(0.5, 2, self.out_channels, dtype=x.dtype)[:, None, None, None]
        return self._conv_forward(x, sign(self.weight) * scale, self.bias)


class Last(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, sign(self.weight))


class Signs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sign(x)


class Affine(nn.Module):
    """Multiplies and adds, as the forwards of others do before their first layer."""

    def __init__(self, factor: float, *by: float) -> None:
        super().__init__()
        self.factor, self.by = factor, nn.Parameter(torch.tensor(by)[:, None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * x + self.by


def dense(channels: int, *first: nn.Module) -> nn.Module:
    inputs = 36 * channels
    return nn.Sequential(*first, nn.Flatten(), Dense(inputs, 24), nn.BatchNorm1d(24), Signs(), Last(24, 5))


def conv(channels: int, *first: nn.Module, groups: int = 1, **options: Any) -> nn.Module:
    layer = Conv(channels, 6, 3, groups=groups, **options)
    return nn.Sequential(*first, layer, nn.BatchNorm2d(6), Signs(), nn.MaxPool2d(2), nn.Flatten(), Last(24, 5))


GRAY = blrc.pixels((1, 6, 6), mean=[0.1307], std=[0.3081])
COLOURS = blrc.pixels((3, 6, 6), mean=[0.4914, 0.4822, 0.4465], std=[0.25] * 3)
PLAIN = blrc.pixels((1, 6, 6), mean=[0.0], std=[1.0])
NETWORKS: dict[str, tuple[blrc.InputEncoding, Callable[[], nn.Module]]] = {
    "dense": (GRAY, lambda: dense(1)),
    "dense of colours": (COLOURS, lambda: dense(3)),
    "convolution": (GRAY, lambda: conv(1)),
    "convolution of colours": (COLOURS, lambda: conv(3, bias=False)),
    "groups": (COLOURS, lambda: conv(3, groups=3)),
    "from -1 to 1": (PLAIN, lambda: conv(1, Affine(2.0, -1.0))),
    "multiplied": (PLAIN, lambda: conv(1, Affine(2.0, 0.0))),
    "channels of their own": (COLOURS, lambda: dense(3, Affine(-1.5, 0.1, 0.2, -0.3))),
    "bits": (GRAY, lambda: dense(1, Signs())),
    "bits of colours": (COLOURS, lambda: conv(3, Affine(1.0, 0.3, -0.1, 0.2), Signs())),
    "bits that fall": (PLAIN, lambda: dense(1, Affine(-2.0, 1.0), Signs())),
}


def network(name: str, seed: int) -> tuple[blrc.InputEncoding, nn.Module]:
    """Return a network whose norms have seen pixels, so that its bits are mixed."""
    torch.manual_seed(seed)
    encoding, make = NETWORKS[name]
    model = make().double()
    model(torch.from_numpy(standardised(encoding, pixels(encoding, 9))))
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
            norm.momentum = None
            norm.weight.data.normal_()
            norm.bias.data.normal_(std=0.3)
            norm.reset_running_stats()
    with torch.no_grad():
        model.train()(torch.from_numpy(standardised(encoding, pixels(encoding, 9))))
    return encoding, model.float().eval()


def pixels(encoding: blrc.InputEncoding, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (SAMPLES, *encoding.shape)).astype(np.uint8)


def standardised(encoding: blrc.InputEncoding, raw: Any) -> Any:
    """Return what torchvision's ToTensor and Normalize give, in float64."""
    mean, std = (np.array(row)[:, None, None] for row in (encoding.mean, encoding.std))
    return (raw / 255 - mean) / std


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
            r"multiplied by another number .*; multiply all .* alike \(test_exact_pixels.py line \d+\)$",
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


class Given(nn.Module):
    """Computes anything, written as a function of one tensor."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


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


@pytest.mark.parametrize("name", ["convolution of colours", "bits of colours"])
def test_an_export_is_compared_with_the_module_on_its_own_pixels(name: str, tmp_path: Path) -> None:
    encoding, model = network(name, 0)
    blrc.save(model, path=tmp_path / "net.pt", input=encoding)
    loaded = blrc.load(tmp_path / "net.pt").encoding
    raw = pixels(encoding, 3)
    assert loaded.exact and np.abs(loaded.real(raw) - standardised(encoding, raw)).max() < 1e-6
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "out")
    report = blrc.verify(tmp_path / "out", original=model, random=50)
    assert report.equal and report.original is not None
    assert report.original.same_program and report.original.same_labels == report.original.labels > 50


def test_another_threshold_of_pixels_is_another_program(tmp_path: Path) -> None:
    model = dense(1, Given(sign)).eval()
    blrc.save(model, path=tmp_path / "net.pt", input=GRAY)
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "out")
    for before, layer in ((lambda x: sign(x - 0.5), "input.binarize"), (lambda x: x, "input.encode")):
        other = dense(1, Given(before)).eval()
        other.load_state_dict(model.state_dict())
        report = blrc.verify(tmp_path / "out", original=other, random=20)
        assert not report.equal and report.original is not None and not report.original.same_program
        assert layer in str(report.original.problems)
    path = next((tmp_path / "out").glob("*.manifest.json"))
    held = json.loads(path.read_text())
    held["settings"]["input"]["scale"] = 2.0
    path.write_text(json.dumps(held))
    with pytest.raises(
        BlrcError, match=r"manifest\.json: settings\.input: .*only pixels with mean and std can be exact"
    ):
        blrc.verify(tmp_path / "out", original=model)


@pytest.mark.parametrize("exact", [0, 1, np.True_, np.False_, "yes", np.array([True, False])])
def test_exact_is_a_truth(exact: Any) -> None:
    with pytest.raises(BlrcError, match="must be True, False or None"):
        blrc.pixels((1, 6, 6), mean=[0.5], std=[0.25], exact=exact)


def test_only_pixels_are_exact() -> None:
    with pytest.raises(BlrcError, match="only pixels with mean and std can be exact"):
        blrc.InputEncoding("int8", (1, 6, 6), 1.0, (0.5,), (0.25,), exact=True)
    with pytest.raises(BlrcError, match="one value for each of 1 channels, got 1 and 2"):
        blrc.pixels((1, 6, 6), mean=[0.5], std=[0.25, 0.5])


@pytest.mark.parametrize("name", ["dense", "bits of colours"])
def test_a_loaded_network_is_an_original_and_computes_in_torch_alone(name: str, tmp_path: Path) -> None:
    encoding, model = network(name, 0)
    blrc.save(model, path=tmp_path / "net.pt", input=encoding)
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "out")
    checkpoint = blrc.load(tmp_path / "net.pt")
    loaded = checkpoint.model().eval()
    report = blrc.verify(tmp_path / "out", original=loaded, random=20)
    assert report.original is not None and report.original.same_program
    assert report.original.same_labels == report.original.labels > 20
    raw = torch.arange(256, dtype=torch.uint8).reshape(-1, *[1] * len(encoding.shape)).expand(-1, *encoding.shape)
    x = torch.from_numpy(checkpoint.encoding.real(raw.numpy()))
    with torch.no_grad():
        wanted = codes(x, checkpoint.encoding)
        assert np.array_equal(wanted.numpy(), checkpoint.encoding.codes(raw.numpy()))
        exported = torch.export.export(loaded, (x[:2],), dynamic_shapes=({0: torch.export.Dim("batch")},)).module()
        assert torch.equal(exported(x), loaded(x))
    assert torch.equal(codes(x.half(), checkpoint.encoding).float(), wanted)
    with pytest.raises(BlrcError, match="holds a loaded network; save that itself"):
        from_model(nn.Sequential(loaded), checkpoint.encoding)


@pytest.mark.parametrize("name", ["convolution of colours", "bits that fall", "channels of their own"])
def test_the_loaded_module_takes_the_pixels_of_the_one_that_was_saved(name: str, tmp_path: Path) -> None:
    encoding, model = network(name, 0)
    blrc.save(model, path=tmp_path / "net.pt", input=encoding)
    loaded = blrc.load(tmp_path / "net.pt")
    raw = pixels(encoding, 3)
    x = torch.from_numpy(loaded.encoding.real(raw))
    again = loaded.model().eval()
    with torch.no_grad():
        assert torch.equal(again(x), model(x))
    saved = from_model(again, loaded.encoding)
    assert (saved.encoding, saved.nodes) == (loaded.encoding, loaded.nodes)
    first, second = (reference.scores(build(each, [MAP])[0], device_layout(raw)) for each in (loaded, saved))
    assert np.array_equal(first, second)
    with pytest.raises(BlrcError, match="takes other pixels; give the encoding of its checkpoint"):
        from_model(again, encoding)
