"""The head in ONNX Runtime, on scores of any size: equal to `head.ensemble` in the newest and the oldest runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from by_night import first
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_agreement import assert_answers
from onnx_heads import EDGE, Scores, head_model, spread_scores

from blrc.program import head
from blrc.targets.onnx import head as onnx_head
from blrc.targets.onnx.ints import Arithmetic, Int
from blrc.targets.onnx.nodes import Graph
from blrc.targets.onnx.session import elsewhere, here
from blrc.targets.onnx.softmax import log2, probability

SMALLEST = head.SMALLEST_SCALE
SMALL = {"Div", "Mod", "CumSum", "GreaterOrEqual"}  # ops that some runtimes compute in float32
INDICES = {"Reshape", "ArgMax", "GatherElements", "Tile", "Squeeze", "Unsqueeze"}  # that have int64 indices or axes
KNOWN_WRONG = {"Min", "Max", "ReduceMax", "ReduceMin", "ReduceSum", "BitShift", "Shape", "ConstantOfShape"}


@pytest.fixture(params=first(1, ["newest", "oldest"]))
def python(request: pytest.FixtureRequest) -> Path | None:
    return None if request.param == "newest" else request.getfixturevalue("ort117_python")


def agree(scores: Scores, score_scale: float, python: Path | None = None, gate: int = 0) -> head.Answer:
    scale = head.scale_of(score_scale)
    engine = here(1, 100_000) if python is None else elsewhere(python, 1, 100_000)
    found = engine(head_model(len(scores), scores[0].shape[1], scale, gate), {f"m{k}": s for k, s in enumerate(scores)})
    answer = head.Answer(**found)
    assert_answers(answer, head.ensemble(scores, scale, gate))
    return answer


@pytest.mark.parametrize("score_scale", [SMALLEST, 2.09e-3, 0.5, 21.7, 1e30])
@pytest.mark.parametrize("classes", [1, 2, 10, 600])
@pytest.mark.parametrize("members", first(2, [1, 5, 2]))
def test_answers_are_those_of_the_law(members: int, classes: int, score_scale: float) -> None:
    agree(spread_scores(members, classes, score_scale, classes), score_scale)


@pytest.mark.parametrize("score_scale", [SMALLEST, 0.0123, 1e30])
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
    edges = np.array([-(2**30) + 1, -(2**30) + 2, -1, 0, 1, 2**30 - 2, 2**30 - 1], dtype=np.int32)
    scores = [rng.choice(edges, (30, head.MAX_CLASSES)) for _ in range(2)]
    scores[0][0] = scores[1][0] = edges[-1]  # all classes alike: the largest sum of powers
    for scale in (SMALLEST, 1.0, 1e30):
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


@settings(max_examples=40)
@given(
    members=st.integers(1, 4),
    score_scale=st.floats(SMALLEST, 1e6),
    gate=st.sampled_from([0, 1, 30_000, head.ONE]),
    rows=st.lists(
        st.lists(
            st.one_of(st.integers(-EDGE, EDGE), st.sampled_from([-EDGE, EDGE, EDGE - 1, 0, 1])),
            min_size=12,
            max_size=12,
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_any_legal_scores(members: int, score_scale: float, gate: int, rows: list[list[int]]) -> None:
    every = np.array(rows, dtype=np.int32).reshape(len(rows), 4, 3).transpose(1, 0, 2)
    agree(list(every[:members]), score_scale, gate=gate if members > 1 else 0)


@pytest.mark.parametrize("members", first(3, [2, 11, 129, 10, 128, 257, 700]))
def test_any_number_of_members(members: int) -> None:
    """Around the numbers from which on sums are split into digits."""
    for scale in (0.0123, 1e30):
        agree(spread_scores(members, 3, scale, members), scale)


@pytest.mark.parametrize("classes", [511, 512, 513])
def test_classes_around_the_change_of_radix(classes: int) -> None:
    agree([np.full((2, classes), EDGE, np.int32)], 1.0)
    agree(spread_scores(2, classes, 0.01, classes), 0.01)


def test_every_small_lead_of_two_classes_at_every_kind_of_scale() -> None:
    """All differences of scores up to the one that reaches the cap, for scales of one digit up to many."""
    for score_scale in (0.011, 0.3, 2.0, 0.5 / head.ONE * np.log(2) * 2**5):
        behind = np.arange(0, 31 / np.log2(np.e) / score_scale + 4, dtype=np.int32)
        agree([np.stack([0 * behind, -behind], axis=1)], float(score_scale))


@pytest.mark.parametrize(
    ("classes", "gate", "members"),
    [(10, 0, 1), (10, 0, 2), (10, 20_000, 2), (10, 0, 300), (10, 20_000, 300), (600, 0, 1), (600, 20_000, 2)],
)
def test_every_number_stays_where_every_runtime_is_exact(classes: int, gate: int, members: int) -> None:
    """No tensor is wider than int32, and what is divided, compared or summed is from 0 to 2^24, in values as in types.

    Runtimes that narrow int64 (OpenVINO among them), or compute such ops in float32, are exact then. int64 are only
    indices of classes and the outputs, which nothing reads.
    """
    scale = 0.0123
    model = onnx.load_from_string(head_model(members, classes, head.scale_of(scale), gate if members > 1 else 0))
    nodes = list(model.graph.node)
    assert not KNOWN_WRONG & {node.op_type for node in nodes}
    types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types |= {v.name: v.type.tensor_type.elem_type for v in [*inferred.value_info, *inferred.input, *inferred.output]}
    for node in nodes:
        wide = {name for name in [*node.input, *node.output] if types[name] == TensorProto.INT64}
        if node.op_type == "Cast":
            assert wide <= set(onnx_head.OUTPUTS)
        elif wide:
            assert node.op_type in INDICES, node.name
    assert not {TensorProto.FLOAT, TensorProto.DOUBLE} & set(types.values())
    counted = [name for node in nodes if node.op_type in SMALL for name in [*node.input[:2], *node.output]]
    # Every tensor of the head is an output here: of 25 rows they take a gigabyte at most.
    scores = [one[::8] for one in spread_scores(members, classes, scale, 0)]
    for k, one in enumerate(scores):
        one[0], one[1] = EDGE, -EDGE
        one[2:12] = np.random.default_rng(k).choice([-EDGE, EDGE, EDGE - 1], (10, classes))
    wanted = [name for name in dict.fromkeys(counted) if name not in {t.name for t in model.graph.initializer}]
    del model.graph.output[:]
    model.graph.output.extend(v for v in inferred.value_info if v.name in wanted and types[v.name] != TensorProto.BOOL)
    values = here(1, 100_000)(model.SerializeToString(), {f"m{k}": one for k, one in enumerate(scores)})
    assert len(values) > 30
    for name, array in values.items():
        assert array.dtype == np.int32 and array.min() >= 0 and array.max() <= 2**24, name


def test_the_arithmetic_refuses_numbers_that_are_too_large() -> None:
    ints = Arithmetic(Graph())
    large, small = Int("large", 0, 2**24 + 1), Int("small", 0, 2**16)
    for wrong in (
        lambda: ints.divide(large, 2, "a"),
        lambda: ints.remainder(large, 2, "b"),
        lambda: ints.divide(Int("negative", -1, 1), 2, "c"),
        lambda: ints.multiply(small, Int("other", 0, 2**15), "d"),
        lambda: ints.add(Int("edge", 0, 2**31 - 1), 1, "e"),
        lambda: ints.at_least(large, np.array([1]), "f"),
        lambda: ints.look_up(np.arange(256), small, "table", "g"),
    ):
        with pytest.raises(AssertionError, match="outside the range in which every runtime is exact"):
            wrong()
    assert ints.total(small, 1, 256, "sum")[0][0].high == 2**24
    assert [shift for _, shift in ints.total(small, 1, 257, "digits")] == [8, 0]


def test_all_powers_and_probabilities() -> None:
    """`probability` of every value that it can be given, and the sum of two classes at every distance up to the cap."""
    graph = Graph()
    p = probability(Arithmetic(graph), Int("x", 0, head.FLOOR), "p")
    infos = [helper.make_tensor_value_info(n, TensorProto.INT32, ["N"]) for n in ("x", p.name)]
    model = graph.model("p", infos[:1], infos[1:], []).SerializeToString()
    lost = np.arange(head.FLOOR + 1, dtype=np.int32)
    found = here(1, 2_000_000)(model, {"x": lost})[p.name]
    assert np.array_equal(found, head.probabilities(-lost.astype(np.int64)))


@pytest.mark.parametrize(("classes", "radix"), [(512, 15), (4096, 18)])
def test_logarithms(classes: int, radix: int) -> None:
    """Around every entry of the table at every power, and many between."""
    entries = np.concatenate([(256 + np.arange(257))[:, None] * 2**22 + np.array([-65, -64, -63, -1, 0, 1, 63, 64])])
    powers = 1 << np.arange(13)
    between = np.random.default_rng(0).integers(2**30, 2**31, 20_000)
    totals = (np.concatenate([entries.reshape(-1), between])[:, None] * powers).reshape(-1)
    totals = np.concatenate([totals, totals + np.tile(powers, len(totals) // 13) - 1])
    totals = totals[(totals >= 2**30) & (totals <= classes << head.EXP_BITS)]
    graph = Graph()
    total = (
        Int("upper", 1 << (head.EXP_BITS - radix), classes << (head.EXP_BITS - radix)),
        Int("lower", 0, 2**radix - 1),
        radix,
    )
    log2(Arithmetic(graph), total, 1, classes, "y")
    infos = [helper.make_tensor_value_info(n, TensorProto.INT32, ["N", 1]) for n in ("upper", "lower", "y")]
    model = graph.model("log2", infos[:2], infos[2:], []).SerializeToString()
    feeds = {"upper": totals >> radix, "lower": totals % 2**radix}
    found = here(1, 1_000_000)(model, {name: array.astype(np.int32)[:, None] for name, array in feeds.items()})["y"]
    assert np.array_equal(found[:, 0], head.log2(totals))
