"""The head in ONNX Runtime, on scores of any size: equal to `head.ensemble` in the newest and the oldest runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx_agreement import assert_answers

from blrc import head
from blrc.targets import onnx_head
from blrc.targets.onnx_nodes import Graph
from blrc.targets.onnx_run import elsewhere, here

Scores = list[NDArray[np.int32]]


@pytest.fixture(params=["newest", "oldest"])
def python(request: pytest.FixtureRequest) -> Path | None:
    return None if request.param == "newest" else request.getfixturevalue("ort117_python")


def head_model(members: int, classes: int, scale: head.Scale, gate: int = 0) -> bytes:
    """The head alone; the scores of each member are an input."""
    graph = Graph()
    names = [f"m{k}" for k in range(members)]
    onnx_head.lower_head(graph, names, scale, classes, gate)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, ["N", classes]) for name in names]
    model = graph.model("head", inputs, onnx_head.outputs(classes), [])
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def agree(scores: Scores, score_scale: float, python: Path | None = None, gate: int = 0) -> head.Answer:
    scale = head.scale_of(score_scale)
    engine = here(1, 100_000) if python is None else elsewhere(python, 1, 100_000)
    found = engine(head_model(len(scores), scores[0].shape[1], scale, gate), {f"m{k}": s for k, s in enumerate(scores)})
    answer = head.Answer(**found)
    assert_answers(answer, head.ensemble(scores, scale, gate))
    return answer


def spread_scores(members: int, classes: int, score_scale: float, seed: int) -> Scores:
    """Scores that lie from less than one to 60 bits apart, as far as int32 allows; many of them equal."""
    rng = np.random.default_rng(seed)
    rows = []
    for bits in (0.001, 1.0, 8.0, 24.0, 60.0):
        reach = min(int(bits / score_scale) + 1, 2**30 - 1)
        rows.append(rng.integers(-reach, reach + 1, (members, 40, classes)))
    scores = np.concatenate(rows, axis=1)
    scores[:, ::7] = scores[:, ::7, :1]
    return list(scores.astype(np.int32))


@pytest.mark.parametrize("score_scale", [1e-30, 1e-9, 3e-6, 0.0123, 1.0, 21.7, 3e4, 1e30])
@pytest.mark.parametrize("classes", [2, 3, 10, 257])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_answers_are_those_of_the_law(members: int, classes: int, score_scale: float) -> None:
    agree(spread_scores(members, classes, score_scale, classes), score_scale)


@pytest.mark.parametrize("score_scale", [1e-9, 0.0123, 1e30])
@pytest.mark.parametrize("members", [1, 16])
def test_both_runtimes_agree(members: int, score_scale: float, python: Path | None) -> None:
    answer = agree(spread_scores(members, 10, score_scale, 0), score_scale, python)
    if score_scale == 0.0123:
        assert int(answer.log_p.min()) == -members * head.FLOOR  # the floor is reached, by all members at once
        assert len(np.unique(answer.mean)) > 50
        assert (len(np.unique(answer.variance)) > 50) == (members > 1)


@pytest.mark.parametrize("members", [2, 17])
def test_a_gate(members: int, python: Path | None) -> None:
    """At a probability that occurs, just above it, and at both ends."""
    scores = spread_scores(members, 10, 0.0123, 1)
    top = np.sort(head.probabilities(head.log_probabilities(scores[0], head.scale_of(0.0123))).max(axis=1))
    middle = int(top[100])
    for gate in (1, middle, middle + 1, head.ONE):
        answer = agree(scores, 0.0123, python, gate)
        alone = int((top >= gate).sum())
        assert np.unique_counts(answer.members).counts.tolist() == [n for n in (alone, len(top) - alone) if n]
        assert not answer.variance[answer.members == 1].any()


def test_two_classes_over_the_whole_reachable_range(python: Path | None) -> None:
    behind = np.arange(40_000, dtype=np.int32)
    agree([np.stack([0 * behind, -behind], axis=1), np.stack([-behind[::-1], 0 * behind], axis=1)], 0.001, python)


def test_largest_scores_and_most_classes(python: Path | None) -> None:
    rng = np.random.default_rng(0)
    edges = np.array([-(2**30), -(2**30) + 1, -1, 0, 1, 2**30 - 2, 2**30 - 1], dtype=np.int32)
    scores = [rng.choice(edges, (30, head.MAX_CLASSES)) for _ in range(2)]
    scores[0][0] = scores[1][0] = edges[-1]  # all classes alike: the largest sum of powers
    for scale in (1e-30, 1.0, 1e30):
        agree(scores, scale, python)


def test_most_members(python: Path | None) -> None:
    """The sums of log-probabilities and of squares are as large as they can be."""
    sure = np.array([[0, 1000], [1000, 0], [0, 0]], dtype=np.int32)
    answer = agree([sure] * head.MAX_MEMBERS, 1.0, python)
    assert answer.log_p[0].tolist() == [-head.FLOOR * head.MAX_MEMBERS, 0]
    assert answer.label.tolist() == [1, 0, 0]
    assert answer.mean.tolist() == [head.ONE, head.ONE, head.ONE // 2]


def test_ties_go_to_the_first_class(python: Path | None) -> None:
    """Members that contradict each other, so that the sums tie though no member's scores do."""
    one = np.array([[0, 5, 7, 2], [9, 9, 9, 9], [-3, 1, 1, 0]], dtype=np.int32)
    other = one[:, [0, 2, 1, 3]]
    answer = agree([one, other], 0.1, python)
    assert answer.label.tolist() == [1, 0, 1]
    assert answer.log_p[0, 1] == answer.log_p[0, 2]


def function(name: str, values: NDArray[np.int64], python: Path | None, classes: int = 0) -> NDArray[np.int64]:
    """`onnx_head.exp2` or `onnx_head.log2` alone, of values (N, 1, 1)."""
    graph = Graph()
    if name == "exp2":
        onnx_head.exp2(graph, "x", "y")
    else:
        onnx_head.log2(graph, "x", classes, "y")
    infos = [helper.make_tensor_value_info(n, TensorProto.INT64, ["N", 1, 1]) for n in ("x", "y")]
    model = graph.model(name, infos[:1], infos[1:], []).SerializeToString()
    engine = here(1, 500_000) if python is None else elsewhere(python, 1, 500_000)
    return engine(model, {"x": values.reshape(-1, 1, 1)})["y"].reshape(-1)  # type: ignore[no-any-return]


def test_every_power(python: Path | None) -> None:
    d = np.arange(head.CAP + 1)
    assert np.array_equal(function("exp2", d, python), head.exp2(d))


def test_logarithms(python: Path | None) -> None:
    """Around every entry of the table at every power, and many between."""
    entries = np.concatenate([(256 + np.arange(257))[:, None] * 2**22 + np.array([-65, -64, -63, -1, 0, 1, 63, 64])])
    powers = 1 << np.arange(13)
    between = np.random.default_rng(0).integers(2**30, 2**31, 20_000)
    totals = (np.concatenate([entries.reshape(-1), between])[:, None] * powers).reshape(-1)
    totals = np.concatenate([totals, totals + np.tile(powers, len(totals) // 13) - 1])
    totals = totals[(totals >= 2**30) & (totals <= head.MAX_CLASSES << head.EXP_BITS)]
    assert totals.max() == head.MAX_CLASSES << head.EXP_BITS and totals.min() == 2**30
    assert np.array_equal(function("log2", totals, python, head.MAX_CLASSES), head.log2(totals))
