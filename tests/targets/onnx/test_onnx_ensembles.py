"""Ensembles in one file: every member's values, the answer, and what members share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from by_night import first
from onnx_agreement import KINDS, assert_agrees, difference, emitted, options
from random_programs import gated, random_inputs, random_program, top_probability

from blrc.errors import BlrcError
from blrc.program import reference
from blrc.program.legal import check
from blrc.program.program import BinaryScores, Constant, Conv, Program
from blrc.targets.onnx.emit import emit
from blrc.targets.onnx.session import OnnxRun, here, instrumented, run_op
from blrc.targets.onnx.tensors import tensor_name


def shared(program: Program, names: Iterable[str], of_member: tuple[int, ...]) -> Program:
    """The program with constants `names` of which members use the tables `of_member`, numbered from 0."""
    changed = {}
    for name in names:
        constant = program.constants[name]
        count = min(len(constant.tables), max(of_member) + 1)  # some constants are alike in all members anyway
        changed[name] = Constant(constant.tables[:count], tuple(min(k, count - 1) for k in of_member))
    return check(replace(program, constants={**program.constants, **changed}))


def first_members(program: Program, members: int) -> Program:
    """The program of the first so many members."""
    constants = {
        name: Constant(constant.tables[: max(constant.of_member[:members]) + 1], constant.of_member[:members])
        for name, constant in program.constants.items()
    }
    return check(replace(program, members=program.members[:members], constants=constants))


def prefix(program: Program, ops: int) -> list[str]:
    return [name for op in program.ops[:ops] for name in op.constants]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("members", [2, 5])
@pytest.mark.parametrize("seed", first(1, range(300, 306)))
def test_every_member_agrees_bit_for_bit(seed: int, members: int, kind: str) -> None:
    program = random_program(seed, kind, members=members)
    assert_agrees(program, OnnxRun(emitted(program), program), random_inputs(program, 7, seed))


@pytest.mark.parametrize("kind", KINDS)
def test_a_gated_ensemble_agrees(kind: str) -> None:
    program = random_program(300, kind, members=3)
    raw = random_inputs(program, 30)
    gate = int(np.median(top_probability(program, raw)))
    program = gated(program, gate)
    assert set(reference.answer(program, raw).members.tolist()) == {1, 3}
    assert_agrees(program, OnnxRun(emitted(program), program, batch=7), raw)
    metadata = {each.key: each.value for each in onnx.load_from_string(emitted(program)).metadata_props}
    assert metadata["blrc.gate"] == str(gate)


@pytest.mark.parametrize("kind", first(1, KINDS))
@pytest.mark.parametrize("members", first(1, [2, 5]))
def test_the_oldest_runtime_agrees(members: int, kind: str, ort117_python: Path) -> None:
    program = random_program(members, kind, members=members)
    assert_agrees(program, OnnxRun(emitted(program), program, python=ort117_python), random_inputs(program, 17))


@pytest.mark.parametrize("threads", [0, 2])
def test_batches_and_threads_change_nothing(threads: int) -> None:
    program = random_program(3, "uint8", (9, 7, 3), members=3)
    raw = random_inputs(program, 11)
    assert_agrees(program, OnnxRun(emitted(program), program, threads, batch=4), raw)
    found = here(threads, 4)(emitted(program), {"input": raw.transpose(0, 3, 1, 2)})
    assert found["members"].tolist() == [3] * 11
    assert found["scores"].shape == (11, 3, program.classes)


def test_the_random_members_differ() -> None:
    """Otherwise the tests above would not see members that are mixed up."""
    program = random_program(300, "uint8", members=5)
    answer, scores = OnnxRun(emitted(program), program).classify(random_inputs(program, 7))
    assert all((scores[:, a] != scores[:, b]).any() for a in range(5) for b in range(a))
    assert (answer.variance > 0).any()


@pytest.mark.parametrize("kind", first(1, KINDS))
@pytest.mark.parametrize("of_member", first(2, [(0, 1, 0), (0, 1, 1), (0, 0, 1), (0, 0, 0)]))
@pytest.mark.parametrize("ops", [1, 2, 3, 99])
def test_members_that_share_layers_agree(ops: int, of_member: tuple[int, ...], kind: str) -> None:
    program = random_program(8, kind, (6, 6, 5), members=3)
    program = shared(program, prefix(program, ops), of_member)
    assert_agrees(program, OnnxRun(emitted(program), program), random_inputs(program, 5))


def test_shared_weights_behind_layers_that_differ_agree() -> None:
    """Equal tables, but other inputs: stored once, computed for each member."""
    program = random_program(8, "uint8", (6, 6, 5), members=3)
    last = list(program.ops[2].constants)
    program = shared(program, last, (0, 0, 0))
    assert_agrees(program, OnnxRun(emitted(program), program), random_inputs(program, 5))
    graph = onnx.load_from_string(emitted(program)).graph
    assert sum(tensor.name.startswith(f"{last[0]}/") for tensor in graph.initializer) == 1
    assert {f"m{k}/{program.ops[2].y.name}" for k in range(3)} <= {n for node in graph.node for n in node.output}


def test_what_all_members_share_is_stored_and_computed_once() -> None:
    members = 9
    program = random_program(8, "uint8", (6, 6, 5), members=members)
    one = first_members(program, 1)
    alike = shared(program, program.constants, (0,) * members)
    about = [emit(each, options()).about for each in (one, program, alike)]
    nodes = [[layer["nodes"] for layer in each["layers"]] for each in about]  # type: ignore[attr-defined]
    # The input's table is the same in all members of random programs; those of convolutions differ.
    assert nodes[2] == nodes[0]
    assert nodes[1] == [nodes[0][0], *(members * kinds for kinds in nodes[0][1:])]
    weights = [[layer["bytes"] for layer in each["layers"]] for each in about]  # type: ignore[attr-defined]
    assert weights[2] == weights[0]
    for op, own, every in zip(program.ops, weights[0], weights[1], strict=True):
        more = 0
        if isinstance(op, Conv):
            more += (len(program.constants[op.weights].tables) - 1) * op.y.shape[2] * op.fan_in
            more += (len(program.constants[op.thresholds].tables) - 1) * op.y.shape[2] * 4
            assert more > 0
        if isinstance(op, BinaryScores):  # a weight is a byte here
            more += (len(program.constants[op.weights].tables) - 1) * op.macs
            more += (len(program.constants[op.multiplier].tables) - 1) * op.y.shape[2] * 4
            assert more > 0
        assert every == own + more
    growth = len(emitted(alike)) - len(emitted(first_members(alike, 2)))
    assert growth < 40 * (members - 2)  # names in the list of stacked scores and in the metadata


def test_names_of_tensors() -> None:
    program = random_program(8, "uint8", (6, 6, 5), members=3)
    first, second = program.ops[1], program.ops[2]
    program = shared(program, second.constants, (0, 1, 0))
    mixed = shared(program, first.constants, (0, 0, 0))
    names = [[tensor_name(mixed, op.y, k) for op in mixed.ops[:3]] for k in range(3)]
    assert names[0] == ["codes", first.y.name, f"m0/{second.y.name}"]
    assert names[1] == ["codes", first.y.name, f"m1/{second.y.name}"]
    assert names[2] == names[0]
    assert [tensor_name(mixed, mixed.input, k) for k in range(3)] == ["input"] * 3
    alike = shared(program, program.constants, (0, 0, 0))
    assert tensor_name(alike, alike.output, 2) == "m0/scores"  # `scores` itself is the stack
    assert tensor_name(random_program(8, "uint8"), random_program(8, "uint8").output) == "scores"


def test_instrumented_copies_hold_one_member_each() -> None:
    program = random_program(8, "bits", (6, 6, 5), members=4)
    model = emitted(program)
    for member in range(4):
        copy = onnx.load_from_string(instrumented(model, program, member))
        onnx.checker.check_model(copy, full_check=True)
        names = [tensor_name(program, op.y, member) for op in program.ops]
        assert [output.name for output in copy.graph.output] == names
        others = {tensor_name(program, program.ops[0].y, k) for k in range(4)} - {names[0]}
        assert not others & {name for node in copy.graph.node for name in node.output}
        whole = {node.name: node for node in onnx.load_from_string(model).graph.node}
        assert all(node == whole[node.name] for node in copy.graph.node)


@pytest.mark.parametrize("kind", KINDS)
def test_each_op_alone_agrees_for_each_member(kind: str) -> None:
    program = random_program(5, kind, members=3)
    for member in range(3):
        values = reference.run(program, random_inputs(program, 5), member)
        for op in program.ops:
            got = run_op(program, op, values[op.x.name], member=member)
            message = difference(program, op, values[op.y.name], got, values[op.x.name], member)
            assert not message, message


def test_a_flipped_threshold_of_one_member_is_seen_in_that_member() -> None:
    program = random_program(3, "uint8", (9, 7, 3), members=3)
    model = onnx.load_from_string(emitted(program))
    name = f"{program.ops[1].thresholds}/1/bias"  # type: ignore[union-attr]
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    bias.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(bias), name))
    run = OnnxRun(model.SerializeToString(), program)
    with pytest.raises(AssertionError, match=r"member 1: op 'conv0', "):
        assert_agrees(program, run, random_inputs(program, 7))


def test_a_file_with_fewer_members_is_refused() -> None:
    two, three = (random_program(3, "bits", (9, 7, 3), members=m) for m in (2, 3))
    with pytest.raises(BlrcError, match=r"has no tensor 'm2/conv0.bits': it is of another program"):
        instrumented(emitted(two), three, member=2)
