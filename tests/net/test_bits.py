"""Bit order: one-hot inputs and a plain loop prove it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.net.bits import pack, pack_signs, unpack, unpack_signs, words

CHANNELS = [1, 2, 31, 32, 33, 63, 64, 65, 100]


@pytest.mark.parametrize("channels", CHANNELS)
def test_channel_c_is_bit_c_mod_32_of_word_c_div_32(channels: int) -> None:
    packed = pack(np.eye(channels, dtype=bool))
    assert packed.dtype == np.uint32
    assert packed.shape == (channels, words(channels))
    for c in range(channels):
        want = [0] * words(channels)
        want[c // 32] = 1 << (c % 32)
        assert packed[c].tolist() == want


@pytest.mark.parametrize("channels", CHANNELS)
def test_tail_bits_are_zero(channels: int) -> None:
    packed = pack(np.ones((2, 3, channels), dtype=bool))
    assert packed.shape == (2, 3, words(channels))
    value = sum(int(word) << (32 * i) for i, word in enumerate(packed[1, 2]))
    assert value == (1 << channels) - 1


@given(st.lists(st.booleans(), min_size=1, max_size=130))
def test_words_spell_the_bits_in_order(bits: list[bool]) -> None:
    packed = pack(np.array(bits))
    assert len(packed) == -(-len(bits) // 32)
    value = sum(int(word) << (32 * i) for i, word in enumerate(packed))
    assert value == sum(1 << i for i, bit in enumerate(bits) if bit)
    assert unpack(packed, len(bits)).tolist() == bits


@pytest.mark.parametrize("channels", CHANNELS)
def test_plus_one_is_bit_one(channels: int) -> None:
    signs = np.random.default_rng(channels).choice([-1, 1], (4, 2, channels)).astype(np.int8)
    assert np.array_equal(pack_signs(signs), pack(signs == 1))
    back = unpack_signs(pack_signs(signs), channels)
    assert back.dtype == np.int8 and np.array_equal(back, signs)


def test_memory_order_of_the_input_does_not_matter() -> None:
    bits = np.random.default_rng(0).random((33, 5, 4)) < 0.5
    turned = bits.transpose(2, 1, 0)
    assert np.array_equal(pack(turned), pack(turned.copy()))
    packed = pack(turned)
    assert np.array_equal(unpack(packed[::2, ::-1], 33), turned[::2, ::-1])


def test_any_number_but_zero_is_a_set_bit() -> None:
    assert pack(np.array([0, 1, 2, 255], dtype=np.uint8)).tolist() == [0b1110]
