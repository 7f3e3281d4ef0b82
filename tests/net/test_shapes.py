"""Shapes are torch's, for every geometry; what does not fit is refused where torch refuses it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from blrc.errors import BlrcError
from blrc.net.encoding import bits
from blrc.net.net import Conv, Dense, Flatten, Layer, MaxPool, Net, Norm, Sign, Softmax
from blrc.net.shapes import check_shapes
from blrc.net.window import Window


def shapes(*layers: Layer, shape: tuple[int, ...] = (2, 5, 4)) -> dict[str, tuple[int, ...]]:
    return check_shapes(Net(bits(shape), layers, "map"))


def test_windows_are_torchs() -> None:
    fitting = refused = 0
    for k, s, p, d, h in itertools.product(range(1, 5), range(1, 4), range(3), range(1, 4), range(1, 8)):
        window = Window((k, 2), (s, 1), (p, 1, p, 1), (d, 1))
        conv = Conv("c", "input", np.ones((3, 2, k, 2), np.int8), None, window, 1)
        try:
            theirs = F.conv2d(torch.zeros(1, 2, h, 4), torch.zeros(3, 2, k, 2), None, (s, 1), (p, 1), (d, 1)).shape[1:]
        except RuntimeError:
            refused += 1
            with pytest.raises(BlrcError, match=r"layer 'c': its kernel .* does not fit its input"):
                shapes(conv, shape=(2, h, 4))
            continue
        fitting += 1
        assert shapes(conv, shape=(2, h, 4)) == {"c": tuple(theirs)}
        if 2 * p <= k and d == 1:
            pooled = F.max_pool2d(torch.zeros(1, 2, h, 4), (k, 2), (s, 1), (p, 1)).shape[1:]
            assert shapes(MaxPool("p", "input", window), shape=(2, h, 4)) == {"p": tuple(pooled)}
    assert fitting > 300
    assert refused > 50


def conv(name: str, x: str, inputs: int, outputs: int, groups: int = 1) -> Conv:
    return Conv(name, x, np.ones((outputs, inputs // groups, 1, 1), np.int8), None, Window((1, 1)), groups)


def test_every_layer_in_a_chain() -> None:
    found = shapes(
        conv("c", "input", 2, 6, 2),
        Norm("n", "c", np.ones(6), np.ones(6), 0.0, None),
        MaxPool("p", "n", Window((2, 2), (2, 2))),
        Sign("s", "p"),
        Flatten("f", "s"),
        Dense("d", "f", np.ones((7, 24), np.int8), None),
        Softmax("m", "d", np.ones((3, 7)), np.ones(3)),
    )
    assert found == {"c": (6, 5, 4), "n": (6, 5, 4), "p": (6, 2, 2), "s": (6, 2, 2), "f": (24,), "d": (7,), "m": (3,)}
    assert list(found) == ["c", "n", "p", "s", "f", "d", "m"]


def vector(name: str, x: str, inputs: int) -> Dense:
    return Dense(name, x, np.ones((3, inputs), np.int8), None)


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([conv("c", "input", 3, 4)], ["'c'", "3 input channels", "has 2"]),
        ([conv("c", "input", 4, 4, 2)], ["'c'", "4 input channels", "has 2"]),
        ([vector("d", "input", 40)], ["'d'", "needs a vector", "(2, 5, 4)", "nn.Flatten()"]),
        ([Flatten("f", "input"), vector("d", "f", 41)], ["'d'", "41 inputs", "has 40"]),
        ([Flatten("f", "input"), conv("c", "f", 40, 4)], ["'c'", "needs a map", "vector of 40"]),
        ([Flatten("f", "input"), MaxPool("p", "f", Window((1, 1)))], ["'p'", "needs a map", "vector of 40"]),
        ([Norm("n", "input", np.ones(3), np.ones(3), 0.0, None)], ["'n'", "3 channels", "has 2"]),
        ([Softmax("m", "input", np.ones((3, 40)), np.ones(3))], ["'m'", "needs a vector"]),
        ([conv("c", "nowhere", 2, 4)], ["'c'", "'nowhere'", "no layer before"]),
        ([conv("c", "d", 2, 4), conv("d", "c", 4, 4)], ["'c'", "'d'", "no layer before"]),
    ],
)
def test_what_does_not_fit_is_named(layers: list[Layer], words: list[str]) -> None:
    with pytest.raises(BlrcError) as error:
        shapes(*layers)
    for word in words:
        assert word in str(error.value)


def test_regression_a_branch_is_measured_where_it_reads() -> None:
    """It was measured after the layer before it in the list, and that other layer's shape was blamed."""
    assert shapes(conv("a", "input", 2, 6), conv("b", "input", 2, 3)) == {"a": (6, 5, 4), "b": (3, 5, 4)}
