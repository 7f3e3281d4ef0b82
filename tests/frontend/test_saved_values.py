"""Networks that give values: what is saved is what torch computes, and what would change values is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from head_networks import Headed, binarized, saved, stochastic
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend import checkpoint
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, Member
from blrc.frontend.saving import from_model, write
from blrc.net.encoding import device_layout
from blrc.net.heads import Unit
from blrc.program import reference

SHAPE = (2, 7, 6)
UNIT = Unit(2.5, -7.0)


class Sign(nn.Module):
    """A sign in plain PyTorch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x >= 0).to(x.dtype) * 2 - 1


def regression(outputs: int = 1, binary: bool = False) -> nn.Sequential:
    """A Binarized NN, which torch computes in float64 with the same decisions."""
    last = [bnn.SteLinear(81, outputs), nn.BatchNorm1d(outputs)] if binary else [bnn.SoftmaxLinear(81, outputs)]
    return nn.Sequential(
        bnn.SteConv2d(SHAPE[0], 9, 3, padding=1), nn.MaxPool2d(2), nn.BatchNorm2d(9), bnn.SteSign(), nn.Flatten(), *last
    )


def kept(model: nn.Module, outputs: Any = "values", kind: str = "uint8", **given: Any) -> Checkpoint:
    encoding = encoding_of(kind, SHAPE)
    return from_model(model, encoding, raw_samples(encoding, 40, 0), source="drawn.pt", outputs=outputs, **given)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("outputs", [1, 5])
def test_values_mean_what_torch_computes(outputs: int, binary: bool) -> None:
    """The bound is that of rounding: half a unit for each of the 81 inputs and the bias."""
    for seed, size in ((0, 1.0), (1, 1e-7), (2, 3e4)):
        model = randomise(regression(outputs, binary), seed, ties=False)
        with torch.no_grad():  # outputs of any size: a softmax's lower limit does not hold
            for tensor in (model[-1].weight, model[-1].bias):
                tensor.mul_(size)
        source = kept(model, blrc.values(scale=2.5, offset=-7.0))
        program, _ = build(source, [MAP], norms="given")
        raw = raw_samples(source.encoding, 60, 9)
        given = source.encoding.codes(raw).astype(np.float64) / source.encoding.scale
        with torch.no_grad():
            real = source.model().eval().double()(torch.from_numpy(given)).numpy() * 2.5 - 7.0
        found = reference.scores(program, device_layout(raw)).astype(np.float64)
        (unit,) = program.units
        error = np.abs(found * unit.scale + unit.offset - real)
        assert error.max() <= unit.scale * (81 + 1) / 2 * (1 + 1e-9)
        assert np.ptp(found) > 50  # the outputs take many units, however small they are


def test_members_differ_in_tables_and_share_the_unit() -> None:
    model = randomise(stochastic({"a": 1}), 0).trunk
    network = nn.Sequential(*model, bnn.SoftmaxLinear(36, 1))
    source = kept(network)
    program, _ = build(source, [Member(0, k) for k in range(3)])
    answer = reference.answer(program, device_layout(raw_samples(source.encoding, 10, 1)))
    assert answer.variance.shape == (10, 1) and (answer.variance > 0).any() and (answer.members == 3).all()


def test_units_of_heads_are_given_by_their_names(tmp_path: Path) -> None:
    model = stochastic({"x": 1, "size": 2})
    source = saved(model)
    units = {"size": blrc.values(scale=4.0), "x": "values"}
    encoding = source.encoding
    found = from_model(model, encoding, raw_samples(encoding, 40, 0), outputs=units)
    assert found.values == (Unit(), Unit(4.0))
    program, _ = build(found, [MAP])
    assert [u.scale for u in program.units] == [h.score_scale * s for h, s in zip(program.heads, (1, 4), strict=True)]
    alone, _ = build(found.of_head("size"), [MAP])
    raw = device_layout(raw_samples(encoding, 10, 1))
    assert np.array_equal(reference.scores(alone, raw), reference.scores(program, raw)[:, 1:])
    assert alone.units == program.units[1:]


def test_binary_heads_of_values_have_scales_of_their_own() -> None:
    model = randomise(binarized({"a": 1, "b": 3}), 3, ties=False)
    program, _ = build(kept(model), [MAP], norms="given")
    assert [head.classes for head in program.heads] == [1, 3] and len(program.units) == 2


def test_a_checkpoint_keeps_the_units(tmp_path: Path) -> None:
    path, model = tmp_path / "net.pt", randomise(regression(), 0)
    encoding = encoding_of("uint8", SHAPE)
    samples = raw_samples(encoding, 40, 0)
    blrc.save(model, path=path, input=encoding, calibration=samples, outputs=blrc.values(scale=0.1, offset=1 / 3))
    assert blrc.load(path).values == (Unit(0.1, 1 / 3),)
    assert "gives values" in repr(blrc.load(path))
    blrc.save(regression(2), path=path, input=encoding, calibration=samples)
    assert blrc.load(path).values == ()


@pytest.mark.parametrize("exact", [False, True])
def test_a_loaded_network_stays_one_of_values(exact: bool) -> None:
    """Saved again without outputs=, a network of values became one of labels."""
    encoding, model = encoding_of("uint8", SHAPE), randomise(regression(), 0, ties=False)
    if exact:
        encoding = blrc.pixels(SHAPE, mean=(0.5,) * 2, std=(0.25,) * 2)
        model = nn.Sequential(nn.Flatten(), *[nn.Linear(84, 12), nn.BatchNorm1d(12), Sign(), nn.Linear(12, 1)])
        with torch.no_grad():
            model[1].weight.copy_(model[1].weight.sign())
    source = from_model(model, encoding, raw_samples(encoding, 40, 0), outputs=UNIT)
    assert bool(source.encoding.exact) == exact
    loaded = source.model()
    again = from_model(loaded, source.encoding, source.samples())
    assert again.values == (UNIT,)
    assert from_model(loaded, source.encoding, source.samples(), outputs="values").values == (Unit(),)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([[0.0, 1.0]], "scale of values 0.0"),
        ([[float("nan"), 1.0]], "scale of values nan"),
        ([[1.0, float("inf")]], "offset of values inf"),
        ([[1.0]], "is not its scale and its offset"),
        ([[1.0, True]], "an offset of values"),
        ([["1", 0.0]], "a scale of values"),
        ([7], "a unit of values"),
        ([[1.0, 0.0]] * 2, "2 units of 1 outputs"),
        (7, "values"),
    ],
)
def test_hostile_checkpoints_are_refused(units: Any, message: str, tmp_path: Path) -> None:
    from blrc.frontend import saving

    path = tmp_path / "net.pt"
    found, written = kept(randomise(regression(), 0)), {}
    held, saving.write_sealed = saving.write_sealed, lambda content, path: written.update(content)
    try:
        write(found, path)
    finally:
        saving.write_sealed = held
    saving.write_sealed({**written, "values": units}, path)
    with pytest.raises(BlrcError, match=message):
        checkpoint.load(path)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ("value", "expected 'labels', 'values'"),
        (3.0, "expected 'labels', 'values'"),
        ({"a": "values"}, "outputs= names a; the network has one output without a name"),
        ({}, "the network has one output without a name"),
    ],
)
def test_other_outputs_are_refused(outputs: Any, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        kept(randomise(regression(), 0), outputs)


def test_labels_beside_values_are_refused() -> None:
    model = randomise(stochastic({"a": 2, "b": 2}), 0)
    with pytest.raises(BlrcError, match="some heads give labels and others values"):
        kept(model, {"a": "labels", "b": "values"})
    with pytest.raises(BlrcError, match="outputs= names a; the network has a, b"):
        kept(model, {"a": "values"})
    assert kept(model, {"a": "labels", "b": "labels"}).values == ()


class Ended(nn.Module):
    """A plain Binarized NN with something behind its last layer."""

    def __init__(self, end: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.end = nn.Linear(12, 20), nn.Linear(20, 3), end
        with torch.no_grad():
            self.first.weight.copy_(self.first.weight.sign())

    def forward(self, x: torch.Tensor) -> Any:
        return self.end(self.last((self.first(x) >= 0).to(x.dtype) * 2 - 1))


@pytest.mark.parametrize(
    "end", [nn.Softmax(1), nn.LogSoftmax(1), torch.sigmoid, lambda x: x.argmax(1), lambda x: (x, x.argmax(1))]
)
def test_what_changes_no_label_but_values_is_refused(end: Any) -> None:
    encoding, samples = blrc.bits((12,)), np.random.default_rng(0).integers(0, 2, (40, 12)).astype(np.uint8)
    with pytest.raises(BlrcError, match=r"leaves out the .*would change them"):
        from_model(Ended(end), encoding, samples, outputs="values")


def test_plain_pytorch_gives_its_values() -> None:
    encoding, samples = blrc.bits((12,)), np.random.default_rng(0).integers(0, 2, (40, 12)).astype(np.uint8)
    model = Ended(nn.Identity())
    program, _ = build(from_model(model, encoding, samples, outputs="values"), [MAP])
    with torch.no_grad():
        real = model.double()(torch.from_numpy(2.0 * samples - 1)).numpy()
    found = reference.scores(program, samples[:, None, None].astype(bool)) * program.units[0].scale
    assert np.abs(found - real).max() <= program.units[0].scale * 21 / 2


def test_one_output_says_what_it_may_be() -> None:
    with pytest.raises(BlrcError, match=r'one output is no choice.*outputs="values" to blrc\.save'):
        build(kept(randomise(regression(), 0), "labels"), [MAP])


def test_weights_that_would_vanish_for_a_softmax_are_values() -> None:
    model = randomise(regression(), 0)
    with torch.no_grad():
        model[-1].weight.mul_(1e-9)
        model[-1].bias.zero_()
    program, _ = build(kept(model), [MAP], norms="given")
    weights = program.constants[program.ops[-1].constants[0]].tables[0]
    assert np.abs(weights).max() == 127
    with pytest.raises(BlrcError, match="would all become 0"):
        build(replace(kept(Headed(model[:-1], {"a": model[-1], "b": bnn.SoftmaxLinear(81, 2)}), "labels")), [MAP])
