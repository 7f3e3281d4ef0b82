"""Raw input to codes, against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.net import encoding as encode
from blrc.net.encoding import InputEncoding, pixel_bits, pixel_codes

MEANS = st.floats(0.0, 1.0)
STDS = st.floats(0.01, 2.0)


@given(MEANS, STDS, st.floats(0.5, 200.0))
def test_a_code_is_the_nearest_integer_to_the_scaled_standardised_pixel(mean: float, std: float, scale: float) -> None:
    table = encode.pixels((1, 2, 2), mean=[mean], std=[std], scale=scale).table()
    assert table.dtype == np.int8 and table.shape == (1, 256)
    for x in range(256):
        exact = Fraction(scale) * (Fraction(x, 255) - Fraction(mean)) / Fraction(std)
        clipped = max(Fraction(-127), min(Fraction(127), exact))
        # Half a step, and what four float64 roundings may add where the exact value lies next to a tie.
        assert abs(int(table[0, x]) - clipped) <= Fraction(1, 2) + Fraction(1, 10**9)


def test_ties_go_to_the_even_code() -> None:
    # x / 255 x 127.5 is x / 2, exact for even multiples: 255 steps of one half.
    codes = encode.pixels((1, 1, 1), mean=[0.0], std=[1.0], scale=127.5).table()[0].tolist()
    assert codes[:8] == [0, 0, 1, 2, 2, 2, 3, 4]
    assert codes == [min(round(x / 255.0 * 127.5), 127) for x in range(256)]


@given(st.lists(st.tuples(MEANS, STDS), min_size=1, max_size=4))
def test_the_default_scale_uses_the_whole_range_and_saturates_nothing(channels: list[tuple[float, float]]) -> None:
    means, stds = [m for m, _ in channels], [s for _, s in channels]
    encoding = encode.pixels((len(channels), 1, 1), mean=means, std=stds)
    peak = max(abs((x - m) / s) for m, s in channels for x in (0.0, 1.0))
    assert math.isclose(encoding.scale * peak, 127.0)
    assert int(np.abs(encoding.table().astype(int)).max()) == 127
    assert encoding.code_range == (int(encoding.table().min()), int(encoding.table().max()))


def test_every_channel_has_its_own_table_and_all_share_the_scale() -> None:
    encoding = encode.pixels((2, 3, 4), mean=[0.2, 0.7], std=[0.1, 0.9], scale=10.0)
    raw = np.random.default_rng(0).integers(0, 256, (5, 2, 3, 4)).astype(np.uint8)
    codes = encoding.codes(raw)
    assert codes.dtype == np.int8 and codes.shape == raw.shape
    for c, (mean, std) in enumerate([(0.2, 0.1), (0.7, 0.9)]):
        single = encode.pixels((1, 3, 4), mean=[mean], std=[std], scale=10.0)
        assert np.array_equal(codes[:, c : c + 1], single.codes(raw[:, c : c + 1]))
    assert not np.array_equal(*encoding.table())


def test_dense_pixels_share_one_table() -> None:
    encoding = encode.pixels((7,), mean=[0.5], std=[0.25])
    assert encoding.channels == 1
    raw = np.arange(14, dtype=np.uint8).reshape(2, 7) * 18
    assert np.array_equal(encoding.codes(raw), encoding.table()[0][raw])


def test_int8_input_is_its_own_code() -> None:
    encoding = encode.int8_codes((3,), scale=4.0)
    raw = np.array([[-128, 0, 127]], dtype=np.int8)
    assert np.array_equal(encoding.codes(raw), raw)
    assert encoding.code_range == (-128, 127)
    assert encoding.real(raw).tolist() == [[-32.0, 0.0, 31.75]]


def test_bits_are_signs() -> None:
    encoding = encode.bits((3,))
    raw = np.array([[0, 1, 1]], dtype=np.uint8)
    assert encoding.codes(raw).tolist() == [[-1, 1, 1]]
    assert encoding.codes(raw).dtype == np.int8
    assert encoding.code_range == (-1, 1)
    assert encoding.real(raw).tolist() == [[-1.0, 1.0, 1.0]]


def test_real_values_are_codes_over_scale_in_float32() -> None:
    encoding = encode.pixels((1, 1, 1), mean=[0.1307], std=[0.3081])
    raw = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1)
    real = encoding.real(raw)
    assert real.dtype == np.float32
    want = [np.float32(float(c) / encoding.scale) for c in encoding.table()[0]]
    assert real.reshape(-1).tolist() == want
    # ... and close to what training would see: half a code.
    exact = (raw / 255 - 0.1307) / 0.3081
    assert np.abs(real - exact).max() <= 0.5 / encoding.scale + 1e-6


@pytest.mark.parametrize("shape", [(2, 3, 4), (5,)])
def test_device_layout_puts_channels_last(shape: tuple[int, ...]) -> None:
    raw = np.arange(2 * math.prod(shape)).reshape(2, *shape)
    device = encode.device_layout(raw)
    assert device.flags.c_contiguous
    if len(shape) == 3:
        assert device.shape == (2, 3, 4, 2)
        assert all(device[n, y, x, c] == raw[n, c, y, x] for n, c, y, x in np.ndindex(raw.shape))
    else:
        assert device.shape == (2, 1, 1, 5)
        assert device.reshape(2, 5).tolist() == raw.tolist()
    assert np.array_equal(encode.torch_layout(device, shape), raw)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("float32", (1, 2, 2), 1.0), "input kind 'float32': a device takes raw uint8, int8 or bits"),
        (("int8", (2, 2, 2, 2), 1.0), r"input shape \(2, 2, 2, 2\): expected \(channels, height, width\), \(channels"),
        (("int8", (1, 0, 2), 1.0), "input shape .* all positive"),
        (("int8", (1, 2.0, 2), 1.0), "input shape .* all positive"),
        (("int8", (3,), 0.0), "input scale 0.0: must be positive and finite"),
        (("int8", (3,), NAN), "input scale nan"),
        (("int8", (3,), INF), "input scale inf"),
        (("uint8", (2, 1, 1), 1.0, (0.5,), (1.0, 1.0)), "one value for each of 2 channels, got 1 and 2"),
        (("uint8", (1, 1, 1), 1.0, (NAN,), (1.0,)), "mean must be finite and std positive"),
        (("uint8", (1, 1, 1), 1.0, (0.5,), (0.0,)), "mean must be finite and std positive"),
        (("uint8", (1, 1, 1), 1.0, (0.5,), (-1.0,)), "mean must be finite and std positive"),
        (("uint8", (1, 1, 1), 1.0, (0.5,), (INF,)), "mean must be finite and std positive"),
    ],
)
def test_bad_encodings_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        InputEncoding(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("mean", "std"), [(NAN, 1.0), (0.5, 0.0), (0.5, NAN), (0.5, -1.0)])
def test_pixels_without_a_scale_refuse_bad_statistics(mean: float, std: float) -> None:
    with pytest.raises(BlrcError, match="mean must be finite and std positive"):
        encode.pixels((1, 1, 1), mean=[mean], std=[std])


@pytest.mark.parametrize(
    ("encoding", "raw", "message"),
    [
        (encode.int8_codes((3,), scale=1.0), np.zeros((2, 3), np.uint8), "type uint8, but this network takes raw int8"),
        (encode.bits((3,)), np.zeros((2, 3), bool), r"type bool, but this network takes raw bits \(uint8\)"),
        (encode.bits((3,)), np.full((2, 3), 2, np.uint8), "bits must be 0 or 1, found 2"),
        (
            encode.int8_codes((3,), scale=1.0),
            np.zeros((2, 4), np.int8),
            r"shape \(2, 4\), but this network takes \(N, 3\)",
        ),
        (encode.int8_codes((3,), scale=1.0), np.zeros(3, np.int8), r"shape \(3,\), but this network takes"),
        (encode.int8_codes((1, 2, 3), scale=1.0), np.zeros((1, 2, 3), np.int8), r"takes \(N, 1, 2, 3\)"),
    ],
)
def test_bad_samples_are_refused_by_name(encoding: InputEncoding, raw: np.ndarray, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(BlrcError, match=rf"^calibration: .*{message}"):
        encoding.check(raw, "calibration")
    with pytest.raises(BlrcError, match=message):
        encoding.codes(raw)


def test_no_samples_are_fine() -> None:
    assert encode.bits((3,)).codes(np.zeros((0, 3), np.uint8)).shape == (0, 3)


def test_mean_in_units_of_0_to_255_is_refused() -> None:
    """All 256 pixel values became two codes."""
    with pytest.raises(BlrcError, match=r"mean \(127\.0,\): is in units of x / 255"):
        encode.pixels((1, 2, 2), mean=[127.0], std=[60.0])


def test_numbers_of_numpy_are_taken_and_others_refused() -> None:
    one, shape = np.array([0.5]), np.array([1, 2, 2])
    assert encode.pixels(shape, mean=one, std=one) == encode.pixels((1, 2, 2), mean=[0.5], std=[0.5])  # type: ignore[arg-type]
    with pytest.raises(BlrcError, match=r"input mean 0\.5: expected one number for each channel"):
        encode.pixels((1, 2, 2), mean=0.5, std=0.5)  # type: ignore[arg-type]
    with pytest.raises(BlrcError, match="input shape"):
        encode.pixels((1, 2.5, 2), mean=[0.5], std=[0.5])  # type: ignore[arg-type]


def test_given_tables_and_thresholds_are_taken_as_they_are() -> None:
    table = [list(range(-128, 128)), [5] * 256, [(-1) ** i for i in range(256)]]
    encoding = pixel_codes((3, 2, 2), table=table, scale=2.0)
    raw = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2) * 10
    codes = encoding.codes(raw)
    for c in range(3):
        assert codes[:, c].ravel().tolist() == [table[c][value] for value in raw[:, c].ravel()]
    assert encoding.code_range == (-128, 127) and encoding.peak == 128
    assert not encoding.is_binary
    same = pixel_codes((4,), table=np.arange(256) // 2)
    assert same.codes(np.array([[0, 1, 254, 255]], np.uint8)).tolist() == [[0, 0, 127, 127]]
    for at in (0, 1, 128, 255, 256):
        binary = pixel_bits((7,), at=at)
        assert binary.is_binary and binary.peak == 1 and binary.code_range == (-1, 1)
        row = np.array([[0, 1, 2, 127, 128, 254, 255]], np.uint8)
        assert binary.codes(row).tolist() == [[1 if value >= at else -1 for value in row[0]]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pixel_bits((3, 2, 2), at=257), "from 0 to 256"),
        (lambda: pixel_bits((3, 2, 2), at=[1, 2]), "2 tables or thresholds for 3 channels"),
        (lambda: pixel_bits((3, 2, 2), at=1.5), "1.5: must be whole numbers"),  # type: ignore[arg-type]
        (lambda: pixel_codes((3, 2, 2), table=[0] * 255), "256 codes from -128 to 127"),
        (lambda: pixel_codes((3, 2, 2), table=[128] * 256), "256 codes from -128 to 127"),
        (lambda: pixel_codes((3, 2, 2), table=[0.5] * 256), "256 whole numbers"),
        (lambda: pixel_codes((3, 2, 2), table=[0] * 256, scale=float("nan")), "scale"),
        (lambda: InputEncoding("bits", (2,), 1.0, at=(3,)), "uint8 pixels"),
        (lambda: InputEncoding("uint8", (2,), 2.0, at=(3,)), "scale is 1"),
        (lambda: InputEncoding("uint8", (2,), 1.0, (0.5,), (0.5,), at=(3,)), "neither both"),
    ],
)
def test_tables_and_thresholds_out_of_range_are_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(BlrcError, match=words):
        make()
