"""Codes of binary weights' logits, and what is drawn from them, by brute force and by Philox itself."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from blrc.frontend.weights import logits
from blrc.frontend.weights.binary import BINARY, thresholds
from blrc.frontend.weights.record import Coded


def drawn(codes: np.ndarray, seed: int, member: int, layer: int) -> np.ndarray:
    return Coded(BINARY, (codes,)).sampled(seed, member, layer)


@given(arrays(np.float32, 50, elements=st.floats(-30, 30, width=32)))
def test_map_never_changes(w: np.ndarray) -> None:
    (codes,) = BINARY.encode(w)
    assert np.array_equal(Coded(BINARY, (codes,)).likeliest(), np.where(w <= 0, 1, -1))
    assert np.array_equal(logits.from_codes(codes) <= 0, w <= 0)


def test_zero_lies_in_the_code_below() -> None:
    assert logits.to_codes(np.array([0.0, -0.0, 1e-30, -1e-30], dtype=np.float32)).tolist() == [-1, -1, 0, -1]


def test_codes_are_a_fixed_point() -> None:
    codes = np.arange(-128, 128).astype(np.int8)
    assert np.array_equal(logits.to_codes(logits.from_codes(codes)), codes)


@given(st.floats(-10.5, 10.5))
def test_code_is_within_half_a_step(w: float) -> None:
    back = float(logits.from_codes(logits.to_codes(np.array([w])))[0])
    assert abs(back - w) <= 0.5 / 12 + 1e-6


def test_thresholds_are_rounded_probabilities() -> None:
    table = thresholds()[:, 0]
    for code in range(-128, 128):
        exact = 2**32 / (1 + math.exp(-(code + 0.5) / 12))
        assert abs(int(table[code + 128]) - exact) <= 0.5 + 1e-4
    assert np.all(np.diff(table.astype(np.int64)) > 0)
    # sigmoid(w) + sigmoid(-w) = 1, exactly where neither half rounds up
    assert np.all(np.abs(table.astype(np.int64) + table[::-1].astype(np.int64) - 2**32) <= 1)


def test_sample_frequencies_are_binomial() -> None:
    count = 200_000
    for code in (-128, -20, -1, 0, 30, 127):
        signs = drawn(np.full(count, code, dtype=np.int8), seed=3, member=0, layer=code + 128)
        p = 1 / (1 + math.exp(-(code + 0.5) / 12))
        expected, spread = count * p, math.sqrt(count * p * (1 - p))
        assert abs(int((signs == -1).sum()) - expected) < 5 * spread + 1


def test_sampling_is_integer_comparison_with_philox() -> None:
    codes = np.array([-50, 0, 3, 20, 127], dtype=np.int8)
    raw = np.random.Philox(key=np.array([7, (5 << 32) | 2], dtype=np.uint64)).random_raw(3)
    random = [half for word in raw.tolist() for half in (word & 0xFFFFFFFF, word >> 32)]
    expected = [-1 if r < int(thresholds()[c + 128, 0]) else 1 for r, c in zip(random, codes.tolist(), strict=False)]
    assert drawn(codes, seed=7, member=5, layer=2).tolist() == expected


def test_samples_are_the_same_bytes_everywhere() -> None:
    codes = (np.arange(64) * 3 - 96).astype(np.int8)
    signs = drawn(codes, seed=1, member=2, layer=3)
    packed = sum(1 << i for i, s in enumerate(signs.tolist()) if s > 0)
    assert packed == GOLDEN, hex(packed)


@pytest.mark.parametrize("other", [(2, 2, 3), (1, 3, 3), (1, 2, 4)])
def test_seed_member_and_layer_all_matter(other: tuple[int, int, int]) -> None:
    codes = np.zeros(256, dtype=np.int8)
    assert not np.array_equal(drawn(codes, 1, 2, 3), drawn(codes, *other))


GOLDEN = 0x4025DBFFFFFF
