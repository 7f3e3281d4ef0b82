"""`check` accepts every random program and refuses each broken rule, by mutation; each refusal names the op."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from random_programs import gated, random_inputs, random_program

from blrc.errors import BlrcError
from blrc.net.bits import pack_signs, words
from blrc.program import reference
from blrc.program.legal import check
from blrc.program.program import (
    BinaryScores,
    Constant,
    Conv,
    Encode,
    Op,
    Pool,
    Program,
    Scores,
    Value,
    Window,
)

KINDS = ("uint8", "int8", "bits")


def net() -> Program:
    """encode -> conv (pooled) -> pool -> dense -> scores, with a tail in every packed word, for two members."""
    rng = np.random.default_rng(0)
    raw, codes = Value("input", "uint8", (6, 8, 2)), Value("codes", "int8", (6, 8, 2))
    bits1, bits2 = Value("conv.bits", "bits", (3, 4, 6)), Value("pool.bits", "bits", (2, 2, 6))
    bits3, out = Value("dense.bits", "bits", (1, 1, 5)), Value("scores", "int32", (1, 1, 3))
    same, halve = Window((3, 3), padding=(1, 1, 1, 1)), Window((2, 2), (2, 2))
    ops: tuple[Op, ...] = (
        Encode("encode", raw, codes, "table"),
        Conv("conv", codes, bits1, "conv.w", "conv.t", same, 2, halve),
        Pool("pool", bits1, bits2, Window((2, 2), (2, 2), (0, 0, 1, 0))),
        Conv("dense", bits2, bits3, "dense.w", "dense.t", Window((2, 2))),
        Scores("scores", bits3, out, "scores.w", "scores.b"),
    )

    def signs(*shape: int) -> NDArray[np.uint32]:
        return pack_signs(rng.choice([-1, 1], shape))

    constants = {
        "table": one(rng.integers(-127, 128, (2, 256)).astype(np.int8)),
        "conv.w": Constant((signs(6, 3, 3, 1), signs(6, 3, 3, 1)), (0, 1)),
        "conv.t": one(rng.integers(-99, 99, 6).astype(np.int32)),
        "dense.w": Constant((signs(5, 2, 2, 6), signs(5, 2, 2, 6)), (1, 0)),
        "dense.t": one(rng.integers(-9, 9, 5).astype(np.int32)),
        "scores.w": one(rng.integers(-127, 128, (3, 1, 1, 5)).astype(np.int8)),
        "scores.b": one(np.array([1, -2, 3], np.int32)),
    }
    return Program(raw, ops, constants, ("sample 0:0", "sample 0:1"), 0.25)


def one(table: NDArray[Any]) -> Constant:
    return Constant((table,), (0, 0))


def op(index: int, **changes: Any) -> Callable[[Program], Program]:
    """Change fields of one op."""

    def change(program: Program) -> Program:
        ops = list(program.ops)
        ops[index] = replace(ops[index], **changes)
        return replace(program, ops=tuple(ops))

    return change


def constant(name: str, edit: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[Program], Program]:
    """Edit all tables of one constant."""

    def change(program: Program) -> Program:
        old = program.constants[name]
        edited = Constant(tuple(edit(table.copy()) for table in old.tables), old.of_member)
        return replace(program, constants={**program.constants, name: edited})

    return change


def element(name: str, at: tuple[int, ...], number: int) -> Callable[[Program], Program]:
    def edit(table: NDArray[Any]) -> NDArray[Any]:
        table[at] = number
        return table

    return constant(name, edit)


def tables(name: str, *of_member: int, drop: int = 0) -> Callable[[Program], Program]:
    def change(program: Program) -> Program:
        old = program.constants[name]
        kept = old.tables[: len(old.tables) - drop]
        return replace(program, constants={**program.constants, name: Constant(kept, of_member)})

    return change


def both(*changes: Callable[[Program], Program]) -> Callable[[Program], Program]:
    def change(program: Program) -> Program:
        for one_change in changes:
            program = one_change(program)
        return program

    return change


def mixed_types(program: Program) -> Program:
    weights = program.constants["conv.w"].tables
    mixed = Constant((weights[0], weights[1].astype(np.int64)), (0, 1))
    return replace(program, constants={**program.constants, "conv.w": mixed})


CODES, BITS1 = Value("codes", "int8", (6, 8, 2)), Value("conv.bits", "bits", (3, 4, 6))
LOW, HIGH = -9 * 127, 9 * 127

MUTATIONS: dict[str, tuple[Callable[[Program], Program], str]] = {
    "no members": (lambda p: replace(p, members=()), "program: it has no members"),
    "no ops": (lambda p: replace(p, ops=()), "program: the last op must be the scores"),
    "no scores": (lambda p: replace(p, ops=p.ops[:-1]), "program: the last op must be the scores"),
    "scale 0": (lambda p: replace(p, score_scale=0.0), "program: score_scale 0.0 must be finite and at least"),
    "scale nan": (lambda p: replace(p, score_scale=math.nan), "program: score_scale nan must be finite"),
    "scale inf": (lambda p: replace(p, score_scale=math.inf), "program: score_scale inf must be finite"),
    "scores twice": (lambda p: replace(p, ops=(*p.ops, replace(p.ops[-1], name="more"))), "op 'scores': scores must"),
    "name twice": (op(2, name="conv"), "op 'conv': its name is used twice"),
    "unknown input": (op(1, x=replace(CODES, name="nothing")), "op 'conv': its input 'nothing' is not a value"),
    "input of another shape": (op(1, x=replace(CODES, shape=(6, 7, 2))), "op 'conv': its input 'codes' is not a value"),
    "input of another type": (op(2, x=replace(BITS1, dtype="int8")), "op 'pool': its input 'conv.bits' is not a value"),
    "output twice": (op(1, y=replace(BITS1, name="codes")), "op 'conv': its output 'codes' is defined twice"),
    "empty map": (op(1, y=replace(BITS1, shape=(0, 4, 6))), "op 'conv': empty map"),
    "wrong order": (lambda p: replace(p, ops=(p.ops[1], p.ops[0], *p.ops[2:])), "op 'conv': its input 'codes'"),
    "missing constant": (op(1, weights="gone"), "op 'conv': constant 'gone' is missing"),
    "unused constant": (
        lambda p: replace(p, constants={**p.constants, "extra": p.constants["table"]}),
        r"program: constants \['extra'\] are not used",
    ),
    "a member without": (tables("conv.w", 0), "op 'conv': constant 'conv.w' is not given for every member"),
    "an unused table": (tables("conv.w", 0, 0), "op 'conv': constant 'conv.w' has unused or missing tables"),
    "a missing table": (tables("conv.w", 0, 1, drop=1), "op 'conv': constant 'conv.w' has unused or missing tables"),
    "mixed types": (mixed_types, "op 'conv': constant 'conv.w' differs in type or shape between members"),
    "encode of codes": (
        both(lambda p: replace(p, input=replace(p.input, dtype="int8")), op(0, x=Value("input", "int8", (6, 8, 2)))),
        "op 'encode': encode takes uint8 and gives int8",
    ),
    "encode to bits": (op(0, y=replace(CODES, dtype="bits")), "op 'encode': encode takes uint8 and gives int8"),
    "encode reshapes": (op(0, y=replace(CODES, shape=(8, 6, 2))), "op 'encode': encode must keep the shape"),
    "tables for 3 channels": (
        constant("table", lambda t: np.concatenate([t, t[:1]])),
        "op 'encode': its table has 3 rows for 2 channels",
    ),
    "short table": (constant("table", lambda t: t[:, :255]), r"op 'encode': constant 'table' is int8 \(2, 255\)"),
    "unsigned table": (constant("table", lambda t: t.astype(np.uint8)), "op 'encode': constant 'table' is uint8"),
    "conv gives int8": (
        op(1, y=replace(BITS1, dtype="int8")),
        "op 'conv': takes bits, int8 or codes and gives",
    ),
    "groups 0": (op(1, groups=0), "op 'conv': channels not divisible by groups"),
    "3 groups of 2 channels": (op(1, groups=3), "op 'conv': channels not divisible by groups"),
    "stride 0": (op(1, window=Window((3, 3), (0, 1), (1, 1, 1, 1))), "op 'conv': bad window"),
    "dilation 0": (op(1, window=Window((3, 3), (1, 1), (1, 1, 1, 1), (1, 0))), "op 'conv': bad window"),
    "kernel 0": (op(1, window=Window((3, 0))), "op 'conv': bad window"),
    "negative padding": (op(1, window=Window((3, 3), padding=(1, -1, 1, 1))), "op 'conv': bad window"),
    "kernel too large": (op(1, window=Window((9, 3))), r"op 'conv': kernel \(9, 3\) does not fit a map of 6 x 8"),
    "wrong output": (
        op(3, y=Value("dense.bits", "bits", (2, 1, 5))),
        r"op 'dense': output shape \(2, 1, 5\), expected",
    ),
    "wrong pooled output": (op(1, pool=Window((3, 3), (1, 1))), "op 'conv': pooled shape"),
    "pool in padding": (op(1, pool=Window((2, 2), (2, 2), (2, 0, 0, 0))), "op 'conv': a pooling window may not lie"),
    "pool in padding, alone": (
        op(2, window=Window((2, 2), (2, 2), (0, 0, 0, 2))),
        "op 'pool': a pooling window may not",
    ),
    "pool stride 0": (op(1, pool=Window((2, 2), (0, 2))), "op 'conv': bad window"),
    "pool of the wrong size": (op(2, window=Window((2, 2), (1, 1))), "op 'pool': pooled shape"),
    "pool gives int8": (op(2, y=Value("pool.bits", "int8", (2, 2, 6))), "op 'pool': max pooling takes bits"),
    "pool gives codes": (
        op(2, y=Value("pool.bits", "codes2", (2, 2, 6))),
        "op 'pool': max pooling takes bits",
    ),
    "weights of another shape": (constant("dense.w", lambda w: w[:, :1]), "op 'dense': constant 'dense.w' is uint32"),
    "weights of another type": (constant("dense.w", lambda w: w.astype(np.int64)), "op 'dense': constant 'dense.w' is"),
    "thresholds int64": (constant("dense.t", lambda t: t.astype(np.int64)), "op 'dense': constant 'dense.t' is int64"),
    "a threshold too few": (constant("dense.t", lambda t: t[:-1]), r"op 'dense': constant 'dense.t' is int32 \(4,\)"),
    "a tail bit": (element("dense.w", (0, 1, 1, 0), 1 << 6), "op 'dense': a tail bit of its weights is set"),
    "threshold below always": (element("dense.t", (2,), -25), r"op 'dense': a threshold lies outside \[-24, 25\]"),
    "threshold above never": (element("dense.t", (2,), 26), r"op 'dense': a threshold lies outside \[-24, 25\]"),
    "scores of int8": (op(4, y=Value("scores", "int8", (1, 1, 3))), "op 'scores': scores take bits or codes and give"),
    "scores as a map": (op(4, y=Value("scores", "int32", (1, 3, 1))), "op 'scores': scores must be a vector"),
    "weights of 4 classes": (constant("scores.w", lambda w: w[:2]), "op 'scores': constant 'scores.w' is int8"),
    "float weights": (
        constant("scores.w", lambda w: w.astype(np.float32)),
        "op 'scores': constant 'scores.w' is float32",
    ),
    "int64 bias": (constant("scores.b", lambda b: b.astype(np.int64)), "op 'scores': constant 'scores.b' is int64"),
    "a bias that overflows": (element("scores.b", (0,), -(2**30)), "op 'scores': scores may overflow int32"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_broken_rule_is_refused_by_name(name: str) -> None:
    mutate, message = MUTATIONS[name]
    with pytest.raises(BlrcError, match=message):
        check(mutate(net()))


def test_the_unbroken_program_is_legal() -> None:
    program = net()
    assert check(program) is program


def binary_net() -> Program:
    """`net` with a binary last layer: 5 inputs, so |multiplier| 5 + |bias| must stay below 2^30 - 1/2."""
    program = net()
    last = program.ops[-1]
    scores = BinaryScores("scores", last.x, last.y, "scores.w", "scores.m", "scores.b")
    constants = {
        **program.constants,
        "scores.w": one(pack_signs(np.random.default_rng(1).choice([-1, 1], (3, 1, 1, 5)))),
        "scores.m": one(np.array([7, -8, 0], np.int32)),
        "scores.b": one(np.array([1, -2, 3], np.int32)),
    }
    return replace(program, ops=(*program.ops[:-1], scores), constants=constants)


BINARY_MUTATIONS: dict[str, tuple[Callable[[Program], Program], str]] = {
    "int8": (op(4, y=Value("scores", "int8", (1, 1, 3))), "op 'scores': scores take bits or codes and give int32"),
    "two classes": (constant("scores.w", lambda w: w[:2]), "op 'scores': constant 'scores.w' is uint32"),
    "two multipliers": (constant("scores.m", lambda m: m[:2]), r"op 'scores': constant 'scores.m' is int32 \(2,\)"),
    "int64 multiplier": (constant("scores.m", lambda m: m.astype(np.int64)), "constant 'scores.m' is int64"),
    "int64 bias": (constant("scores.b", lambda b: b.astype(np.int64)), "constant 'scores.b' is int64"),
    "tail bit": (element("scores.w", (1, 0, 0, 0), 1 << 5), "op 'scores': a tail bit of its weights is set"),
    "overflow": (element("scores.m", (1,), -(2**30) // 5), "op 'scores': scores may overflow int32"),
    "bias": (element("scores.b", (2,), 2**30), "op 'scores': scores may overflow int32"),
    "smallest": (element("scores.b", (2,), -(2**31)), "op 'scores': scores may overflow int32"),
}


@pytest.mark.parametrize("name", BINARY_MUTATIONS)
def test_each_broken_rule_of_binary_scores_is_refused(name: str) -> None:
    mutate, message = BINARY_MUTATIONS[name]
    check(binary_net())
    with pytest.raises(BlrcError, match=message):
        check(mutate(binary_net()))


def test_the_largest_legal_multiplier_reaches_no_further_than_half_of_int32() -> None:
    largest = (2**30 - 1 - 3) // 5
    program = check(element("scores.m", (2,), largest)(binary_net()))
    bits = np.array([[[[True] * 5]], [[[False] * 5]]])
    program = constant("scores.w", lambda w: w | np.uint32(31))(program)
    assert program.ops[-1].run(program, bits)[:, 0, 0, 2].tolist() == [5 * largest + 3, -5 * largest + 3]
    with pytest.raises(BlrcError, match="overflow"):
        check(element("scores.m", (2,), largest + 1)(binary_net()))


@pytest.mark.parametrize(("number", "legal"), [(-24, True), (25, True), (-25, False), (26, False)])
def test_thresholds_reach_from_always_to_never(number: int, legal: bool) -> None:
    program = element("dense.t", (0,), number)(net())
    if legal:
        check(program)
    else:
        with pytest.raises(BlrcError, match="a threshold lies outside"):
            check(program)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_random_programs_are_legal_and_their_sums_stay_in_bounds(seed: int, kind: str, members: int) -> None:
    program = check(random_program(seed, kind, members=members))
    values = reference.run(program, random_inputs(program, 5), members - 1)
    for found in program.ops:
        if isinstance(found, Conv):
            low, high = program.bounds(found)
            z = found.preactivation(program, values[found.x.name], members - 1)
            assert low <= z.min() and z.max() <= high


def test_bounds_are_reached() -> None:
    program = net()
    conv, dense = program.ops[1], program.ops[3]
    assert isinstance(conv, Conv) and isinstance(dense, Conv)
    peak = int(np.abs(program.constant("table").astype(int)).max())
    assert program.bounds(conv) == (-9 * peak, 9 * peak)
    assert program.bounds(dense) == (-24, 24)
    # int8 input has no table to look at, and -128 is a code.
    raw = replace(program, input=CODES, ops=program.ops[1:])
    assert raw.bounds(conv) == (-9 * 128, 9 * 128)


def test_constants_by_member() -> None:
    program = net()
    assert program.constant("dense.w", 0) is program.constants["dense.w"].tables[1]
    assert program.constant("dense.w", 1) is program.constants["dense.w"].tables[0]
    assert program.constants["conv.w"].nbytes == 2 * 6 * 9 * 4
    assert [found.constants for found in program.ops] == [
        ("table",),
        ("conv.w", "conv.t"),
        (),
        ("dense.w", "dense.t"),
        ("scores.w", "scores.b"),
    ]
    assert (program.classes, program.output.name) == (3, "scores")


@pytest.mark.parametrize(
    ("dtype", "channels", "nbytes"),
    [("uint8", 33, 33), ("int8", 33, 33), ("int32", 33, 132), ("bits", 1, 4), ("bits", 32, 4), ("bits", 33, 8)],
)
def test_bytes_of_a_value(dtype: str, channels: int, nbytes: int) -> None:
    assert Value("v", dtype, (2, 3, channels)).nbytes == 6 * nbytes  # type: ignore[arg-type]
    assert words(channels) * 32 >= channels


def test_a_dense_layer_is_a_kernel_as_large_as_the_map() -> None:
    program = net()
    conv, dense = program.ops[1], program.ops[3]
    assert isinstance(conv, Conv) and isinstance(dense, Conv)
    assert (conv.is_dense, dense.is_dense) == (False, True)
    assert (conv.fan_in, dense.fan_in) == (9, 24)
    assert conv.unpooled == (6, 8, 6)


def test_a_window_that_reaches_beyond_int32_is_refused() -> None:
    program = net()
    conv = program.ops[1]
    assert isinstance(conv, Conv)
    for window in (
        replace(conv.window, padding=(30_000, 30_000, 30_000, 30_000)),
        replace(conv.window, padding=(20_000,) * 4, dilation=(19_000, 19_000)),
    ):
        height, width = window.output(*conv.x.shape[:2])
        y = replace(conv.y, shape=(height, width, conv.y.shape[2]))
        broken = replace(program, ops=(program.ops[0], replace(conv, window=window, y=y, pool=None), *program.ops[2:]))
        with pytest.raises(BlrcError, match="reaches too far around its map"):
            check(broken)


@pytest.mark.parametrize("what", ["stride", "dilation", "padding"])
def test_numbers_of_a_window_are_bounded_each(what: str) -> None:
    """The span of a 1 x 1 kernel ignores its dilation, so a bound on the span alone let 2^40 pass."""
    program = net()
    conv = program.ops[1]
    assert isinstance(conv, Conv)
    many = (2**40,) * (4 if what == "padding" else 2)
    broken = replace(conv, window=replace(conv.window, **{"kernel": (1, 1), what: many}), pool=None)  # type: ignore[arg-type]
    with pytest.raises(BlrcError, match=r"bad window .* numbers go up to 32767"):
        check(replace(program, ops=(program.ops[0], broken, *program.ops[2:])))


def test_a_gate_stands_behind_map_and_before_others() -> None:
    program = random_program(1, "bits", (2, 2, 3), layers=1, members=2)
    assert check(gated(program, 65536)).gate == 65536
    with pytest.raises(BlrcError, match="a gate needs map as its first member, and others"):
        check(replace(program, gate=1))
    with pytest.raises(BlrcError, match="a gate needs map as its first member, and others"):
        gated(random_program(1, "bits", (2, 2, 3), layers=1), 1)
    for gate in (-1, 65537, 0.5, True):
        with pytest.raises(BlrcError, match=f"gate {gate!r} must be a whole number from 0 to 65536"):
            check(replace(program, gate=gate))  # type: ignore[arg-type]
