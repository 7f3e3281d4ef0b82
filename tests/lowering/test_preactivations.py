"""Float convolutions of integers against int64 sums: they must be exact for every shape, also at the largest codes."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
import torch
from torch.backends import nnpack
from torch.nn import functional as F

from blrc.lowering.exact import by_torch
from blrc.lowering.exact.by_torch import CHUNK, without_nnpack
from blrc.lowering.preactivations import max_pool, preactivation
from blrc.net.net import Conv, Dense
from blrc.net.window import Window

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


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [((2, 2), (2, 2), (0, 0)), ((3, 3), (2, 2), (1, 1)), ((1, 3), (3, 1), (0, 1)), ((4, 2), (1, 3), (2, 0))],
)
def test_max_pooling_is_torchs(
    kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], dtype: type[np.signedinteger]
) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (3, 5, 9, 10)).astype(dtype)
    (vertical, horizontal), real = padding, torch.from_numpy(x).double()
    pooled = max_pool(x, Window(kernel, stride, (vertical, horizontal, vertical, horizontal)))
    assert pooled.dtype == dtype
    assert np.array_equal(pooled, torch.nn.functional.max_pool2d(real, kernel, stride, padding).numpy())


def test_a_batch_of_several_chunks_is_its_samples_one_by_one() -> None:
    rng = np.random.default_rng(0)
    weights = (rng.integers(0, 2, (4, 3, 2, 2)) * 2 - 1).astype(np.int8)
    x = rng.integers(-128, 128, (2 * CHUNK + 1, 3, 5, 4)).astype(np.int8)
    conv = Conv("c", "input", weights, None, Window((2, 2)), 1)
    assert np.array_equal(preactivation(conv, x, 128), np.concatenate([preactivation(conv, s[None], 128) for s in x]))
    assert preactivation(conv, x[:0], 128).shape == (0, 4, 4, 3)


def _plain_conv(batch: int, kernel: int = 3) -> tuple[Conv, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(kernel)
    weights = (rng.integers(0, 2, (32, 32, kernel, kernel)) * 2 - 1).astype(np.int8)
    x = (rng.integers(0, 2, (batch, 32, 16, 16)) * 2 - 1).astype(np.int8)
    side = kernel // 2
    return Conv("c", "input", weights, None, Window((kernel, kernel), (1, 1), (side,) * 4), 1), x


def _exact(conv: Conv, x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    padding = conv.window.padding[0]
    return F.conv2d(torch.from_numpy(x).long(), torch.from_numpy(conv.weights).long(), padding=padding).numpy()


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch: the switch has a newer name
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_exact_without_onednn(kernel: int) -> None:
    """NNPACK's Winograd, which torch takes for 16 samples or more without oneDNN, got half of the sums wrong."""
    conv, x = _plain_conv(40, kernel)
    with torch.backends.mkldnn.flags(enabled=False):
        assert np.array_equal(preactivation(conv, x, 1), _exact(conv, x))


def test_exact_under_autocast() -> None:
    conv, x = _plain_conv(20)
    dense = Dense("d", "input", conv.weights.reshape(32, -1), None)
    flat = np.tile(x.reshape(20, -1)[:, :288], 1)
    with torch.autocast("cpu", torch.bfloat16):
        assert np.array_equal(preactivation(conv, x, 1), _exact(conv, x))
        assert np.array_equal(preactivation(dense, flat, 1), flat.astype(np.int64) @ dense.weights.T.astype(np.int64))


def test_inexact_float32_is_noticed_and_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if torch chose an inexact convolution that no switch turns off."""
    conv, x = _plain_conv(20)
    right = _exact(conv, x)
    real = F.conv2d

    def wrong(input: torch.Tensor, *arguments: object) -> torch.Tensor:
        z = real(input, *arguments)  # type: ignore[arg-type]
        return z + (0.6 if z.dtype == torch.float32 else 0.0)

    monkeypatch.setattr(by_torch.F, "conv2d", wrong)
    assert np.array_equal(preactivation(conv, x, 1), right)


def test_nnpack_stays_off_until_the_last_thread_is_done() -> None:
    before = nnpack.set_flags(True)[0]
    try:
        with ExitStack() as first, ExitStack() as second:
            first.enter_context(without_nnpack())
            second.enter_context(without_nnpack())
            first.close()
            assert nnpack.set_flags(False) == (False,)  # still off for the second
            second.close()
            assert nnpack.set_flags(True) == (True,)  # and as it was before
    finally:
        nnpack.set_flags(before)
