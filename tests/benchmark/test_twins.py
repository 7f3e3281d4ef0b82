"""The twins of a network in other runtimes compute what their description says, on every geometry."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from by_night import first
from numpy.typing import NDArray
from random_programs import SUMS, random_program

from blrc.benchmark.rivals import torch_twin
from blrc.benchmark.rivals.twins import INPUT, float32_model, input_shape, int8_model, is_product, weights
from blrc.program.ops.flatten import Flatten
from blrc.program.program import Conv, Encode, Pool, Program, SumPool

SEEDS = (0, 1, 7, 1000, *range(2, 7), *range(8, 12), 15, 1005)
"""Seed 7 writes codes of several thresholds, and 1000 has ternary weights (`random_programs.random_program`)."""


def in_ort(model: bytes, x: NDArray[Any]) -> NDArray[Any]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {INPUT: x})
    return np.asarray(y)


def convolutions(program: Program) -> list[Conv]:
    return [op for op in program.ops if isinstance(op, Conv)]


def inputs_for(program: Program, op: Conv, count: int = 1) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return random bits or codes for a layer, (N, H, W, C), and the numbers that they stand for, as its twin reads."""
    rng = np.random.default_rng(5)
    shape = (count, *op.x.shape)
    x = rng.integers(0, op.x.element.high + 1, shape).astype(np.uint8) if op.x.is_codes else rng.random(shape) < 0.5
    real = (x if op.x.is_codes else x * 2.0 - 1.0).astype(np.float32).transpose(0, 3, 1, 2)
    return x, np.ascontiguousarray(real.reshape(count, *input_shape(program, [op])[1:]))


@pytest.mark.parametrize("seed", first(4, SEEDS))
def test_a_bare_layer_is_the_sum_before_the_threshold(seed: int) -> None:
    program = random_program(seed, "bits")
    for op in convolutions(program):
        x, real = inputs_for(program, op)
        z = op.preactivation(program, x).transpose(0, 3, 1, 2)
        y = in_ort(float32_model(program, [op], bare=True), real)
        assert np.array_equal(y.reshape(z.shape), z)


@pytest.mark.parametrize("seed", first(4, SEEDS))
def test_a_layer_has_relu_and_pooling(seed: int) -> None:
    program = random_program(seed, "bits")
    for op in convolutions(program):
        x, real = inputs_for(program, op)
        z = np.maximum(op.preactivation(program, x), 0)[0]
        if op.pool is not None:
            top, left, bottom, right = op.pool.padding
            z = np.pad(z, ((top, bottom), (left, right), (0, 0)))  # of sums from 0 on, 0 is the least
            (kh, kw), (sh, sw) = op.pool.kernel, op.pool.stride
            z = np.array(
                [
                    [z[i * sh : i * sh + kh, j * sw : j * sw + kw].max(axis=(0, 1)) for j in range(op.y.shape[1])]
                    for i in range(op.y.shape[0])
                ]
            )
        y = in_ort(float32_model(program, [op]), real)
        assert np.array_equal(y.reshape(op.y.shape[2], *op.y.shape[:2]), z.transpose(2, 0, 1))


@pytest.mark.parametrize("seed", first(4, SEEDS))
@pytest.mark.parametrize("kind", ["uint8", "bits"])
def test_networks_are_the_same_in_onnx_runtime_and_pytorch(seed: int, kind: str) -> None:
    program = random_program(seed, kind)
    x = np.random.default_rng(3).integers(0, 2, input_shape(program, program.ops)).astype(np.float32) * 2 - 1
    found = in_ort(float32_model(program, program.ops), x)
    assert found.shape == (1, program.classes)
    with torch.inference_mode():
        again = torch_twin.network(program, program.ops)(torch.from_numpy(x)).numpy()
    assert np.array_equal(found, again)  # sums of small integers are exact in float32


def test_grouped_layers_behind_flattening_take_one_pixel() -> None:
    """Such a layer is a convolution, which took the map as it was before flattening, or a vector."""
    programs = [
        program
        for program in (random_program(seed, "bits") for seed in range(60))
        if any(isinstance(a, Flatten) and not is_product(b) for a, b in pairwise(program.ops))
    ]
    for program in programs[:3]:
        x = np.random.default_rng(3).integers(0, 2, input_shape(program, program.ops))
        found = in_ort(float32_model(program, program.ops), x.astype(np.float32))
        with torch.inference_mode():
            again = torch_twin.network(program, program.ops)(torch.from_numpy(x.astype(np.float32))).numpy()
        assert np.array_equal(found, again)
        assert in_ort(int8_model(program, program.ops), x.astype(np.uint8)).shape == (1, program.classes)
    assert len(programs) >= 3


@pytest.mark.parametrize("seed", first(4, SEEDS))
def test_the_int8_twin_has_the_same_shapes_and_is_int8_throughout(seed: int) -> None:
    program = random_program(seed)
    shape = input_shape(program, program.ops)
    x = np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)
    y = in_ort(int8_model(program, program.ops), x)
    assert y.dtype == np.uint8 and y.shape == (1, program.classes)


def test_int8_multiplies_and_cuts_at_0() -> None:
    program = random_program(3, "bits", (5, 6, 3))
    op = next(op for op in convolutions(program) if not is_product(op))
    x = np.random.default_rng(3).integers(0, 256, input_shape(program, [op])).astype(np.uint8)
    found = in_ort(int8_model(program, [op], bare=True), x)
    real = in_ort(float32_model(program, [op], bare=True), x.astype(np.float32))
    assert (found[real <= 0] == 0).all() and (found[real > 40] > 0).all() and len(np.unique(found)) > 2


def test_weights_are_those_of_the_program() -> None:
    program = random_program(1, "bits", binary=False)
    op = convolutions(program)[0]
    assert set(np.unique(weights(program, op))) <= {-1, 1}
    scores = program.ops[-1]
    assert np.array_equal(weights(program, scores).transpose(0, 2, 3, 1), program.constant(scores.weights))


def test_look_up_and_pool_are_no_products() -> None:
    for seed in SEEDS:
        for op in random_program(seed).ops:
            if isinstance(op, Encode | Pool):
                assert not is_product(op)


def test_pytorch_gets_its_threads_back() -> None:
    before = torch.get_num_threads()
    with torch_twin.one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_a_run_repeats_the_whole_network(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(torch_twin, "network", lambda program, ops: lambda x: calls.append(len(x)))
    program = random_program(1)
    torch_twin.in_torch(program, program.ops)(4)
    assert calls == [1, 1, 1, 1]


@pytest.mark.parametrize("seed", [SUMS + 2, SUMS + 3, SUMS + 7])
def test_averages_are_averages(seed: int) -> None:
    """In ONNX Runtime, in PyTorch, and in int8 within a unit; zeros around the map count."""
    program = random_program(seed, "bits")
    for op in program.ops:
        if not isinstance(op, SumPool):
            continue
        x = np.random.default_rng(seed).integers(0, 2, (1, *op.x.shape)).astype(bool)
        sums = replace(op, x=replace(op.x, dtype="bits"), y=replace(op.y, dtype="codes8")).run(program, x)
        expected = sums.transpose(0, 3, 1, 2) / op.window.taps
        real = np.ascontiguousarray(x.transpose(0, 3, 1, 2)).astype(np.float32)
        for y in (
            in_ort(float32_model(program, [op]), real),
            torch_twin.network(program, [op])(torch.from_numpy(real)).numpy(),
            in_ort(int8_model(program, [op]), (127 * real).astype(np.uint8)) / 127,
        ):
            np.testing.assert_allclose(
                y.reshape(expected.shape), expected, atol=1e-5 if y.dtype == np.float32 else 0.01
            )
