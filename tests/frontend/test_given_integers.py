"""Networks of raw integers, built by hand of public layers, compute what their modules do in torch, to the last tie."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from by_night import first
from numpy.typing import NDArray
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.net.encoding import device_layout
from blrc.program import reference

SAMPLES = 40


def encoding_of(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[blrc.InputEncoding, float]:
    """Return an input of raw integers, and how large its codes are."""
    rows = shape[0] if len(shape) > 1 and rng.random() < 0.7 else 1
    kind = int(rng.integers(4))
    if kind == 0:
        return blrc.bits(shape), 1
    if kind == 1:
        return blrc.pixel_bits(shape, at=rng.choice([0, 1, 77, 128, 255, 256], rows).tolist()), 1
    if kind == 2:
        return blrc.pixel_codes(shape, table=rng.integers(-128, 128, (rows, 256))), 128
    return blrc.int8_codes(shape, scale=float(rng.choice([1, 4]))), 128


def signed(rng: np.random.Generator, layer: Any) -> Any:
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(rng.choice([-1.0, 1.0], layer.weight.shape)))
    return layer


def decided(rng: np.random.Generator, channels: int, reach: float) -> list[nn.Module]:
    """Return what stands between the sums of a layer and its bits: integers that are often reached, or beyond reach."""
    at = rng.integers(-3, 4, channels) * int(rng.choice([1, max(1, int(reach) // 8)]))
    at = np.where(rng.random(channels) < 0.1, rng.choice([-(10**6), 10**6], channels), at)
    many = channels if rng.random() < 0.8 else 1
    inverted = rng.integers(0, 2, many).astype(bool)
    parts: list[nn.Module] = []
    if rng.random() < 0.4:
        factor = rng.choice([-3.0, -1.0, 0.5, 1.0, 2.0, 0.0], channels)
        parts += [bnn.ChannelScale(torch.from_numpy(factor), 2.0), bnn.ChannelShift(float(rng.integers(-2, 3)) / 2)]
    return [*parts, bnn.Threshold(torch.from_numpy(at[:many]), torch.from_numpy(inverted))]


def network(rng: np.random.Generator) -> tuple[nn.Module, blrc.InputEncoding]:
    rank = int(rng.choice([0, 1, 2, 2]))
    shape = (
        (int(rng.choice([1, 3, 5, 33])), *rng.integers(4, 8, rank).tolist()) if rank else (int(rng.integers(1, 70)),)
    )
    encoding, peak = encoding_of(rng, shape)
    layers: list[nn.Module] = []
    features, sizes = shape[0], list(shape[1:])
    for _ in range(int(rng.integers(1, 3)) if rank else 0):
        out, kernel, pad = int(rng.choice([2, 7, 16, 33])), int(rng.integers(1, 4)), int(rng.integers(0, 2))
        pad = min(pad, kernel // 2)
        conv = bnn.SteConv2d if rank == 2 else bnn.SteConv1d
        layers.append(signed(rng, conv(features, out, kernel, padding=pad)))
        sizes = [n + 2 * pad - kernel + 1 for n in sizes]
        pool: list[nn.Module] = []
        if min(sizes) >= 2 and rng.random() < 0.5:
            pool = [nn.MaxPool2d(2) if rank == 2 else nn.MaxPool1d(2)]
            sizes = [n // 2 for n in sizes]
        sign = decided(rng, out, features * kernel**rank * peak)
        layers += [*pool, *sign] if rng.random() < 0.5 else [*sign, *pool]
        features, peak = out, 1
        if min(sizes) < 3:
            break
    if rank:
        layers.append(nn.Flatten())
    features *= int(np.prod(sizes, dtype=int))
    for _ in range(int(rng.integers(0, 2)) if rank else 1):
        out = int(rng.choice([2, 31, 64]))
        layers += [signed(rng, bnn.SteLinear(features, out)), *decided(rng, out, features * peak)]
        features, peak = out, 1
    layers.append(signed(rng, bnn.SteLinear(features, 4)))
    return nn.Sequential(*layers).eval(), encoding


def expect_equal(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    model, encoding = network(rng)
    low, high = {"uint8": (0, 256), "int8": (-128, 128), "bits": (0, 2)}[encoding.kind]
    raw: NDArray[Any] = rng.integers(low, high, (SAMPLES, *encoding.shape)).astype(encoding.dtype)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(encoding.codes(raw) / encoding.scale)).numpy()
    model.float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program, _ = build(from_model(model, encoding), [MAP])
    given = reference.scores(program, device_layout(raw)) * program.score_scale
    assert (given == expected).all(), f"seed {seed}"


@pytest.mark.parametrize("block", first(1, range(10)))
def test_integers_decide_as_torch_does(block: int) -> None:
    for seed in range(block * 30, (block + 1) * 30):
        expect_equal(seed)


@pytest.mark.parametrize("at", [[], "x", None, 2**70, 2**53, float("inf"), 1e30, 1j, [1, None]])
def test_what_is_no_threshold_is_said_in_one_line(at: Any) -> None:
    with pytest.raises(BlrcError, match=r"^Threshold: at must "):
        bnn.Threshold(at)


def test_a_factor_that_is_no_number_is_said_in_one_line() -> None:
    for factor in ("x", None, 1j, []):
        with pytest.raises(BlrcError, match="factor must be numbers, one for each channel or one for all"):
            bnn.ChannelScale(factor)  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [1.5, "x", None, [], [1, None], [[1, 2]]])
def test_a_threshold_of_pixels_that_is_none_is_called_one(at: Any) -> None:
    with pytest.raises(BlrcError, match=r"^input thresholds .*: must be whole numbers, one for each channel"):
        blrc.pixel_bits((3, 4, 4), at=at)


@pytest.mark.parametrize("scale", ["x", None, [1]])
def test_a_scale_that_is_no_number_is_said_in_one_line(scale: Any) -> None:
    for make in (blrc.int8_codes, lambda shape, scale: blrc.pixel_codes(shape, table=[0] * 256, scale=scale)):
        with pytest.raises(BlrcError, match=r"^input scale .*: expected one number"):
            make((3,), scale=scale)
