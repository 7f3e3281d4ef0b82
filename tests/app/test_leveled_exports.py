"""A network with activations of several levels, from a checkpoint to exports that are equal everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from by_night import night
from random_networks import encoding_of, leveled_network, randomise, raw_samples

import blrc
from blrc.errors import BlrcError
from blrc.frontend.saving import save


def saved(folder: Path, seed: int) -> Path:
    model, shape = leveled_network(seed)
    encoding = encoding_of("uint8", shape)
    path = folder / "net.pt"
    save(randomise(model, seed), path=path, input=encoding, calibration=raw_samples(encoding, 30, seed))
    return path


@pytest.mark.slow("compiles with sanitizers and runs every layer")
@pytest.mark.parametrize("seed", [4, *night(1, 2, 3)])
def test_every_engine_gives_the_same_codes(tmp_path: Path, seed: int) -> None:
    options: dict[str, Any] = [{"members": 2, "gate": 0.9}, {"members": 2}, {}][seed % 3]
    path = saved(tmp_path, seed)
    blrc.export(path, targets=("c", "onnx"), folder=tmp_path / "out", **options)
    found = blrc.verify(tmp_path / "out", model=path, random=40)
    assert found.equal
    assert found.agreement is not None and found.agreement.differences == 0 and found.agreement.decisions > 10_000
    reached, wanted = (sum(pair[i] for pair in found.edges.values()) for i in (0, 1))
    assert reached > 0.8 * wanted > 500


def test_layers_are_listed_with_what_turns_codes_back(tmp_path: Path) -> None:
    """A negative factor behind a pool: the codes are counted from the largest, and a layer of its own undoes that."""
    found = blrc.inspect(saved(tmp_path, 1))
    kinds = {layer.name: layer.kind for layer in found.layers}
    assert kinds["9.turned"] == "depthwise conv" and kinds["5"] == "grouped conv" and kinds["11"] == "dense"


def test_budgets_count_levels(tmp_path: Path) -> None:
    """Flash without the tables of the layers that write codes is too little, however much code there is."""
    path = saved(tmp_path, 1)
    tables = sum(layer.flash for layer in blrc.inspect(path).layers if (layer.kernel or "").startswith("conv_"))
    flash = blrc.export(path, targets="c", folder=tmp_path / "fits").to_plain()["flash_bytes"]
    assert tables > 1000
    blrc.export(path, targets="c", folder=tmp_path / "fits", flash=flash, force=True)
    with pytest.raises(BlrcError, match="flash"):
        blrc.export(path, targets="c", folder=tmp_path / "out", flash=flash - tables)


def test_float32_and_strange_originals_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, 1)
    with pytest.raises(BlrcError, match="layer '4': --rounding float32 is for networks of"):
        blrc.export(path, targets="c", folder=tmp_path / "out", norms="given", rounding="float32")
