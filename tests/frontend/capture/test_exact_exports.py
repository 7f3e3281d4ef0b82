"""Test that exact pixels stay exact in exports, in loaded networks and in what they are saved as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_night import first
from pixel_networks import GRAY, Given, dense, network, pixels, sign, standardised
from torch import nn

import blrc
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.graph import codes
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.net.encoding import device_layout
from blrc.program import reference


@pytest.mark.parametrize("name", first(1, ["convolution of colours", "bits of colours"]))
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


@pytest.mark.nightly
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


@pytest.mark.parametrize("name", first(1, ["bits of colours", "dense"]))
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
