"""Networks with weights of 8 bits, from a checkpoint to exports that are equal everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from by_night import night_rows
from random_networks import encoding_of, raw_samples
from torch import nn
from whole_networks import foreign_network, randomised, whole_network

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.saving import save


def saved(folder: Path, network: Any, seed: int) -> Path:
    model, kind, shape = network(seed)
    encoding = encoding_of(kind, shape)
    path = folder / "net.pt"
    model = randomised(model, seed, shape, [7, 1, 127][seed % 3]).float()
    save(model, path=path, input=encoding, calibration=raw_samples(encoding, 30, seed))
    return path


NIGHT = [(whole_network, 3), (whole_network, 2), (foreign_network, 4), (foreign_network, 3), (foreign_network, 6)]


@pytest.mark.slow("compiles with sanitizers and runs every layer")
@pytest.mark.parametrize(("network", "seed"), [(whole_network, 0), *night_rows(*NIGHT)])
def test_every_engine_gives_the_same_codes(tmp_path: Path, network: Any, seed: int) -> None:
    path = saved(tmp_path, network, seed)
    blrc.export(path, targets=("c", "onnx"), folder=tmp_path / "out")
    found = blrc.verify(tmp_path / "out", model=path, random=40)
    assert found.equal
    assert found.agreement is not None and found.agreement.differences == 0 and found.agreement.decisions > 10_000


@pytest.mark.slow("runs ONNX Runtime")
@pytest.mark.parametrize("seed", [1, 5])
def test_onnx_of_foreign_networks(tmp_path: Path, seed: int) -> None:
    """Their levels begin below 0, and their weights are ternary or whole numbers."""
    path = saved(tmp_path, foreign_network, seed)
    blrc.export(path, targets="onnx", folder=tmp_path / "out")
    assert blrc.verify(tmp_path / "out", model=path, random=40).equal


def test_layers_are_listed_with_their_kernels(tmp_path: Path) -> None:
    found = blrc.inspect(saved(tmp_path, whole_network, 1))
    kernels = [layer.kernel for layer in found.layers if layer.kernel.startswith("conv_whole")]
    assert kernels == ["conv_whole", "conv_whole_depthwise", "conv_whole", "conv_whole"]
    first = next(layer for layer in found.layers if layer.kernel == "conv_whole_depthwise")
    assert first.weights == 81 and first.integer_operations > 0 and first.binary_operations == 0


def test_a_loaded_network_is_the_one_that_was_saved(tmp_path: Path) -> None:
    model, kind, shape = whole_network(1)
    model = randomised(model, 1).float()
    encoding = encoding_of(kind, shape)
    save(model, path=tmp_path / "net.pt", input=encoding)
    x = torch.from_numpy(encoding.real(raw_samples(encoding, 5, 0)))
    with torch.no_grad():
        assert torch.equal(blrc.load(tmp_path / "net.pt").model().eval()(x), model(x))


@pytest.mark.parametrize("option", ["norms", "target"])
def test_what_is_refused(tmp_path: Path, option: str) -> None:
    path = saved(tmp_path, whole_network, 1)
    if option == "norms":
        with pytest.raises(BlrcError, match="layer '0': --rounding float32 is for networks of"):
            blrc.export(path, targets="c", folder=tmp_path / "out", norms="given", rounding="float32")
        return
    model = nn.Sequential(nn.Flatten(), bnn.Int8Linear(18, 4), bnn.SteSign(), bnn.Int8Linear(4, 3))
    save(model, path=path, input=encoding_of("bits", (2, 3, 3)))
    with pytest.raises(BlrcError, match="layer '3': ends the network with weights of 8 bits; give it real ones"):
        blrc.export(path, targets="c", folder=tmp_path / "out")


def test_pruning_and_converting_keep_the_rounded_weights() -> None:
    model, _, shape = whole_network(1)
    model = randomised(model, 1).float()
    plain = bnn.deterministic(model)
    x = torch.randn(4, *shape)
    assert not any(isinstance(module, bnn.Int8Conv2d | bnn.Int8Linear) for module in plain.modules())
    with torch.no_grad():
        torch.testing.assert_close(plain.eval()[0](x), model.eval()[0](x))


@pytest.mark.parametrize("levels", [bnn.EvenLevels(0, 3), bnn.SteLevels(2)])
def test_an_original_module_with_levels_is_refused_by_layer(levels: nn.Module, tmp_path: Path) -> None:
    """The message was of a rounding that no clip precedes."""
    model = nn.Sequential(bnn.SteConv2d(2, 4, 1), levels, nn.Flatten(), bnn.SoftmaxLinear(64, 3))
    save(model, path=tmp_path / "net.pt", input=encoding_of("bits", (2, 4, 4)))
    blrc.export(tmp_path / "net.pt", targets="onnx", folder=tmp_path / "out", norms="given")
    with pytest.raises(BlrcError, match="layer '1' gives codes of levels, and an export is compared"):
        blrc.verify(tmp_path / "out", original=model)
