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
from blrc.net.window import LIMIT, Window, conv_window, count, pair, pool_window

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
