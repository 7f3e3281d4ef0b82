"""Each op in ONNX Runtime against the reference, and the corners of the number ranges."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_agreement import KINDS, assert_agrees, emitted, one_layer
from random_programs import random_inputs, random_program

from blrc.errors import BlrcError
from blrc.net.bits import pack_signs, words
from blrc.program import reference
from blrc.program.legal import check
from blrc.program.program import Constant, Encode, Pool, Program, Scores, Value, Window
from blrc.targets.onnx.session import OnnxRun, run_op

SEEDS = range(48)
BY_DAY = range(12)


def agree(program: Program, count: int = 9) -> None:
    assert_agrees(program, OnnxRun(emitted(program), program), random_inputs(program, count))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed in BY_DAY else [pytest.mark.nightly]) for seed in SEEDS]
)
def test_random_programs_agree_bit_for_bit(seed: int, kind: str) -> None:
    program = random_program(seed, kind)
    assert_agrees(program, OnnxRun(emitted(program), program), random_inputs(program, 7, seed))


def test_the_random_programs_reach_every_form() -> None:
    programs = [random_program(seed, kind) for seed in BY_DAY for kind in KINDS]
    kinds = {node.op_type for p in programs for node in onnx.load_from_string(emitted(p)).graph.node}
    assert {"QLinearConv", "MatMulInteger", "MaxPool", "Gather", "Unsqueeze", "Flatten", "Mul"} <= kinds
    bits = [reference.run(p, random_inputs(p, 7)) for p in programs]
    alive = [v.any() and not v.all() for values in bits for v in values.values() if v.dtype == bool]
    assert sum(alive) > 0.8 * len(alive)


@pytest.mark.parametrize("count", [1, 3, 17])
@pytest.mark.parametrize("kind", KINDS)
def test_any_batch(count: int, kind: str) -> None:
    program = random_program(7, kind, (8, 9, 4))
    agree(program, count)


def random_layer(
    kind: str,
    shape: tuple[int, int, int],
    out: int,
    window: Window,
    groups: int = 1,
    pool: Window | None = None,
) -> Program:
    rng = np.random.default_rng(out)
    x = Value("input", kind, shape)  # type: ignore[arg-type]
    weights = pack_signs(rng.integers(0, 2, (out, *window.kernel, shape[2] // groups)) * 2 - 1)
    n = window.taps * shape[2] // groups
    reach = n if kind == "bits" else 40 * n
    thresholds = rng.integers(-reach // 4, reach // 4 + 1, out).astype(np.int32)
    return one_layer(x, window, weights, thresholds, groups, pool)


@pytest.mark.parametrize("kind", ["int8", "bits"])
@pytest.mark.parametrize(
    ("shape", "out", "window", "groups"),
    [
        ((9, 9, 8), 8, Window((3, 3), padding=(1, 1, 1, 1)), 8),  # depthwise
        ((9, 9, 8), 24, Window((3, 3), padding=(1, 1, 1, 1)), 8),  # depthwise with a multiplier
        ((9, 8, 16), 16, Window((3, 3), padding=(2, 2, 2, 2), dilation=(2, 2)), 16),
        ((9, 8, 6), 4, Window((3, 2), (2, 1), (2, 0, 1, 3), (2, 3)), 2),
        ((5, 5, 32), 33, Window((3, 3), padding=(4, 4, 4, 4)), 1),  # windows wholly in the padding
        ((4, 4, 3), 5, Window((4, 4), (9, 9), (1, 1, 0, 0)), 1),  # the whole map, but shifted
        ((4, 4, 4), 6, Window((4, 4)), 2),  # the whole map, but in groups
        ((1, 1, 4), 5, Window((3, 3), padding=(1, 1, 1, 1)), 1),
        ((1, 30, 65), 31, Window((1, 5), (1, 2), (0, 2, 0, 2)), 1),  # one-dimensional
        ((7, 7, 64), 65, Window((1, 1)), 1),
    ],
)
def test_convolutions(kind: str, shape: tuple[int, int, int], out: int, window: Window, groups: int) -> None:
    agree(random_layer(kind, shape, out, window, groups))


POOLS = [
    Window((2, 2), (2, 2)),
    Window((3, 3), (2, 2), (1, 1, 1, 1)),
    Window((3, 2), (1, 1), (2, 0, 1, 1)),
    Window((2, 2), (1, 1), (2, 2, 2, 2), (2, 2)),  # padding reaches the kernel's size
    Window((2, 3), (2, 2), (0, 3, 1, 0), (1, 2)),
    Window((7, 5), (7, 5)),
]


@pytest.mark.parametrize("window", POOLS)
def test_pools_in_a_convolution(window: Window) -> None:
    agree(random_layer("bits", (9, 7, 33), 32, Window((3, 3), padding=(0, 0, 1, 1)), pool=window))


@pytest.mark.parametrize("window", POOLS)
def test_pools_alone(window: Window) -> None:
    x = Value("input", "bits", (9, 7, 3))
    pooled = Value("pool.bits", "bits", (*window.output(9, 7), 3))
    weights = np.random.default_rng(0).integers(-128, 128, (2, *pooled.shape)).astype(np.int8)
    scores = Scores("scores", pooled, Value("scores", "int32", (1, 1, 2)), "w", "b")
    constants = {"w": Constant((weights,), (0,)), "b": Constant((np.zeros(2, np.int32),), (0,))}
    program = check(Program(x, (Pool("pool", x, pooled, window), scores), constants, ("map",), 1.0))
    raw = np.random.default_rng(1).random((20, 9, 7, 3)) < 0.15
    assert_agrees(program, OnnxRun(emitted(program), program), raw)


@pytest.mark.parametrize("kernel", [(3, 3), (3, 4)], ids=["convolution", "dense"])
@pytest.mark.parametrize("kind", ["int8", "bits"])
def test_every_threshold_is_met_exactly(kind: str, kernel: tuple[int, int]) -> None:
    """One channel for each threshold, from always to never, in steps that hit sums, and sums +-1."""
    x = Value("input", kind, (3, 4, 5))  # type: ignore[arg-type]
    window = Window(kernel)
    n = window.taps * 5
    low, high = (-n, n) if kind == "bits" else (-128 * n, 128 * n)
    sign = np.random.default_rng(0).choice([-1, 1], (1, *kernel, 5))
    raw = np.repeat((sign > 0) if kind == "bits" else sign * 127, 6, axis=0)
    raw = np.concatenate([raw, np.zeros((6, 3, 4 - kernel[1], 5), raw.dtype)], axis=2)
    raw = raw.astype(bool if kind == "bits" else np.int8)
    raw[1] = ~raw[1]
    raw[2, 0, 0, 0] = ~raw[2, 0, 0, 0]
    probe = one_layer(x, window, pack_signs(sign), np.zeros(1, np.int32))
    sums = probe.ops[0].preactivation(probe, raw)  # type: ignore[arg-type]
    wanted = np.unique(np.concatenate([(sums + d).reshape(-1) for d in (-1, 0, 1)] + [[low, high + 1]]))
    thresholds = np.clip(wanted, low, high + 1).astype(np.int32)
    program = one_layer(x, window, pack_signs(np.repeat(sign, len(thresholds), axis=0)), thresholds)
    assert_agrees(program, OnnxRun(emitted(program), program), raw)


def test_sums_beyond_the_exact_range_of_float32() -> None:
    """QLinearConv rescales in float32, where 2(z - t) + 1 of this size is rounded; its sign must survive."""
    channels = 17000
    window = Window((3, 3))
    n = 9 * channels
    z = 127 * n
    assert z > 2**24
    thresholds = np.array([z - 1, z, z + 1, -z - 1, -z, -z + 1, -128 * n, 128 * n + 1], dtype=np.int32)
    weights = np.broadcast_to(pack_signs(np.ones((1, channels))), (len(thresholds), 3, 3, words(channels)))
    program = one_layer(Value("input", "int8", (3, 4, channels)), window, np.ascontiguousarray(weights), thresholds)
    raw = np.stack([np.full((3, 4, channels), code, np.int8) for code in (127, -127, -128, 0)])
    assert_agrees(program, OnnxRun(emitted(program), program), raw)


@pytest.mark.parametrize("channel_tables", [1, 5])
@pytest.mark.parametrize("size", [(1, 1), (16, 16)])
def test_encode_maps_every_value_in_every_channel(channel_tables: int, size: tuple[int, int]) -> None:
    x, y = Value("input", "uint8", (*size, 5)), Value("codes", "int8", (*size, 5))
    table = np.random.default_rng(0).integers(-128, 128, (channel_tables, 256)).astype(np.int8)
    encode = Encode("encode", x, y, "table")
    program = Program(x, (encode,), {"table": Constant((table,), (0,))}, ("map",), 1.0)
    raw = np.broadcast_to(np.arange(256, dtype=np.uint8).reshape(-1, 1, 1, 1), (256, *size, 5))
    assert np.array_equal(run_op(program, encode, raw), encode.run(program, raw))


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("shape", [(1, 1, 64), (3, 5, 33)])
def test_scores_at_the_ends_of_their_range(dtype: type, shape: tuple[int, int, int]) -> None:
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.max, -1, 0, 1, 255 % info.max, -256 % info.max, 128 % info.max], dtype=dtype)
    weights = np.concatenate(
        [np.broadcast_to(edges.reshape(-1, 1, 1, 1), (8, *shape)), np.random.default_rng(0).choice(edges, (8, *shape))]
    )
    x = Value("input", "bits", shape)
    scores = Scores("scores", x, Value("scores", "int32", (1, 1, 16)), "w", "b")
    bias = np.arange(-8, 8).astype(np.int32) * 1000003
    constants = {"w": Constant((np.ascontiguousarray(weights),), (0,)), "b": Constant((bias,), (0,))}
    agree(check(Program(x, (scores,), constants, ("map",), 1.0)), 40)


def test_a_tie_goes_to_the_first_class() -> None:
    x = Value("input", "bits", (1, 1, 4))
    scores = Scores("scores", x, Value("scores", "int32", (1, 1, 4)), "w", "b")
    weights = np.array([0, 1, 1, 1], dtype=np.int8).reshape(4, 1, 1, 1) * np.ones((1, 1, 1, 4), np.int8)
    constants = {"w": Constant((weights,), (0,)), "b": Constant((np.zeros(4, np.int32),), (0,))}
    program = check(Program(x, (scores,), constants, ("map",), 1.0))
    raw = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=bool).reshape(3, 1, 1, 4)
    answer, _ = OnnxRun(emitted(program), program).classify(raw)
    assert answer.label.tolist() == [1, 0, 0]


def test_sums_that_may_leave_int32_are_refused_by_name() -> None:
    channels = 2_900_000
    window = Window((2, 1), padding=(1, 0, 0, 0))
    weights = pack_signs(np.ones((1, 2, 1, channels), np.int8))
    program = one_layer(Value("input", "int8", (2, 1, channels)), window, weights, np.zeros(1, np.int32))
    with pytest.raises(BlrcError, match=r"target onnx: layer 'conv': its sums may not fit int32"):
        emitted(program)
