"""Every option of every kind: what it takes, what it refuses by name, and the tensors that torch's modules have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from blrc.errors import BlrcError
from blrc.frontend import graph
from blrc.frontend.graph import GraphModel
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.table import KINDS, check_nodes, tensors_of

CONV = {"in_channels": 4, "out_channels": 6, "kernel_size": [3, 2], "stride": [1, 2], "padding": [1, 0],
        "dilation": [1, 1], "groups": 2, "bias": True}  # fmt: skip
DENSE = {"in_features": 5, "out_features": 3, "bias": True}
NORM = {"num_features": 3, "eps": 1e-5, "momentum": 0.1, "affine": True}
POOL = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}
CONV1D = {"in_channels": 4, "out_channels": 6, "kernel_size": [3], "stride": [2], "padding": [1], "dilation": [1],
          "groups": 2, "bias": True}  # fmt: skip
POOL1D = {"kernel_size": [3], "stride": [2], "padding": [1]}
GOOD: dict[str, dict[str, Any]] = {
    "binary_conv1d": CONV1D,
    "ste_conv1d": CONV1D,
    "max_pool1d": POOL1D,
    "plain_pool1d": POOL1D,
    "binary_conv2d": CONV,
    "binary_linear": DENSE,
    "ternary_conv1d": CONV1D,
    "ternary_conv2d": CONV,
    "ternary_linear": DENSE,
    "batch_norm1d": NORM,
    "batch_norm2d": NORM,
    "max_pool2d": POOL,
    "sign": {"tau": 1.0, "hard": True, "exact": False},
    "softmax": DENSE,
    "flatten": {},
    "ste_conv2d": CONV,
    "ste_linear": DENSE,
    "int8_conv1d": CONV1D,
    "int8_conv2d": CONV,
    "int8_linear": DENSE,
    "whole_conv1d": CONV1D,
    "whole_conv2d": CONV,
    "whole_linear": DENSE,
    "even_levels": {"low": -2, "high": 5},
    "ste_sign": {},
    "plain_norm1d": NORM,
    "plain_norm2d": NORM,
    "plain_pool2d": POOL,
    "average_pool1d": POOL1D,
    "average_pool2d": POOL,
    "global_pool1d": {"output_size": 1},
    "global_pool2d": {"output_size": [1, 1]},
    "scale": {"channels": 3},
    "shift": {"channels": 1},
    "prelu": {"num_parameters": 3},
    "relu": {},
    "clip": {"min_val": -1.0, "max_val": 2.5},
    "threshold": {"channels": 3},
    "strict_sign": {},
    "levels": {"bits": 2},
    "ste_levels": {"bits": 8},
    "gaussian_sample": {},
}
OTHERS: dict[str, list[dict[str, Any]]] = {
    "binary_conv2d": [{"padding": "same", "stride": [1, 1]}, {"padding": "valid"}, {"bias": False}, {"kernel_size": 3}],
    "binary_conv1d": [{"padding": "same", "stride": [1]}, {"kernel_size": 3, "padding": 0}, {"bias": False}],
    "ternary_conv2d": [{"padding": "same", "stride": [1, 1]}, {"bias": False}],
    "ternary_conv1d": [{"padding": "same", "stride": [1]}, {"bias": False}],
    "plain_pool1d": [{"stride": None}, {"kernel_size": 2, "stride": 2, "padding": 0}],
    "batch_norm1d": [{"affine": False}, {"momentum": None}, {"eps": 0}],
    "plain_pool2d": [{"stride": None}, {"kernel_size": 2, "stride": 2, "padding": 0}],
    "softmax": [{"bias": False}],
}
NEVER: list[Any] = [
    float("nan"), float("inf"), -1, 2**70, "cuda", "x" * 1000, [], [1, 2, 3], [[1, 1]], [1, "x"], {}, {"a": 1}, (),
    b"x", torch.zeros(2), np.zeros((), np.int64), np.ones(3), object(),
]  # fmt: skip
REAL = (
    *((option, -1) for option in ("momentum", "min_val", "max_val", "low")),
    *((option, 2**70) for option in ("momentum", "eps", "tau", "min_val", "max_val")),
)  # strange, but numbers


def node(kind: str, **options: Any) -> Node:
    return Node("layer", kind, ("input",), {**GOOD[kind], **options})


def test_the_table_and_torchs_classes_are_of_the_same_kinds() -> None:
    assert set(KINDS) == set(GOOD) == set(graph.KINDS)


@pytest.mark.parametrize("kind", GOOD)
def test_tensors_are_those_of_torchs_module(kind: str) -> None:
    for changed in ({}, *OTHERS.get(kind, [])):
        each = node(kind, **changed)
        check_nodes([each])
        state = GraphModel((each,)).state_dict()
        ours = tensors_of([each])
        assert {key: tuple(value.shape) for key, value in state.items()} == {key: t.shape for key, t in ours.items()}
        for key, value in state.items():
            assert ours[key].takes(value.numpy())
            assert not ours[key].takes(np.zeros((*value.shape, 1), value.numpy().dtype))
            assert not ours[key].takes(value.numpy().astype(np.uint8))


@pytest.mark.parametrize(("kind", "option"), [(kind, option) for kind, good in GOOD.items() for option in good])
def test_values_that_no_option_has_are_refused_by_layer_and_option(kind: str, option: str) -> None:
    refused = 0
    for value in NEVER:
        if type(value) is int and (option, value) in REAL:
            continue
        with pytest.raises(BlrcError, match=rf"^layer 'layer': .*{option}") as error:
            check_nodes([node(kind, **{option: value})])
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 300
        refused += 1
    assert refused >= len(NEVER) - 2
    missing = node(kind)
    with pytest.raises(BlrcError, match=f"layer 'layer': option '{option}' is missing"):
        check_nodes([replace(missing, options={k: v for k, v in missing.options.items() if k != option})])


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize(
    ("option", "value"), [("device", "cuda"), ("dtype", "float64"), ("start_dim", 2), ("inplace", True), ("\ud800", 1)]
)
def test_unknown_options_are_refused_by_layer_and_option(kind: str, option: str, value: Any) -> None:
    with pytest.raises(BlrcError, match=rf"^layer 'layer': a {kind} has no option '{option}'|no option '.ud800'"):
        check_nodes([node(kind, **{option: value})])


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([Node("", "flatten", ("input",), {})], "no name"),
        ([Node("a\0b", "flatten", ("input",), {})], "no name"),
        ([Node("a\ud800", "flatten", ("input",), {})], "no name"),
        ([Node("a..b", "flatten", ("input",), {})], "no name"),
        ([Node("a" * 201, "flatten", ("input",), {})], "no name"),
        ([Node("input", "flatten", ("input",), {})], "stands for the network's input"),
        ([Node("a", "flatten", ("input",), {}), Node("a", "flatten", ("a",), {})], "'a' is there twice"),
        ([Node("a", "flatten", ("input",), {}), Node("a.b", "flatten", ("a",), {})], "'a.b': lies within layer 'a'"),
        ([Node("a", "flatten", ("b",), {}), Node("b", "flatten", ("input",), {})], "'a': reads 'b'"),
        ([Node("a", "flatten", ("a",), {})], "'a': reads 'a'"),
        ([Node("a", "flatten", (), {})], "'a': reads"),
        ([Node("a", "quantum", ("input",), {})], "'a' is of kind 'quantum'"),
    ],
)
def test_names_and_inputs_that_cannot_be_are_refused(nodes: list[Node], words: str) -> None:
    with pytest.raises(BlrcError, match=words) as error:
        check_nodes(nodes)
    str(error.value).encode("utf-8")


def test_a_name_that_every_module_has_is_one_line() -> None:
    with pytest.raises(BlrcError, match="layer 'forward': a module has that name"):
        GraphModel((Node("forward", "flatten", ("input",), {}),))


ODD = ("\n", "\r", "\t", "\0", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\u200b", "\ufeff",
       "\ud800", "\udfff", "\ue000", "\U000e0001")  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_names_of_what_cannot_be_printed_are_refused(odd: str) -> None:
    for name in (odd, f"a{odd}", f"{odd}b", f"a.{odd}.b"):
        with pytest.raises(BlrcError, match="that is no name of a layer; use letters, digits and dots") as refused:
            check_nodes([Node(name, "flatten", ("input",), {})])
        assert str(refused.value).isprintable()


@pytest.mark.nightly
def test_every_name_that_is_taken_can_be_printed() -> None:
    taken = 0
    for code in range(0x110000):
        try:
            check_nodes([Node(chr(code), "flatten", ("input",), {})])
        except BlrcError:
            continue
        taken += 1
        assert chr(code).isprintable()
    assert taken > 100_000
