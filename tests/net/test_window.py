"""What a layer's options may say of a window: refused by name where torch would compute nonsense or crash."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from blrc.errors import BlrcError
from blrc.net.window import LIMIT, Window, conv_window, count, of_line, padding_option, pair, pool_window

NOT_WHOLE: list[Any] = [1.5, 1.0, math.nan, math.inf, "2", None, True, (1,), (1, 2, 3), [], (1, 1.5), (1, True), {1: 2}]


@pytest.mark.parametrize("value", [*NOT_WHOLE, 0, -1, (1, 0), LIMIT + 1])
def test_a_stride_that_is_no_positive_whole_number_is_refused(value: Any) -> None:
    message = re.escape(f"layer 'a': stride {value!r}: give a whole number from 1 to 32767, or a pair of them")
    with pytest.raises(BlrcError, match=message):
        pair("layer 'a'", "stride", value, 1)


@pytest.mark.parametrize("value", [*NOT_WHOLE, 0, -1, 2**31])
def test_a_count_that_is_no_positive_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(BlrcError, match=re.escape(f"layer 'a': groups {value!r}: give a whole number from 1 on")):
        count("layer 'a'", "groups", value)


def test_numbers_of_numpy_and_torch_become_plain() -> None:
    found = pair("x", "kernel_size", [np.int64(3), torch.tensor(2)], 1)
    assert found == (3, 2) and [type(number) for number in found] == [int, int]
    assert pair("x", "padding", 0, 0) == (0, 0) and pair("x", "padding", LIMIT, 0) == (LIMIT, LIMIT)
    assert type(count("x", "groups", np.int32(7))) is int


def test_pooling_refuses_the_paddings_that_torch_refuses() -> None:
    x = torch.zeros(1, 1, 9, 9)
    refused = 0
    for kernel in range(1, 6):
        for padding in range(5):
            try:
                F.max_pool2d(x, (kernel, 1), padding=(padding, 0))
            except RuntimeError:
                refused += 1
                for size, pads in (((kernel, 1), (padding, 0)), ((1, kernel), (0, padding))):
                    with pytest.raises(BlrcError, match=r"^p: padding .* more than half .* at most \(\d, \d\)$"):
                        pool_window("p", size, None, pads)
            else:
                expected = Window((kernel, 1), (kernel, 1), (padding, 0, padding, 0))
                assert pool_window("p", (kernel, 1), None, (padding, 0)) == expected
    assert refused > 5


def test_each_side_may_have_a_padding_of_its_own() -> None:
    assert conv_window("c", 3, 2, (0, 0, 1, 1), 1) == Window((3, 3), (2, 2), (0, 0, 1, 1))
    assert conv_window("c", 3, 2, [4, 3, 2, 1], 1).padding == (4, 3, 2, 1)
    assert pool_window("p", (3, 2), None, (2, 0, 0, 1)) == Window((3, 2), (3, 2), (2, 0, 0, 1))
    assert conv_window("c", **of_line({"kernel_size": 3, "stride": 2, "padding": (0, 1), "dilation": 1})) == Window(
        (1, 3), (1, 2), (0, 0, 0, 1)
    )
    for sides, dims, option in (((1, 2, 1, 2), 2, (1, 2)), ((1, 2, 1, 3), 2, (1, 2, 1, 3)), ((0, 2, 0, 2), 1, (2,)),
                                ((0, 2, 0, 1), 1, (2, 1))):  # fmt: skip
        assert padding_option(sides, dims) == option
    for wrong in ((0, 0, 1, -1), (0, 1.5, 1, 1), (0, 1, 2), (0, 1, 2, 3, 4), (LIMIT + 1, 0, 0, 0)):
        with pytest.raises(BlrcError, match=r"^c: padding .*: give a whole number from 0"):
            conv_window("c", 3, 1, wrong, 1)
    with pytest.raises(BlrcError, match=r"^p: padding \(0, 0, 3, 1\) is no less than the kernel .* \(2, 2\)$"):
        pool_window("p", 3, None, (0, 0, 3, 1))
    with pytest.raises(BlrcError, match=r"^p: kernel_size \(1, \(3, 3\)\): give a whole number from 1"):
        pool_window("p", **of_line({"kernel_size": (3, 3), "stride": None, "padding": 0}))


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2), (4, 5)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
def test_same_padding_keeps_the_size_as_torch_does(kernel: tuple[int, int], dilation: tuple[int, int]) -> None:
    window = conv_window("c", kernel, 1, "same", dilation)
    rng = np.random.default_rng(0)
    x, weight = (torch.from_numpy(rng.integers(-9, 9, shape)).double() for shape in ((1, 1, 11, 12), (1, 1, *kernel)))
    top, left, bottom, right = window.padding
    ours = F.conv2d(F.pad(x, (left, right, top, bottom)), weight, dilation=dilation)
    assert torch.equal(ours, F.conv2d(x, weight, padding="same", dilation=dilation))
    assert window.output(11, 12) == (11, 12)
