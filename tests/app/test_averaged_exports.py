"""A network with average pooling, from a checkpoint to exports that are equal everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from averaged_networks import averaged_network, randomised
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.saving import save


def saved(folder: Path, seed: int) -> Path:
    model, kind, shape = averaged_network(seed)
    encoding = encoding_of(kind, shape)
    path = folder / "net.pt"
    save(randomised(model, seed).float(), path=path, input=encoding, calibration=raw_samples(encoding, 30, seed))
    return path


def drawn(folder: Path, seed: int) -> Path:
    """A network of random weights with signs that a pool averages, ternary ones behind it, and a global average."""
    model = nn.Sequential(
        bnn.BinaryConv2d(1, 9, 3, padding=1), bnn.StochasticBatchNorm2d(9), bnn.StochasticSign(),
        nn.AvgPool2d(2),
        bnn.BinaryConv2d(9, 40, 3, weight="ternary"), bnn.StochasticBatchNorm2d(40), bnn.StochasticSign(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        bnn.SoftmaxLinear(40, 5),
    )  # fmt: skip
    encoding = encoding_of("uint8", (1, 12, 12))
    path = folder / "net.pt"
    save(randomise(model, seed), path=path, input=encoding, calibration=raw_samples(encoding, 30, seed))
    return path


NIGHT = ((drawn, 2), (saved, 2), (saved, 6), (drawn, 3))
NIGHTLY = [pytest.param(make, seed, marks=pytest.mark.nightly) for make, seed in NIGHT]


@pytest.mark.slow("compiles with sanitizers and runs every layer")
@pytest.mark.parametrize(("make", "seed"), [(saved, 1), *NIGHTLY])
def test_every_engine_gives_the_same_sums(tmp_path: Path, make: Any, seed: int) -> None:
    options: dict[str, Any] = {"members": 2, "gate": 0.9} if make is drawn else {}
    path = make(tmp_path, seed)
    blrc.export(path, targets=("c", "onnx"), folder=tmp_path / "out", **options)
    found = blrc.verify(tmp_path / "out", model=path, random=40)
    assert found.equal
    assert found.agreement is not None and found.agreement.differences == 0 and found.agreement.decisions > 10_000


def test_pools_are_listed_with_their_windows(tmp_path: Path) -> None:
    found = blrc.inspect(saved(tmp_path, 0))
    sums = {layer.name: layer for layer in found.layers if layer.kind == "sum"}
    assert [(layer.geometry, layer.kernel) for layer in sums.values()] == [
        ("3x3 stride 2x2", "pool_sums"),
        ("3x3", "pool_sums"),
    ]
    assert all(layer.ram > 0 and layer.flash == 0 for layer in sums.values())


def test_budgets_count_sums(tmp_path: Path) -> None:
    path = saved(tmp_path, 1)
    found = blrc.export(path, targets="c", folder=tmp_path / "fits").to_plain()
    blrc.export(path, targets="c", folder=tmp_path / "fits", flash=found["flash_bytes"], force=True)
    with pytest.raises(BlrcError, match="flash"):
        blrc.export(path, targets="c", folder=tmp_path / "out", flash=found["flash_bytes"] - 1)


def test_float32_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, 0)
    with pytest.raises(BlrcError, match="layer '4': --rounding float32 is for networks of"):
        blrc.export(path, targets="c", folder=tmp_path / "out", norms="given", rounding="float32")
