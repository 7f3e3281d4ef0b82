"""Sums by NumPy against torch's integers, and calibration by both ways on random networks: equal in every integer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import binarized_network, checkpoint_of, deep_network
from torch.nn import functional as F

from blrc.frontend.sample import Member, sample
from blrc.lowering import calibrate, preactivations
from blrc.lowering.exact import by_numpy
from blrc.lowering.preactivations import max_pool, preactivation
from blrc.net.net import Conv, Dense, Net, Norm, Sums
from blrc.net.window import Window

pair = st.tuples(st.integers(1, 4), st.integers(1, 4))


@pytest.fixture
def _numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preactivations, "uses_torch", lambda linear, x: False)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    kernel = draw(pair)
    padding = tuple(draw(st.integers(0, 2 * kernel[axis % 2])) for axis in range(4))
    return Window(kernel, draw(pair), padding, draw(pair))  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(windows(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), pair, st.integers(0, 3), st.integers())
def test_convolutions_are_torchs(
    window: Window, groups: int, inputs: int, outputs: int, size: tuple[int, int], count: int, seed: int
) -> None:
    height, width = size[0] * 3, size[1] * 2
    if min(window.output(height, width)) < 1:
        return
    rng = np.random.default_rng(abs(seed))
    weights = (rng.integers(0, 2, (groups * outputs, inputs, *window.kernel)) * 2 - 1).astype(np.int8)
    x = rng.integers(-128, 128, (count, groups * inputs, height, width)).astype(np.int8)
    conv = Conv("c", "input", weights, None, window, groups)
    z = np.empty((count, groups * outputs, *window.output(height, width)), np.int32)
    by_numpy.fill(conv, x, 128, z)
    top, left, bottom, right = window.padding
    padded = F.pad(torch.from_numpy(x).long(), (left, right, top, bottom))
    exact = F.conv2d(padded, torch.from_numpy(weights).long(), None, window.stride, 0, window.dilation, groups)
    assert np.array_equal(z, exact.numpy())


@pytest.mark.usefixtures("_numpy_alone")
@pytest.mark.parametrize("block", [1, 100, 10_000])
def test_blocks_of_any_size_give_the_same(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    conv = Conv("c", "input", (rng.integers(0, 2, (6, 2, 3, 3)) * 2 - 1).astype(np.int8), None,
                Window((3, 3), (1, 2), (2, 1, 0, 3), (2, 1)), 3)  # fmt: skip
    x = rng.integers(-128, 128, (5, 6, 11, 9)).astype(np.int8)
    whole = preactivation(conv, x, 128)
    monkeypatch.setattr(by_numpy, "BLOCK", block)
    assert np.array_equal(preactivation(conv, x, 128), whole)


@pytest.mark.usefixtures("_numpy_alone")
def test_dense_is_exact_beyond_float32_by_numpy() -> None:
    x = np.random.default_rng(0).integers(100, 128, (2, 200_000)).astype(np.int8)
    z = preactivation(Dense("d", "input", np.ones((2, 200_000), np.int8), None), x, 128)
    assert np.array_equal(z[:, 0], x.astype(np.int64).sum(axis=1))
    assert int(z.min()) > 2**24


@pytest.mark.usefixtures("_numpy_alone")
@pytest.mark.parametrize("wrong", [("float32",), ("float32", "float64")])
def test_a_library_that_rounds_is_noticed(wrong: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    conv = Conv("c", "input", (rng.integers(0, 2, (8, 4, 3, 3)) * 2 - 1).astype(np.int8), None, Window((3, 3)), 1)
    x = (rng.integers(0, 2, (20, 4, 8, 8)) * 2 - 1).astype(np.int8)
    right = preactivation(conv, x, 1)
    real = np.matmul

    def rounding(a: np.ndarray, b: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        z = real(a, b)
        return z + z.dtype.type(1) if z.dtype.name in wrong and z.shape[-1] > 1 else z

    monkeypatch.setattr(by_numpy.np, "matmul", rounding)
    assert np.array_equal(preactivation(conv, x, 1), right)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(pair, pair, st.integers(0, 2), st.integers(0, 2), pair, st.integers(0, 99))
def test_max_pooling_is_torchs_for_every_window(
    kernel: tuple[int, int], stride: tuple[int, int], top: int, left: int, size: tuple[int, int], seed: int
) -> None:
    padding = (min(top, kernel[0] // 2), min(left, kernel[1] // 2))
    window = Window(kernel, stride, (*padding, *padding))
    height, width = 2 * size[0], 3 * size[1]
    if min(window.output(height, width)) < 1:
        return
    x = np.random.default_rng(seed).integers(-128, 128, (2, 3, height, width)).astype(np.int8)
    theirs = F.max_pool2d(torch.from_numpy(x).double(), kernel, stride, padding).numpy()
    assert np.array_equal(max_pool(x, window), theirs)


def statistics(net: Net) -> list[Sums]:
    return [layer.statistics for layer in net.layers if isinstance(layer, Norm) and isinstance(layer.statistics, Sums)]


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 9))])
@pytest.mark.parametrize("network", [deep_network, binarized_network])
def test_calibration_by_numpy_and_by_torch_is_equal(network, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    model, shape = network(seed)
    checkpoint = checkpoint_of(model, ("uint8", "int8", "bits")[seed % 3], shape, seed)
    net = sample(checkpoint, Member(seed, 1))
    by_torch = statistics(calibrate.calibrate(net, checkpoint.samples()))
    monkeypatch.setattr(preactivations, "uses_torch", lambda linear, x: False)
    # In pieces of any size, with pre-activations kept or computed twice.
    for at_once, kept in ((calibrate.AT_ONCE, calibrate.KEPT), (1, 0), (5_000, 20_000)):
        monkeypatch.setattr(calibrate, "AT_ONCE", at_once)
        monkeypatch.setattr(calibrate, "KEPT", kept)
        ours = statistics(calibrate.calibrate(net, checkpoint.samples()))
        assert len(ours) == len(by_torch) >= 2
        for one, other in zip(ours, by_torch, strict=True):
            assert (one.count, one.total, one.squares) == (other.count, other.total, other.squares)


def test_torch_is_not_given_a_map_that_is_mostly_padding() -> None:
    conv = Conv("c", "input", np.ones((1, 1, 1, 1), np.int8), None, Window((1, 1), (9_000, 9_000), (9_000,) * 4), 1)
    assert not preactivations.uses_torch(conv, np.ones((1, 1, 4, 4), np.int8))
    assert np.array_equal(preactivation(conv, np.ones((1, 1, 4, 4), np.int8), 1), [[[[0, 0, 0], [0, 1, 0], [0, 0, 0]]]])
    assert preactivations.uses_torch(conv, np.ones((1, 1, 4, 4), np.int8)) is False
