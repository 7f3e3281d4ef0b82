"""Networks with ternary weights, saved, loaded and drawn; and what adding another distribution takes, by doing it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_files import content_of, rewrite
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend import graph
from blrc.frontend.capture import known
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.kinds import table as kinds_table
from blrc.frontend.kinds.linear import random_kinds
from blrc.frontend.sample import Member, parse_freeze, sample, sampled_layers
from blrc.frontend.weights.logits import CODES, PRECISION, log_sigmoid, rounded, sigmoids, to_codes
from blrc.frontend.weights.record import Coding
from blrc.frontend.weights.table import CODINGS
from blrc.net.net import Conv, Dense, Net
from blrc.nn.weights.distribution import CERTAIN
from blrc.nn.weights.table import DISTRIBUTIONS

MEMBERS = (Member(), Member(3, 0), Member(3, 0, freeze=parse_freeze("0.3")), Member(2**64 - 1, 5, ("5",)))


def network(weight: str = "ternary", last: str = "binary", groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        bnn.BinaryConv2d(2, 4, 3, padding="same", weight=weight, groups=groups, bias=True),
        bnn.StochasticBatchNorm2d(4),
        bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.BinaryLinear(16, 6, weight=last),
        bnn.StochasticBatchNorm1d(6),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(6, 3),
    )


def weights_of(net: Net) -> dict[str, Any]:
    return {layer.name: layer for layer in net.layers if isinstance(layer, Conv | Dense)}


def saved(model: nn.Module, path: Path, compact: bool = True) -> Checkpoint:
    encoding = blrc.bits((2, 4, 4))
    raw = np.random.default_rng(0).integers(0, 2, (8, 2, 4, 4)).astype(np.uint8)
    blrc.save(model, path=path, input=encoding, calibration=raw, compact=compact, check_samples=4)
    return blrc.load(path)


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 30), st.sampled_from([1, 2]), st.sampled_from(["binary", "ternary"]))
def test_what_is_saved_is_the_network(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: float, groups: int, last: str
) -> None:
    """All members of the float form, the compact form and the loaded module are the same; MAP is the module's own."""
    folder = tmp_path_factory.mktemp("saved")
    torch.manual_seed(seed)
    model = network(last=last, groups=groups)
    for weight in bnn.distributions(model):
        for logits in weight.parameters():
            logits.data = size * torch.randn(logits.shape)
    full, compact = saved(model, folder / "a.pt", compact=False), saved(model, folder / "b.pt")
    for key, value in full.model().state_dict().items():
        assert torch.equal(value, model.state_dict()[key])
    for member in MEMBERS:
        nets = [weights_of(sample(each, member)) for each in (full, compact)]
        for name, layer in nets[0].items():
            assert layer.ternary == (name == "0" or last == "ternary") == nets[1][name].ternary
            assert layer.weights.dtype == np.int8 and np.array_equal(layer.weights, nets[1][name].weights)
            if member == Member():
                assert np.array_equal(layer.weights, model.get_submodule(name).weight.map().numpy())
    saved(compact.model(), folder / "c.pt")
    assert (folder / "c.pt").read_bytes() == (folder / "b.pt").read_bytes()


def test_layers_over_time_and_choices_of_layers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        bnn.BinaryConv1d(2, 4, 3, weight="ternary"), bnn.StochasticBatchNorm1d(4), bnn.StochasticSign(), nn.Flatten(),
        bnn.BinaryLinear(16, 3, weight="ternary"), bnn.StochasticBatchNorm1d(3), bnn.StochasticSign(),
        bnn.SoftmaxLinear(3, 2),
    )  # fmt: skip
    blrc.save(model, path=tmp_path / "a.pt", input=blrc.bits((2, 6)), calibration=None, compact=True)
    held = blrc.load(tmp_path / "a.pt")
    assert [node.kind for node in held.nodes if "ternary" in node.kind] == ["ternary_conv1d", "ternary_linear"]
    assert sampled_layers(held, "conv") == ("0",) and sampled_layers(held, "all") is None
    layers = weights_of(sample(held, Member(1, 0, ("0",))))
    assert layers["0"].weights.shape == (4, 2, 1, 3) and layers["0"].ternary
    assert np.array_equal(layers["4"].weights, model[4].weight.map().numpy())
    assert not np.array_equal(layers["0"].weights[:, :, 0], model[0].weight.map().numpy())
    assert "78 weights" in repr(held)  # 24 + 48, and 6 of the softmax layer


def test_the_version_is_raised_where_it_is_used(tmp_path: Path) -> None:
    saved(network(), tmp_path / "ternary.pt")
    saved(network("binary"), tmp_path / "binary.pt")
    assert content_of(tmp_path / "ternary.pt")["version"] == 2
    assert content_of(tmp_path / "binary.pt")["version"] == 1


@pytest.mark.parametrize("key", ["0.weight.zero_logits", "0.weight.sign_logits"])
def test_tensors_that_do_not_fit_are_refused_by_name(key: str, tmp_path: Path) -> None:
    saved(network(), tmp_path / "a.pt")
    good = content_of(tmp_path / "a.pt")
    missing = {name: value for name, value in good["tensors"].items() if name != key}
    for bad, words in (
        (missing, f"tensor '{key}' is missing"),
        ({**missing, key: torch.zeros(3, 3)}, f"tensor '{key}' is float32 .3, 3., but its layer has weights"),
        ({**missing, key: torch.zeros(4, 2, 3, 3, dtype=torch.uint8)}, f"tensor '{key}' is uint8"),
        ({**missing, key: torch.full((4, 2, 3, 3), math.nan)}, "layer '0': .*_logits of channel 0 is NaN or infinite"),
    ):
        rewrite(tmp_path / "b.pt", {**good, "tensors": bad})
        with pytest.raises(BlrcError, match=words) as error:
            blrc.load(tmp_path / "b.pt")
        assert "\n" not in str(error.value)
    mixed = {**missing, key: torch.zeros(4, 2, 3, 3)}  # one of the two as floats is no fault
    rewrite(tmp_path / "b.pt", {**good, "tensors": mixed})
    assert set(np.unique(weights_of(sample(blrc.load(tmp_path / "b.pt")))["0"].weights)) <= {-1, 0, 1}


class Switch(bnn.Bernoulli):
    """A third distribution: weights in {0, +1} with P(0) = sigmoid(W)."""

    name = "switch"
    support = (0, 1)

    def mean(self) -> torch.Tensor:
        return torch.sigmoid(-self.logits)

    def variance(self) -> torch.Tensor:
        return torch.sigmoid(self.logits) * torch.sigmoid(-self.logits)

    def both(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.mean(), self.variance()

    def total_variance(self) -> torch.Tensor:
        return self.variance().sum()

    def map(self) -> torch.Tensor:
        return 0.5 * (1 + super().map())

    def sample(self, generator: torch.Generator | None = None) -> torch.Tensor:
        return 0.5 * (1 + super().sample(generator))

    @torch.no_grad()
    def settle_(self) -> None:
        self.logits.copy_(torch.where(self.logits <= 0, -CERTAIN, CERTAIN))


SWITCH = Coding(
    "switch",
    (0, 1),
    ("logits",),
    lambda w: (to_codes(w),),
    lambda: np.array([int(code < 0) for code in CODES], dtype=np.int8),
    lambda: np.array([[rounded(p, PRECISION - 32)] for p in sigmoids()], dtype=np.uint32),
    lambda w: np.stack([log_sigmoid(w), log_sigmoid(-w)], axis=-1),
)


def test_an_unknown_distribution_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match="BinaryConv2d: weight 'switch': 'binary' or 'ternary'"):
        network("switch")
    model = network()
    model[0].weight = Switch(model[0].weight.shape)
    with pytest.raises(BlrcError, match=r"layer '0': its weights: Switch has a \w+ of its own, which cannot be compil"):
        saved(model, tmp_path / "a.pt")
    assert not list(tmp_path.iterdir())
    saved(network(), tmp_path / "a.pt")
    content = content_of(tmp_path / "a.pt")
    content["nodes"][0]["kind"] = "switch_conv2d"
    rewrite(tmp_path / "b.pt", content)
    with pytest.raises(
        BlrcError, match="layer '0' is of kind 'switch_conv2d', which this version of blrc does not know"
    ):
        blrc.load(tmp_path / "b.pt")


def test_adding_a_distribution_takes_a_class_and_a_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Do what CONTRIBUTING.md says: here the tables are changed, which a contributor does in their modules.

    The module is checked against values of its own in `evaluate.py`, which is the one step that no table takes.
    """
    monkeypatch.setitem(DISTRIBUTIONS, "switch", Switch)  # blrc/nn/weights/table.py
    monkeypatch.setitem(CODINGS, "switch", SWITCH)  # blrc/frontend/weights/table.py
    for kind in random_kinds(SWITCH):  # made from the tables when the modules are imported
        monkeypatch.setitem(kinds_table.KINDS, kind.name, kind)  # type: ignore[arg-type]
    for name, built in graph.random_kinds("switch").items():
        monkeypatch.setitem(graph.KINDS, name, built)
    monkeypatch.setattr(known, "CLASSES", (*known.CLASSES, Switch))
    torch.manual_seed(0)
    model = network("switch")
    with pytest.raises(BlrcError, match="kind 'switch_conv2d' cannot be checked by this version of blrc"):
        saved(model, tmp_path / "a.pt")
    from blrc.frontend.capture import evaluate

    real = evaluate.weights_of

    def weights(node: Any, needed: Any) -> Any:
        return np.where(needed("weight.logits") <= 0, 1.0, 0.0) if "switch" in node.kind else real(node, needed)

    monkeypatch.setattr(evaluate, "weights_of", weights)  # blrc/frontend/capture/evaluate.py
    held = saved(model, tmp_path / "a.pt")
    assert held.nodes[0].kind == "switch_conv2d" and content_of(tmp_path / "a.pt")["version"] == 2
    likeliest = weights_of(sample(held))["0"]
    assert likeliest.ternary and np.array_equal(likeliest.weights, model[0].weight.map().numpy())
    drawn = weights_of(sample(held, Member(1, 0)))["0"].weights
    assert set(np.unique(drawn)) == {0, 1} and not np.array_equal(drawn, likeliest.weights)
    assert type(held.model().get_submodule("0").weight) is Switch
    assert replace(held, calibration=None).coded("0").counts().sum(axis=-1).min() == 2**32


@pytest.mark.nightly
@pytest.mark.slow("compiles C")
def test_a_gated_ensemble_of_some_layers_is_exported_and_verified(tmp_path: Path) -> None:
    torch.manual_seed(0)
    saved(network(), tmp_path / "net.pt")
    options: dict[str, Any] = {"members": 2, "sample": "conv", "freeze": 0.2, "gate": 0.9}
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets=["c", "onnx"], **options)
    assert blrc.verify(tmp_path / "out", random=20, model=tmp_path / "net.pt").equal


def test_a_tie_by_less_than_rounding_is_decided_alike_everywhere(tmp_path: Path) -> None:
    """The check of a saved module compared rounded products, and refused a module whose weights it took for 0."""
    model = network()
    model[0].weight.zero_logits.data.fill_(-1e-20)
    model[0].weight.sign_logits.data.fill_(50.0)
    found = sample(saved(model, tmp_path / "net.pt"), Member(), running=True)
    assert np.array_equal(weights_of(found)["0"].weights, model[0].weight.map().numpy())
