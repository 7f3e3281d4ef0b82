from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_networks import checkpoint_of, deep_network
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.net import Conv, Dense, Moments, Norm
from blrc.sample import MAP, Member, sample


def test_map_is_the_likeliest_sign() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    net = sample(checkpoint)
    for layer in net.layers:
        if isinstance(layer, Conv | Dense):
            logits = checkpoint.tensors[f"{layer.name}.weight.logits"]
            assert np.array_equal(layer.weights, np.where(logits <= 0, 1, -1))


def test_members_are_independent_of_one_another_and_differ() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    weights = [
        [layer.weights for layer in sample(checkpoint, Member(9, k)).layers if isinstance(layer, Conv | Dense)]
        for k in (0, 1, 0)
    ]
    assert all(np.array_equal(a, b) for a, b in zip(weights[0], weights[2], strict=True))
    assert all(not np.array_equal(a, b) for a, b in zip(weights[0], weights[1], strict=True))


def test_running_statistics_are_kept() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    for layer in sample(checkpoint, running=True).layers:
        if isinstance(layer, Norm):
            assert isinstance(layer.statistics, Moments)
            assert np.array_equal(layer.statistics.means, checkpoint.tensors[f"{layer.name}.running_mean"])


@pytest.mark.parametrize("member", [MAP, Member(0, 0), Member(2**64 - 1, 2**32 - 1)])
def test_member_survives_its_text(member: Member) -> None:
    assert Member.parse(str(member)) == member


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (2**64, 0), (0, -1), (0, 2**32)])
def test_seed_and_member_out_of_range(seed: int, index: int) -> None:
    with pytest.raises(BlrcError, match="must be from 0"):
        Member(seed, index)


@pytest.mark.parametrize(("seed", "index"), [(1.5, 0), (float("nan"), 0), ("1", 0), (True, 0), (1, 0.5), (1, None)])
def test_seed_and_member_must_be_whole(seed: Any, index: Any) -> None:
    with pytest.raises(BlrcError, match=r"must be from 0 .*, a whole number"):
        Member(seed, index)


@pytest.mark.parametrize(
    ("kind", "option", "value", "message"),
    [
        ("binary_conv2d", "stride", 0, "stride 0: give a whole number from 1"),
        ("binary_conv2d", "stride", [1, 1.5], r"stride \[1, 1.5\]: give"),
        ("binary_conv2d", "dilation", [0, 1], r"dilation \[0, 1\]: give"),
        ("binary_conv2d", "kernel_size", 0, "kernel_size 0: give"),
        ("binary_conv2d", "padding", -1, "padding -1: give a whole number from 0"),
        ("binary_conv2d", "groups", 0, "groups 0: give"),
        ("max_pool2d", "stride", 0, "stride 0: give"),
        ("max_pool2d", "padding", [2, 2], r"padding \(2, 2\) is more than half of the kernel"),
        ("batch_norm2d", "eps", float("nan"), "eps nan: must be finite"),
        ("batch_norm2d", "eps", "small", "eps 'small': must be finite"),
        ("batch_norm2d", "num_features", 1.5, "num_features 1.5: give"),
    ],
)
def test_options_of_a_checkpoint_that_make_no_layer_are_named(kind: str, option: str, value: Any, message: str) -> None:
    model = nn.Sequential(
        bnn.BinaryConv2d(2, 4, 3),
        bnn.StochasticBatchNorm2d(4),
        bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(4 * 4, 3),
    )
    checkpoint = checkpoint_of(model, "uint8", (2, 6, 6))
    sample(checkpoint)
    nodes = tuple(
        replace(node, options={**node.options, option: value}) if node.kind == kind else node
        for node in checkpoint.nodes
    )
    layer = next(node.name for node in nodes if node.kind == kind)
    with pytest.raises(BlrcError, match=f"layer {layer!r}: {message}"):
        sample(replace(checkpoint, nodes=nodes))
