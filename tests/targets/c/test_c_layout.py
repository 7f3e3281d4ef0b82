from __future__ import annotations

import numpy as np
import pytest
from c_exports import one_conv
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.net.bits import pack
from blrc.program.legal import check
from blrc.program.program import INT32_MAX, Program, Window
from blrc.targets.c.kernels.families.codes import code_rows, column_rows, starts
from blrc.targets.c.kernels.families.words import blocked
from blrc.targets.c.kernels.thresholds import never_padded
from blrc.targets.c.layout.layout import lay_out


@given(st.integers(1, 11), st.integers(1, 9))
def test_blocked_rows_have_pairs_of_words_of_four_rows(out: int, total: int) -> None:
    rows = np.arange(1, out * total + 1, dtype=np.uint32).reshape(out, total)
    expected = []
    for block in range(0, out, 4):
        for first in range(0, total, 2):
            for row in range(block, block + 4):
                for word in range(first, min(first + 2, total)):
                    expected.append(int(rows[row, word]) if row < out else 0)
    assert blocked(rows, 4).reshape(-1).tolist() == expected
    assert blocked(rows, 1).tolist() == rows.reshape(-1).tolist()


@given(st.integers(1, 3), st.integers(1, 20), st.integers(1, 3), st.integers(1, 14))
def test_code_rows_hold_nibbles_of_eight_rows(groups: int, per_group: int, taps: int, channels: int) -> None:
    rng = np.random.default_rng(groups + per_group + taps + channels)
    bits = rng.integers(0, 2, (groups * per_group, 1, taps, channels)).astype(np.bool_)
    fan_in = taps * channels
    words = iter(code_rows(pack(bits), channels, groups).tolist())
    flat = bits.reshape(groups, per_group, fan_in)
    for group in range(groups):
        for block in range(0, per_group, 16):
            for first in range(0, fan_in, 32):
                for eight in range(block, min(block + 16, per_group), 8):
                    for start in range(first, min(first + 32, fan_in), 4):
                        word = next(words)
                        for row in range(8):
                            for bit in range(4):
                                inside = eight + row < per_group and start + bit < fan_in
                                expected = inside and bool(flat[group, eight + row, start + bit])
                                assert word >> (4 * row + bit) & 1 == expected
    assert next(words, None) is None


@given(st.integers(1, 20), st.integers(1, 8), st.integers(1, 4))
def test_kernel_rows_have_nibbles_of_their_own(out: int, kernel: int, codes: int) -> None:
    bits = np.random.default_rng(out + kernel + codes).integers(0, 2, (out, kernel, codes, 1)).astype(np.bool_)
    words = iter(column_rows(pack(bits), 1).tolist())
    for eight in range(0, out, 8):
        for row_of_kernel in range(kernel):
            word = next(words)
            for row in range(8):
                nibble = word >> (4 * row) & 15
                inside = bits[eight + row, row_of_kernel, :, 0] if eight + row < out else []
                assert nibble == sum(int(bit) << i for i, bit in enumerate(inside))
    assert next(words, None) is None


def test_starts_let_a_sum_pass_where_it_reaches_its_threshold() -> None:
    found = starts(np.array([-5, 0, 5, 6], np.int32), 5)
    assert [(int(v) & 0xFFFF, int(v) >> 16) for v in found] == [(2**15 - t,) * 2 for t in (-5, 0, 5, 6, 6, 6, 6, 6)]


def test_missing_rows_never_pass() -> None:
    padded = never_padded(np.array([1, 2, 3, 4, 5, 6], np.int32), 4, groups=2)
    assert padded.tolist() == [1, 2, 3, INT32_MAX, 4, 5, 6, INT32_MAX]
    narrow = never_padded(np.array([1, -2, 3], np.int32), 8, bits=16)
    assert (narrow.dtype, narrow.tolist()) == (np.int16, [1, -2, 3] + [2**15 - 1] * 5)


def test_thresholds_take_16_bits_where_all_of_their_kind_fit() -> None:
    """Each kind by itself: a wide first layer costs the binary layers nothing."""
    program = one_conv((1, 1, 32766), 5, Window((1, 1)))
    assert lay_out(program).thresholds == {"bits": 16, "int8": 16}
    assert lay_out(one_conv((1, 1, 32767), 5, Window((1, 1)))).thresholds == {"bits": 32, "int8": 16}
    assert lay_out(one_conv((1, 1, 255), 5, Window((1, 1)), kind="int8")).thresholds == {"bits": 16, "int8": 16}
    assert lay_out(one_conv((1, 1, 256), 5, Window((1, 1)), kind="int8")).thresholds == {"bits": 16, "int8": 32}
    tables = {table.role: table for table in lay_out(program).steps[0].tables}
    assert tables["thresholds"].arrays[0].dtype == np.int16
    assert tables["thresholds"].nbytes == 8 * 2


def mnist_shaped() -> Program:
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
    try:
        from c_kernels import NETWORKS, network
    finally:
        sys.path.pop(0)
    return network(*NETWORKS["mnist"])


def test_the_mnist_network_fits_its_goals() -> None:
    result = lay_out(mnist_shaped())
    assert [step.kernel for step in result.steps] == ["conv_columns", "conv_gather", "dense", "scores_int8"]
    assert result.arena.size <= 1228  # 1.2 KB beyond the caller's input
    # Binary weights take a bit each, and no more than padding to whole words or blocks adds.
    assert result.steps[2].tables[0].nbytes == 7 * 7 * 64 * 512 // 8
    assert sum(step.flash for step in result.steps) < 212_000


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
def test_codes_are_looked_up_where_they_are_read(kind: str) -> None:
    result = lay_out(one_conv((4, 4, 2), 3, Window((3, 3)), kind=kind))
    assert [step.op.name for step in result.steps] == ["conv", "scores"]
    assert (result.steps[0].encode is not None) == (kind == "uint8")
    assert result.steps[0].x.name == "input"
    assert set(result.arena.offsets) == {"out", "scores"}


def test_limits_of_kernels_as_large_as_the_map_are_not_tabulated_for_every_pixel() -> None:
    """A 40x40 kernel with padding of twice its size has limits for 79 x 79 kinds of places: 4.8 MB for 192 outputs."""
    large = one_conv((40, 40, 1), 192, Window((40, 40), padding=(80, 80, 80, 80)), 1, Window((20, 20), (20, 20)))
    (conv, _) = lay_out(large, cpu="x86-64").steps
    assert conv.kernel == "conv_rows"
    (conv, _) = lay_out(one_conv((40, 40, 1), 64, Window((5, 5), padding=(10, 10, 10, 10))), cpu="x86-64").steps
    assert conv.kernel == "conv_tiles"


def test_padding_is_not_copied_where_it_is_far_larger_than_the_input() -> None:
    """Padding of 6,000 around a 2x2 input, seen in strides of 3,000: such a map is refused."""
    few = Window((2, 2), (3000, 3000), (6000, 6000, 6000, 6000))
    with pytest.raises(BlrcError, match=r"op 'conv': its map has over 16,777,216 values with the padding"):
        lay_out(check(one_conv((2, 2, 1), 8, few, kind="int8")), cpu="x86-64")
    (conv, _) = lay_out(one_conv((200, 200, 1), 8, Window((2, 2)), kind="int8"), cpu="x86-64").steps
    assert conv.kernel == "conv_dots"
