"""Chains in float32 are what ONNX Runtime computes, and thresholds move to where float32 decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from blrc.errors import BlrcError
from blrc.lowering.calibrate import folded
from blrc.lowering.single import decides, reachable, values
from blrc.net.encoding import bits
from blrc.net.net import Clip, Dense, Leak, Moments, Norm, Pointwise, Scale, Shift, Sign, Sums, Threshold
from blrc.net.pieces import Stage

CHANNELS, INPUTS = 24, 301


def row(rng: np.random.Generator, low: float = -3.0, high: float = 3.0) -> NDArray[np.float64]:
    return rng.uniform(low, high, CHANNELS).astype(np.float32).astype(np.float64)


def steps(seed: int) -> list[Pointwise]:
    """Return four random steps."""
    rng = np.random.default_rng(seed)
    one = np.ones(1)
    made: list[Pointwise] = []
    for number in range(4):
        name = f"step{number}"
        kind = int(rng.integers(0, 6))
        if kind == 0:
            statistics = Moments(20 * row(rng), row(rng, 0.5, 90.0))
            made.append(Norm(name, "", row(rng), row(rng), float(np.float32(1e-5)), statistics))
        elif kind == 1:
            made.append(Scale(name, "", row(rng), one))
        elif kind == 2:
            made.append(Scale(name, "", one, row(rng, 0.1, 3.0)))
        elif kind == 3:
            made.append(Shift(name, "", row(rng)))
        elif kind == 4:
            made.append(Leak(name, "", row(rng, 0.0, 1.0)))
        else:
            made.append(Clip(name, "", -2.5, None if rng.random() < 0.5 else 7.25))
    return made


def by_onnx_runtime(chain: Sequence[Pointwise], x: NDArray[np.float32]) -> NDArray[np.float32]:
    nodes: list[Any] = []
    constants: list[Any] = []

    def held(value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, np.float32), f"c{len(constants)}"))
        return str(constants[-1].name)

    at = "x"
    for number, step in enumerate(chain):
        after = f"t{number}"
        if isinstance(step, Norm):
            assert isinstance(step.statistics, Moments)
            rows = (step.gamma, step.beta, step.statistics.means, step.statistics.variances)
            nodes.append(
                helper.make_node("BatchNormalization", [at, *map(held, rows)], [after], epsilon=float(step.eps))
            )
        elif isinstance(step, Scale):
            is_factor = len(step.factor) > 1
            nodes.append(
                helper.make_node(
                    "Mul" if is_factor else "Div", [at, held(step.factor if is_factor else step.divisor)], [after]
                )
            )
        elif isinstance(step, Shift):
            nodes.append(helper.make_node("Add", [at, held(step.by)], [after]))
        elif isinstance(step, Leak):
            nodes.append(helper.make_node("PRelu", [at, held(step.slope)], [after]))
        else:
            assert isinstance(step, Clip)
            bounds = ["" if bound is None else held(bound) for bound in (step.low, step.high)]
            nodes.append(helper.make_node("Clip", [at, *bounds], [after]))
        at = after
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", CHANNELS))],
        [onnx.ValueInfoProto(name=at)],
        constants,
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("seed", range(20))
def test_a_chain_in_float32_is_onnx_runtimes(seed: int) -> None:
    chain = steps(seed)
    linear = Dense("fc", "input", np.ones((CHANNELS, INPUTS), np.int8), None)
    z = reachable(linear, -INPUTS, INPUTS, True)[:, None]
    x = np.broadcast_to(z.astype(np.float32), (len(z), CHANNELS))
    np.testing.assert_array_equal(values(linear, chain, 1.0, z), by_onnx_runtime(chain, np.ascontiguousarray(x)))


def stage(chain: Sequence[Pointwise], rounding: Any = "float32", sign: Sign | Threshold | None = None) -> Stage:
    linear = Dense("fc", "input", np.ones((CHANNELS, 5), np.int8), None)
    return Stage(linear, tuple(chain), sign or Sign("sign", ""), rounding)


ONES = np.ones(CHANNELS)
# 3 x float32(0.1) is 1.5e-8 less than float32(0.3), but float32 rounds it to that.
TIE = [
    Scale("scale", "", ONES * float(np.float32(0.1)), np.ones(1)),
    Shift("shift", "", -ONES * float(np.float32(0.3))),
]


def test_thresholds_move_to_where_float32_decides() -> None:
    z = reachable(stage(TIE).linear, -5, 5, True)[:, None]
    plus = decides(stage(TIE), 1.0, z)
    assert plus[:, 0].tolist() == [False, False, False, False, True, True]
    for rounding, alike in (("exact", False), ("float32", True)):
        rule = folded(stage(TIE, rounding), bits((5,)), True)
        assert np.array_equal(z >= rule.threshold, plus) == alike


@pytest.mark.parametrize("seed", range(12))
def test_moved_thresholds_decide_as_float32_does_on_every_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inverted = rng.random(CHANNELS) < 0.5
    sign = Threshold("at", "", np.zeros(CHANNELS), inverted)
    held = stage([*steps(seed), *([] if seed % 2 else TIE)], sign=sign)
    rule = folded(held, bits((5,)), True)
    z = reachable(held.linear, -5, 5, True)[:, None]
    assert np.array_equal((np.where(rule.flip, -z, z) >= rule.threshold) != rule.inverted, decides(held, 1.0, z))


def test_thresholds_stay_where_both_decide_alike() -> None:
    chain = [Shift("shift", "", 0.5 * ONES)]
    exact, single = (folded(stage(chain, rounding), bits((5,)), True) for rounding in ("exact", "float32"))
    assert exact.threshold.tolist() == single.threshold.tolist()


def test_overflow_that_no_threshold_decides_is_refused_by_layer_and_channel() -> None:
    factor = ONES.copy()
    factor[3] = float(np.float32(3e38))
    chain = [Scale("large", "", factor, np.ones(1)), Scale("zero", "", np.where(factor > 1, 0.0, 1.0), np.ones(1))]
    with pytest.raises(BlrcError, match="layer 'fc': float32 decides channel 3 by more than one threshold"):
        folded(stage(chain), bits((5,)), True)


def test_estimated_statistics_have_no_float32() -> None:
    norm = Norm("norm", "", ONES, ONES, 1e-5, Sums(4, (2,) * CHANNELS, (4,) * CHANNELS))
    with pytest.raises(BlrcError, match="layer 'norm': --rounding float32 means the network as it was saved"):
        folded(stage([norm]), bits((5,)), True)
