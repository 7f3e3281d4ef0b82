"""Evaluations say what the exported programs say."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from random_networks import binarized_network, checkpoint_of, deep_network, raw_samples

from blrc.app.export import build
from blrc.datasets.labelled import Labelled
from blrc.errors import BlrcError
from blrc.evaluation import cheap, evaluation
from blrc.evaluation.choice import Choice, parse_entries
from blrc.evaluation.evaluation import evaluate
from blrc.evaluation.report import to_plain
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.members import parse_gate, parse_members
from blrc.frontend.sample import MAP, NONE, Member, binary_layers, sample, sampled_layers
from blrc.inspection.inspection import weight_histograms
from blrc.lowering.lower import lower
from blrc.net.encoding import device_layout
from blrc.program import head, reference
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.size.footprint import measure


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    model, shape = deep_network(6)
    return checkpoint_of(model, "uint8", shape, 6)


@pytest.fixture(scope="module")
def data(checkpoint: Checkpoint) -> Labelled:
    """Labels that MAP gets right two times in three, or so."""
    raw = device_layout(raw_samples(checkpoint.encoding, 90, 1))
    program, _ = build(checkpoint, [MAP])
    labels = reference.labels(reference.scores(program, raw))
    labels[::3] = np.random.default_rng(0).integers(0, program.classes, len(labels[::3]))
    return Labelled(raw, labels)


def accuracy(label: np.ndarray, data: Labelled) -> float:
    return 100.0 * int((label == data.labels).sum()) / len(data.labels)


def test_accuracies_are_those_of_the_exported_programs(checkpoint: Checkpoint, data: Labelled) -> None:
    found = evaluate(checkpoint, data, Choice(("map", "2", "4"), repeats=2, seed=7), {})
    for repeat in range(2):
        program, _ = build(checkpoint, parse_members("4", 7 + repeat))
        for members in (2, 4):
            expected = accuracy(reference.answer(program, data.raw, members).label, data)
            assert found.accuracies[str(members)]["re-estimated"][repeat] == expected
        nets = [sample(checkpoint, Member(7 + repeat, k), running=True) for k in range(4)]
        expected = accuracy(reference.answer(lower(nets), data.raw).label, data)
        assert found.accuracies["4"]["running"][repeat] == expected
    program, _ = build(checkpoint, [MAP])
    expected = accuracy(reference.labels(reference.scores(program, data.raw)), data)
    assert found.accuracies["map"]["re-estimated"] == (expected,)
    quality = found.entries["4"]["re-estimated"].quality
    assert quality["accuracy"].mean == pytest.approx(np.mean(found.accuracies["4"]["re-estimated"]))
    assert quality["accuracy"].std == pytest.approx(np.std(found.accuracies["4"]["re-estimated"], ddof=1))
    assert quality["nll"].mean > 0 and len(found.entries["4"]["re-estimated"].coverage) == 90


def test_the_same_again_and_other_with_another_seed(checkpoint: Checkpoint, data: Labelled) -> None:
    choice = Choice(("stochastic", "3"), repeats=2)
    state = torch.get_rng_state()
    first = evaluate(checkpoint, data, choice, {})
    assert torch.equal(torch.get_rng_state(), state)
    assert evaluate(checkpoint, data, choice, {}) == first
    other = evaluate(checkpoint, data, replace(choice, seed=5), {})
    assert other.entries != first.entries
    assert set(first.entries["stochastic"]) == {"running"}
    # Repeat 1 of seed 0 is repeat 0 of seed 1.
    shifted = evaluate(checkpoint, data, Choice(("3",), 1, seed=1), {})
    assert shifted.accuracies["3"]["re-estimated"][0] == first.accuracies["3"]["re-estimated"][1]


def test_a_baseline_is_evaluated_as_map(checkpoint: Checkpoint, data: Labelled) -> None:
    found = evaluate(checkpoint, data, Choice(("map",), 1), {"other": checkpoint})
    assert found.baselines["other"] == found.entries["map"]


def test_each_norm_statistics_have_the_scale_of_their_scores() -> None:
    """Behind a binary last layer, running means far away make scores so large that their scale grows."""
    model, shape = binarized_network(0)
    found = checkpoint_of(model, "uint8", shape, 0)
    last = found.nodes[-1].name
    tensors = dict(found.tensors)
    tensors[f"{last}.running_mean"] = np.full(7, -2e5, np.float32)
    tensors[f"{last}.running_var"] = np.ones(7, np.float32)
    tensors[f"{last}.weight"] = np.full(7, 0.1, np.float32)
    tensors[f"{last}.bias"] = np.zeros(7, np.float32)
    far = replace(found, tensors=tensors)
    raw = device_layout(raw_samples(far.encoding, 50, 1))
    data = Labelled(raw, np.arange(50) % 7)
    measured = evaluate(far, data, Choice(("map",), 1), {}).entries["map"]
    scales = []
    for norms, program in (
        ("re-estimated", build(far, [MAP], norms="estimated")[0]),
        ("running", build(far, [MAP])[0]),  # no weight is random, so norms are kept
    ):
        scales.append(program.score_scale)
        p = np.exp2(reference.answer(program, raw).log_p / 2**16)
        expected = -np.log(p[np.arange(50), data.labels]).mean()
        assert measured[norms].quality["nll"].mean == pytest.approx(expected)
    assert scales[1] > scales[0]


def test_norms_that_nothing_can_re_estimate_have_no_such_row() -> None:
    """A checkpoint without random weights needs no calibration samples: its norms are evaluated as given, and once."""
    model, shape = binarized_network(0)
    given = replace(checkpoint_of(model, "uint8", shape, 0), calibration=None)
    raw = device_layout(raw_samples(given.encoding, 20, 1))
    data = Labelled(raw, np.arange(20) % 7)
    found = evaluate(given, data, Choice(("map",), 1), {"same": given})
    program, _ = build(given, [MAP])
    expected = accuracy(reference.labels(reference.scores(program, raw)), data)
    assert found.accuracies["map"] == {"running": (expected,)}
    assert set(found.entries["map"]) == set(found.baselines["same"]) == {"running"}
    row = to_plain(found, "x", "y", {})["members"]["map"]
    assert row["accuracy_mean"] == row["accuracy_mean_running"] == expected


def test_reestimation_by_batches(checkpoint: Checkpoint, data: Labelled) -> None:
    many = np.concatenate([raw_samples(checkpoint.encoding, 128, seed) for seed in range(2)])
    rich = replace(checkpoint, calibration=many)
    curve = evaluate(rich, data, Choice(("map",), 2), {}, reestimation=True).reestimation
    assert curve is not None and curve.batches == (0, 1, 2) and curve.networks == 2
    for accuracy_of, calibration in zip(curve.map[1:], (many[:128], many), strict=True):
        program, _ = build(replace(rich, calibration=calibration), [MAP])
        assert accuracy_of == accuracy(reference.labels(reference.scores(program, data.raw)), data)
    program = lower([sample(rich, MAP, running=True)])
    assert curve.map[0] == accuracy(reference.labels(reference.scores(program, data.raw)), data)


def test_progress_goes_from_none_to_all(checkpoint: Checkpoint, data: Labelled) -> None:
    said: list[tuple[int, int]] = []
    choice = Choice(("stochastic", "map", "2"), 2)
    evaluate(checkpoint, data, choice, {"b": checkpoint}, True, lambda _, done, total: said.append((done, total)))
    assert said == [(done, len(said) - 1) for done in range(len(said))]


@pytest.mark.parametrize(
    ("text", "message"),
    [("map,few", "'few' is not map"), ("0", "'0' is not"), ("2,02", "2 stands there twice"), ("9999", "'9999' is not")],
)
def test_entries_that_are_none(text: str, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        parse_entries(text)


def test_mistakes_are_named(checkpoint: Checkpoint, data: Labelled) -> None:
    with pytest.raises(BlrcError, match="--repeats 0"):
        evaluate(checkpoint, data, Choice(("map",), 0), {})
    with pytest.raises(BlrcError, match="no calibration samples"):
        evaluate(replace(checkpoint, calibration=None), data, Choice(("map",), 1), {})


def test_histograms_of_weights(checkpoint: Checkpoint) -> None:
    found = weight_histograms(checkpoint, 4)
    for name, shares in found.items():
        p = 1 / (1 + np.exp((checkpoint.coded(name).codes[0].astype(float) + 0.5) / 12))
        expected = [((p >= i / 4) & (p < (i + 1) / 4)).mean() for i in range(4)]
        assert shares == pytest.approx(expected) and sum(shares) == pytest.approx(1)


# Cheap ensembles.


def test_predict_is_what_the_gate_and_early_stopping_say(checkpoint: Checkpoint, data: Labelled) -> None:
    gate = head.gate_of(Fraction(6, 10))
    program, _ = build(checkpoint, parse_members("4", 0, gate=gate), gate)
    scores = [reference.scores(program, data.raw, member) for member in range(5)]
    label, networks = cheap.predict(scores, head.scale_of(program.score_scale), gate)
    answer = reference.answer(program, data.raw)
    assert np.array_equal(label, answer.label)  # early stopping never changes a label
    alone = answer.members == 1
    assert 0 < alone.sum() < len(alone)
    assert (networks[alone] == 1).all() and (networks <= 5).all() and networks[~alone].min() > 1


@pytest.mark.nightly
def test_cheap_choices_side_by_side(checkpoint: Checkpoint, data: Labelled) -> None:
    rows = {row.options: row for row in cheap.evaluate_cheap(checkpoint, data, 3, repeats=2, seed=5)}
    assert next(iter(rows)) == "--members map" and rows["--members map"].networks_mean == 1
    for options, layers, freeze, gate in (
        ("--members 3", "all", NONE, None),
        ("--members 3 --sample conv", "conv", NONE, None),
        ("--members 3 --sample conv --gate 0.9", "conv", NONE, "0.9"),
        ("--members 3 --freeze 0.1", "all", Fraction(1, 10), None),
    ):
        accuracies = []
        for seed in (5, 6):
            which = sampled_layers(checkpoint, layers)
            held = parse_gate(gate)
            program, _ = build(checkpoint, parse_members("3", seed, which, freeze, held), held)
            accuracies.append(accuracy(reference.answer(program, data.raw).label, data))
            if seed == 5:
                assert rows[options].tables == sum(step.flash for step in lay_out(program).steps), options
        assert rows[options].accuracy_mean == pytest.approx(np.mean(accuracies)), options
    assert rows["--members 3 --sample conv"].tables < rows["--members 3"].tables
    assert rows["--members 3"].tables_ratio == pytest.approx(rows["--members 3"].tables / rows["--members map"].tables)


@pytest.mark.nightly
def test_cheap_choices_have_the_one_that_was_asked_for(checkpoint: Checkpoint, data: Labelled) -> None:
    first = next(iter(binary_layers(checkpoint)))
    rows = cheap.evaluate_cheap(checkpoint, data, 2, layers=(first,), freeze=Fraction(3, 10))
    own = f"--members 2 --sample {first} --freeze 0.3"
    program, _ = build(checkpoint, parse_members("2", 0, (first,), Fraction(3, 10)))
    found = {row.options: row for row in rows}
    assert found[own].flash == measure(lay_out(program)).flash_bytes
    assert found[own].accuracy_mean == accuracy(reference.answer(program, data.raw).label, data)
    assert found[own].flash_ratio == found[own].flash / found["--members map"].flash
    assert f"{own} --gate 0.95" in found
    assert len(cheap.evaluate_cheap(checkpoint, data, 2)) == len(rows) - 5  # with one more way, and its four gates


def test_cheap_needs_members(checkpoint: Checkpoint, data: Labelled) -> None:
    with pytest.raises(BlrcError, match="need 2 and 1 at least"):
        cheap.evaluate_cheap(checkpoint, data, 1)


def test_workers_leave_torch_threads_as_they_were(checkpoint: Checkpoint, data: Labelled) -> None:
    before = torch.get_num_threads()
    evaluate(checkpoint, data, Choice(("map",), 1), {})
    assert torch.get_num_threads() == before
    assert evaluation.MAX_WORKERS >= 1
