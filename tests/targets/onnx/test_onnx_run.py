"""The runner, in this interpreter and in the one that has the oldest ONNX Runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from by_night import first
from onnx_agreement import KINDS, assert_agrees, assert_answers, difference, emitted
from random_programs import random_inputs, random_program

from blrc.errors import BlrcError
from blrc.program import reference
from blrc.program.program import Value
from blrc.targets.onnx.session import OnnxRun, from_tensor, instrumented, run_op, to_tensor

NET = random_program(3, "uint8", (9, 7, 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first(4, range(200, 212)))
def test_each_op_alone_agrees(seed: int, kind: str) -> None:
    program = random_program(seed, kind)
    values = reference.run(program, random_inputs(program, 5, seed))
    for op in program.ops:
        got = run_op(program, op, values[op.x.name])
        message = difference(program, op, values[op.y.name], got, values[op.x.name])
        assert not message, message


@pytest.mark.parametrize("kind", first(1, KINDS))
@pytest.mark.parametrize("seed", first(1, [0, 1, 2, 5]))
def test_the_oldest_runtime_agrees(seed: int, kind: str, ort117_python: Path) -> None:
    program = random_program(seed, kind, members=1 + seed % 3)
    run = OnnxRun(emitted(program), program, python=ort117_python)
    assert_agrees(program, run, random_inputs(program, 17, seed))


def test_each_op_alone_agrees_in_the_oldest_runtime(ort117_python: Path) -> None:
    values = reference.run(NET, random_inputs(NET, 5))
    for op in NET.ops:
        got = run_op(NET, op, values[op.x.name], python=ort117_python)
        message = difference(NET, op, values[op.y.name], got, values[op.x.name])
        assert not message, message


def test_the_oldest_runtime_is_the_promised_one(ort117_python: Path) -> None:
    code = "import onnxruntime; print(onnxruntime.__version__)"
    done = subprocess.run([str(ort117_python), "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("1.17.")


@pytest.mark.parametrize("threads", [0, 2])
def test_batches_and_threads_change_nothing(threads: int) -> None:
    raw = random_inputs(NET, 11)
    assert_agrees(NET, OnnxRun(emitted(NET), NET, threads=threads, batch=4), raw)


def test_no_samples() -> None:
    raw = random_inputs(NET, 1)
    want = reference.run(NET, raw)
    run = OnnxRun(emitted(NET), NET)
    got = run.run(raw[:0])
    assert {k: (v.dtype, v.shape) for k, v in got.items()} == {k: (v.dtype, (0, *v.shape[1:])) for k, v in want.items()}
    answer, scores = run.classify(raw[:0])
    assert (scores.dtype, scores.shape) == (np.int32, (0, 1, NET.classes))
    assert_answers(answer, reference.answer(NET, raw[:0]))
    conv = NET.ops[1]
    assert run_op(NET, conv, want[conv.x.name][:0]).shape == (0, *conv.y.shape)


@pytest.mark.parametrize("dtype", ["bits", "int8", "uint8"])
@pytest.mark.parametrize("shape", [(1, 1, 5), (2, 3, 5)])
def test_tensors_and_maps_are_inverse(dtype: str, shape: tuple[int, int, int]) -> None:
    value = Value("v", dtype, shape)  # type: ignore[arg-type]
    maps = np.random.default_rng(0).integers(-128, 128, (40, *shape)).astype(np.int8)
    maps = maps > 0 if dtype == "bits" else maps.astype(dtype)
    tensor = to_tensor(value, maps)
    assert tensor.dtype == np.uint8
    assert tensor.shape == ((40, 5) if shape[:2] == (1, 1) else (40, 5, 2, 3))
    back = from_tensor(value, tensor)
    assert back.dtype == maps.dtype and np.array_equal(back, maps)


def test_a_bit_that_is_neither_0_nor_2_is_named() -> None:
    with pytest.raises(BlrcError, match=r"ONNX tensor 'v' holds \[1\], but a bit is 0 or 2"):
        from_tensor(Value("v", "bits", (1, 1, 2)), np.array([[2, 1]], dtype=np.uint8))


def test_a_flipped_weight_is_seen_and_named() -> None:
    model = onnx.load_from_string(emitted(NET))
    node = next(node for node in model.graph.node if node.op_type == "QLinearConv")
    kernel = next(i for i in model.graph.initializer if i.name == node.input[3])
    weights = onnx.numpy_helper.to_array(kernel).copy()
    weights[0] *= -1
    kernel.CopyFrom(onnx.numpy_helper.from_array(weights, kernel.name))
    run = OnnxRun(model.SerializeToString(), NET)
    with pytest.raises(AssertionError, match=r"op 'conv0', sample \d+, position \(\d+, \d+\), channel 0, "):
        assert_agrees(NET, run, random_inputs(NET, 7))


@pytest.mark.parametrize("python", [None, Path(sys.executable)], ids=["here", "elsewhere"])
@pytest.mark.parametrize("model", [b"", b"no model", emitted(NET)[:500]], ids=["empty", "text", "truncated"])
def test_a_file_that_is_no_model_is_refused(model: bytes, python: Path | None) -> None:
    with pytest.raises(BlrcError, match=r"ONNX Runtime .* refuses the file: ."):
        OnnxRun(model, NET, python=python).classify(random_inputs(NET, 1))


def test_a_damaged_file_is_refused_before_it_is_instrumented() -> None:
    with pytest.raises(BlrcError, match=r"ONNX file is damaged .* export the model again"):
        instrumented(b"no model", NET)


def test_a_file_of_another_program_is_refused() -> None:
    other = random_program(1, "bits", (1, 1, 4))
    with pytest.raises(BlrcError, match=r"has no tensor 'codes': it is of another program"):
        instrumented(emitted(other), NET)


def test_samples_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(BlrcError, match="refuses"):
        OnnxRun(emitted(NET), NET).classify(np.zeros((1, 9, 8, 3), np.uint8))


def test_an_interpreter_without_a_runtime_is_refused() -> None:
    # -S leaves out site-packages: numpy and onnxruntime are not found.
    bare = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    done = subprocess.run([str(bare), "-I", "-c", "import onnxruntime"], capture_output=True, check=False)
    if done.returncode == 0:
        pytest.skip("the base interpreter has ONNX Runtime itself")
    with pytest.raises(BlrcError, match="ModuleNotFoundError"):
        OnnxRun(emitted(NET), NET, python=bare).classify(random_inputs(NET, 1))


def test_the_shipped_bytes_are_not_touched() -> None:
    model = emitted(NET)
    copy = bytes(model)
    run = OnnxRun(model, NET)
    run.run(random_inputs(NET, 2))
    assert run.model == copy
