"""``blrc prune`` and ``blrc inspect --kl``: what they write and say, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from head_networks import stochastic
from random_networks import binarized_network, checkpoint_of

import blrc
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.saving import write
from blrc.inspection.divergence import divergences
from blrc.pruning.search import Search, accuracy_of

SHAPE = (2, 7, 6)


@pytest.fixture
def source() -> Checkpoint:
    return checkpoint_of(stochastic({"digit": 10}, "tuple"), "uint8", SHAPE, 1, ties=False)


@pytest.fixture
def model(source: Checkpoint, tmp_path: Path) -> Path:
    write(source, tmp_path / "net.pt")
    return tmp_path / "net.pt"


@pytest.fixture
def images(source: Checkpoint, tmp_path: Path) -> Path:
    """Images that the whole network labels as it does, so that it is always right."""
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (200, *SHAPE)).astype(np.uint8)
    from blrc.frontend.sample import MAP
    from blrc.lowering.lower import lower
    from blrc.lowering.statistics import nets_of
    from blrc.program import reference

    labels = reference.scores(lower(nets_of(source, [MAP])), np.moveaxis(raw, 1, -1)).argmax(1)
    np.savez(tmp_path / "validation.npz", images=raw, labels=labels)
    return tmp_path / "validation.npz"


def called(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["prune", *map(str, arguments)])


def test_a_share_of_the_channels_with_the_least_divergence_goes(
    source: Checkpoint, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small.pt"
    result = called(model, "-o", out, "--share", "50%", "--by", "outputs", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    small = blrc.load(out)
    (name,) = (node.name for node in source.nodes if node.kind == "binary_conv2d")
    assert [(each["layer"], each["channels"], each["kept"]) for each in said["layers"]] == [(name, 9, 5)]
    mean = divergences(source)[name].reshape(9, -1).mean(1)
    kept = np.sort(np.argsort(mean)[4:])
    logits = f"{name}.weight.logits"
    assert np.array_equal(small.tensors[logits], source.tensors[logits][kept])
    assert said["weights"] < said["weights_before"] and said["flash"] < said["flash_before"]
    assert said["accuracy"] is None and said["loss"] is None and said["evaluations"] == 0
    again = tmp_path / "again.pt"
    called(model, "-o", again, "--share", "0.5", "--by", "outputs")
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize("loss", [0, 20, 100])
def test_no_more_than_the_stated_loss_is_lost(model: Path, images: Path, tmp_path: Path, loss: int) -> None:
    out = tmp_path / "small.pt"
    found = blrc.prune(model, output=out, data=images, loss=loss)
    assert found.accuracy_before == 100.0 and found.accuracy is not None and found.accuracy >= 100 - loss
    from blrc.datasets import labelled
    from blrc.frontend.sample import sample
    from blrc.lowering.lower import lower

    small = blrc.load(out)
    program = lower([sample(small, running=True)])
    held = labelled.load(images, program.input, program.classes)
    assert accuracy_of(small, held) == pytest.approx(found.accuracy)  # what was written is what was measured
    if loss == 100:
        assert [each.kept for each in found.layers] == [1]
    assert "validation images" in str(found) and f"{loss} points" in str(found)


def test_what_cannot_be_pruned_is_refused_in_one_line(
    source: Checkpoint, model: Path, images: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small.pt"
    binarized, shape = binarized_network(1)
    write(checkpoint_of(binarized, "uint8", shape), tmp_path / "bnn.pt")
    for arguments, said in (
        ((model,), "give --data with validation images"),
        ((model, "--share", 0.5, "--loss", 1), "--loss and --share: give one"),
        ((model, "--share", "120%"), "--share 1.2: a share of the channels above 0 and below 1"),
        ((model, "--share", "half"), "--share 'half': expected a share of the channels such as 50%"),
        ((model, "--data", images, "--loss", -1), "--loss -1: points of accuracy from 0 to 100"),
        ((model, "--share", 0.5, "--layers", "flatten"), "cannot drop channels of layer 'flatten'; it can of"),
        ((model, "--share", 0.5, "--prior", 1.5), "--prior 1.5: the probability of a weight of +1"),
        ((model, "--share", 0.5, "--prior", "x=0.5"), "prior: no layer 'x' has binary weights"),
        ((model, "--share", 0.5, "--by", "rows"), "--by 'rows': expected outputs, inputs, both"),
        ((model, "--share", 0.5, "--data", tmp_path / "none"), "a data set's training files"),
        ((model, "--share", 0.5, "--head", "x", "--data", images), "has no head 'x'"),
        ((model, "--share", 0.5, "--head", "x"), "has no head 'x'"),
        ((tmp_path / "bnn.pt", "--share", 0.5), "no weight of it is random (a Binarized NN)"),
        ((tmp_path / "gone.pt", "--share", 0.5), "gone.pt"),
    ):
        result = called(*arguments, "-o", out)
        assert result.exit_code == 2 and said in result.stderr, (arguments, result.output)
        assert result.stderr.count("\n") == 1 and not out.exists()


def test_a_stopped_search_writes_nothing(
    model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "run", stopped)
    before = sorted(tmp_path.iterdir())
    result = called(model, "-o", tmp_path / "small.pt", "--data", images)
    assert result.exit_code == 2 and "stopped" in result.stderr and sorted(tmp_path.iterdir()) == before


def test_words_keep_whole_words() -> None:
    from random_networks import deep_network

    model, shape = deep_network(7)
    source = checkpoint_of(model, "bits", shape, 7)
    for each in blrc.prune(source, share=0.25, words=True).layers:
        assert each.kept == each.channels or each.kept % 32 == 0 or each.channels < 32


def test_inspect_shows_deciles_of_weights_and_channels(source: Checkpoint, model: Path) -> None:
    result = CliRunner().invoke(main, ["inspect", str(model), "--kl", "--prior", "0.3", "--json"])
    (layer,) = json.loads(result.stdout)["divergence"]
    each = divergences(source, 0.3)[layer["name"]]
    assert layer["prior"] == 0.3 and layer["mean"] == pytest.approx(each.mean())
    ordered = np.sort(each, axis=None)
    assert layer["weights"][0] == ordered[0] and layer["weights"][-1] == ordered[-1] and len(layer["weights"]) == 11
    assert layer["weights"][5] == pytest.approx(np.median(ordered))
    assert layer["channels"][-1] == pytest.approx(each.reshape(len(each), -1).mean(1).max())
    text = CliRunner().invoke(main, ["inspect", str(model), "--kl"]).output
    assert "greatest" in text and "channels" in text
    assert "greatest" not in str(blrc.inspect(model))
    with pytest.raises(BlrcError, match="--prior is about --kl"):
        blrc.inspect(model, prior=0.3)
