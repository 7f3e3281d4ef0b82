"""The maps for threshold edges hold what they promise: sums just below, at and just above, counted again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from by_night import first
from fake_engines import recount
from numpy.typing import NDArray
from random_programs import random_program

from blrc.net.bits import pack_signs
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Encode, Program, Scores, Value, Window
from blrc.verification.inputs import edges as module
from blrc.verification.inputs.edges import EdgeMaps, edge_maps


def all_edges(program: Program, op: Conv, member: int = 0, seed: int = 0) -> EdgeMaps:
    """All maps of an op, which come some at a time, in one."""
    parts = list(edge_maps(program, op, member, seed))
    maps = np.concatenate([part.maps for part in parts])
    return EdgeMaps(maps, sum(part.wanted for part in parts), sum(part.reached for part in parts))


def peaks(program: Program, op: Conv, maps: NDArray[Any]) -> NDArray[Any]:
    """The sum that decides each output, (N, H, W, C): the largest of its pooling window."""
    z = op.preactivation(program, codes(program, op, maps)).astype(np.int64)
    if op.pool is None:
        return z
    result = np.empty((len(z), *op.y.shape), np.int64)
    pool = op.pool
    for y in range(op.y.shape[0]):
        for x in range(op.y.shape[1]):
            rows = [y * pool.stride[0] - pool.padding[0] + k * pool.dilation[0] for k in range(pool.kernel[0])]
            columns = [x * pool.stride[1] - pool.padding[1] + k * pool.dilation[1] for k in range(pool.kernel[1])]
            rows = [i for i in rows if 0 <= i < z.shape[1]]
            columns = [i for i in columns if 0 <= i < z.shape[2]]
            result[:, y, x] = z[:, rows][:, :, columns].max(axis=(1, 2))
    return result


def codes(program: Program, op: Conv, maps: NDArray[Any]) -> NDArray[Any]:
    for other in program.ops:
        if isinstance(other, Encode) and other.y == op.x:
            return other.run(program, maps)
    return maps


def count_edges(program: Program, op: Conv, edges: EdgeMaps) -> tuple[int, int]:
    """(edges that exist in the maps, edges there are), by the definition."""
    z = peaks(program, op, edges.maps)
    low, high = program.bounds(op)
    there = wanted = 0
    for channel, t in enumerate(program.constant(op.thresholds).astype(np.int64)):
        if not low < t <= high:
            continue
        seen = set(np.unique(z[..., channel]).tolist())
        # Sums of bits go in steps of two: where the goal has the wrong parity the next one is the edge.
        spare = 1 if op.x.dtype == "bits" else 0
        for goals in ({t - 1, t - 1 - spare}, {t, t + spare}, {t + 1, t + 1 + spare}):
            wanted += 1
            there += bool(seen & goals)
    return there, wanted


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
@pytest.mark.parametrize("seed", first(2, range(5)))
def test_random_programs(seed: int, kind: str) -> None:
    program = random_program(seed, kind)
    for op in program.ops:
        if isinstance(op, Conv):
            edges = all_edges(program, op, seed=seed)
            there, wanted = count_edges(program, op, edges)
            assert edges.wanted == wanted
            assert there >= edges.reached
            assert edges.maps.shape[1:] == op.x.shape
            fed_raw = any(isinstance(other, Encode) and other.y == op.x for other in program.ops)
            assert edges.maps.dtype == (np.uint8 if fed_raw else {"bits": np.bool_, "int8": np.int8}[op.x.dtype])


def one_conv(
    shape: tuple[int, int, int], outputs: int, window: Window, groups: int, pool: Window | None, kind: str
) -> Program:
    """A convolution whose thresholds lie within what its sums often are, and scores behind it."""
    rng = np.random.default_rng(7)
    x = at = Value("input", kind, shape)  # type: ignore[arg-type]
    ops: list[Any] = []
    constants: dict[str, NDArray[Any]] = {}
    if kind == "uint8":
        at = Value("codes", "int8", shape)
        ops.append(Encode("encode", x, at, "table"))
        constants["table"] = rng.integers(-127, 128, (shape[2], 256)).astype(np.int8)
    size = window.output(*shape[:2])
    out = Value("out", "bits", (*(size if pool is None else pool.output(*size)), outputs))
    conv = Conv("conv", at, out, "weights", "thresholds", window, groups, pool)
    n = conv.fan_in
    constants["weights"] = pack_signs(rng.integers(0, 2, (outputs, *window.kernel, conv.group_channels)) * 2 - 1)
    spread = int(n**0.5) * (1 if kind == "bits" else 60)
    constants["thresholds"] = rng.integers(-spread, spread + 1, outputs).astype(np.int32)
    scores = Scores("scores", out, Value("scores", "int32", (1, 1, 3)), "w", "b")
    constants["w"] = rng.integers(-9, 10, (3, *out.shape)).astype(np.int8)
    constants["b"] = np.zeros(3, np.int32)
    return check(
        Program(x, (*ops, conv, scores), {k: Constant((v,), (0,)) for k, v in constants.items()}, ("map",), 1.0)
    )


GEOMETRIES = {
    "plain": ((7, 6, 32), 5, Window((3, 3)), 1, None),
    "same": ((6, 7, 33), 5, Window((3, 3), padding=(1, 1, 1, 1)), 1, None),
    "stride": ((9, 9, 16), 5, Window((3, 3), (2, 2), (1, 1, 1, 1)), 1, None),
    "dilation": ((9, 9, 16), 5, Window((3, 3), (1, 1), (2, 2, 2, 2), (2, 2)), 1, None),
    "groups": ((6, 6, 24), 6, Window((3, 3), padding=(1, 1, 1, 1)), 3, None),
    "pool": ((8, 8, 31), 5, Window((3, 3), padding=(1, 1, 1, 1)), 1, Window((2, 2), (2, 2))),
    "pool 3, stride 2": ((9, 9, 17), 5, Window((3, 3), padding=(1, 1, 1, 1)), 1, Window((3, 3), (2, 2), (1, 1, 1, 1))),
    "dense": ((3, 4, 9), 8, Window((3, 4)), 1, None),
    "one pixel, wide": ((1, 1, 300), 8, Window((1, 1)), 1, None),
}


@pytest.mark.parametrize("kind", first(1, ["bits", "int8", "uint8"]))
@pytest.mark.parametrize("name", GEOMETRIES)
def test_nearly_every_edge_is_reached(name: str, kind: str) -> None:
    program = one_conv(*GEOMETRIES[name], kind)
    op = next(op for op in program.ops if isinstance(op, Conv))
    edges = all_edges(program, op, seed=1)
    there, wanted = count_edges(program, op, edges)
    assert edges.wanted == wanted == 3 * op.y.shape[2]
    assert edges.reached <= there
    assert edges.reached >= 0.9 * wanted
    # The sums of this test are the reference's; here is one more opinion, tap by tap.
    z = peaks(program, op, edges.maps)
    y, x, c = op.y.shape[0] - 1, op.y.shape[1] // 2, op.y.shape[2] - 1
    assert recount(program, op, codes(program, op, edges.maps)[0], (y, x), c) == z[0, y, x, c]


def test_edges_lie_at_borders_too() -> None:
    program = one_conv((6, 6, 32), 40, Window((3, 3), padding=(1, 1, 1, 1)), 1, None, "bits")
    op = program.ops[0]
    assert isinstance(op, Conv)
    z = peaks(program, op, all_edges(program, op).maps)
    near = np.abs(z - program.constant(op.thresholds)) <= 1
    for border in (near[:, 0], near[:, -1], near[:, :, 0], near[:, :, -1], near[:, 2:4, 2:4]):
        assert border.any()


def test_the_same_maps_for_the_same_seed() -> None:
    program = one_conv(*GEOMETRIES["pool"], "bits")
    op = program.ops[0]
    assert isinstance(op, Conv)
    first, again, other = (all_edges(program, op, seed=s).maps for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_always_and_never_have_no_edge() -> None:
    program = one_conv((1, 1, 40), 3, Window((1, 1)), 1, None, "bits")
    low, high = program.bounds(program.ops[0])  # type: ignore[arg-type]
    assert (low, high) == (-40, 40)
    constants = dict(program.constants)
    constants["thresholds"] = Constant((np.array([low, high + 1, high], np.int32),), (0,))
    program = check(Program(program.input, program.ops, constants, program.members, 1.0))
    edges = all_edges(program, program.ops[0])  # type: ignore[arg-type]
    # high is reached, and just below it; nothing is above.
    assert (edges.reached, edges.wanted) == (2, 3)


def test_regression_places_that_see_padding_only() -> None:
    """With a map one pixel high and wide padding whole grids of places see no input; that was an assertion error."""
    window = Window((2, 1), padding=(4, 0, 4, 0), dilation=(3, 1))
    program = one_conv((1, 5, 16), 30, window, 1, None, "bits")
    op = program.ops[0]
    assert isinstance(op, Conv)
    edges = [all_edges(program, op, seed=seed) for seed in range(5)]
    assert all(count_edges(program, op, e)[0] >= e.reached > 0 for e in edges)


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
def test_maps_that_come_some_at_a_time_are_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(1, kind, (5, 4, 3))
    op = next(op for op in program.ops if isinstance(op, Conv))
    whole = all_edges(program, op)
    monkeypatch.setattr(module, "AT_ONCE", int(np.prod(op.x.shape)))
    parts = list(edge_maps(program, op))
    assert len(parts) == len(whole.maps) > 1
    assert np.array_equal(np.concatenate([part.maps for part in parts]), whole.maps)
    assert (all_edges(program, op).wanted, all_edges(program, op).reached) == (whole.wanted, whole.reached)


def test_sums_that_see_too_much_are_not_steered(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(3, "bits")
    op = next(op for op in program.ops if isinstance(op, Conv))
    monkeypatch.setattr(module, "MOST_SEEN", 1)
    (edges,) = edge_maps(program, op)
    assert len(edges.maps) == 0 and edges.reached == 0 and edges.wanted > 0
