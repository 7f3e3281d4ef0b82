"""Float convolutions of integers against int64 sums: they must be exact for every shape, also at the largest codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blrc.forward import max_pool, preactivation
from blrc.net import Conv, Dense
from blrc.window import Window

CASES = [
    (1, 32, (3, 3), (1, 1), (1, 1), 1),
    (33, 64, (3, 3), (1, 1), (1, 1), 1),
    (64, 65, (3, 3), (2, 2), (1, 1), 1),
    (32, 32, (3, 3), (1, 1), (1, 1), 32),
    (6, 8, (5, 2), (1, 2), (2, 1), 2),
    (128, 16, (1, 1), (1, 1), (1, 1), 1),
    (16, 8, (5, 5), (1, 1), (2, 2), 1),
]


@pytest.mark.parametrize(("inputs", "outputs", "kernel", "stride", "dilation", "groups"), CASES)
@pytest.mark.parametrize("peak", [1, 128])
def test_convolution_is_exact(
    inputs: int,
    outputs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    peak: int,
) -> None:
    rng = np.random.default_rng(inputs)
    weights = (rng.integers(0, 2, (outputs, inputs // groups, *kernel)) * 2 - 1).astype(np.int8)
    x = (
        rng.integers(-peak, peak, (3, inputs, 13, 14)).astype(np.int8)
        if peak > 1
        else np.sign(rng.random((3, inputs, 13, 14)) - 0.5).astype(np.int8)
    )
    conv = Conv("c", "input", weights, None, Window(kernel, stride, (1, 0, 2, 1), dilation), groups)
    z = preactivation(conv, x, peak)
    padded = torch.nn.functional.pad(torch.from_numpy(x).long(), (0, 1, 1, 2))
    exact = torch.nn.functional.conv2d(padded, torch.from_numpy(weights).long(), None, stride, 0, dilation, groups)
    assert np.array_equal(z, exact.numpy())


def test_dense_is_exact_beyond_float32() -> None:
    rng = np.random.default_rng(0)
    weights = np.ones((2, 200_000), dtype=np.int8)
    x = rng.integers(100, 128, (2, 200_000)).astype(np.int8)
    z = preactivation(Dense("d", "input", weights, None), x, 128)
    assert np.array_equal(z[:, 0], x.astype(np.int64).sum(axis=1))
    assert int(z.min()) > 2**24


def test_padding_never_wins_in_max_pooling() -> None:
    x = np.full((1, 1, 3, 3), -1, dtype=np.int8)
    assert max_pool(x, Window((2, 2), (2, 2), (1, 1, 0, 0))).max() == -1
