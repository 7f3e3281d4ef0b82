from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_networks import binarized_network, checkpoint_of, deep_network
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.members import parse_gate
from blrc.frontend.sample import MAP, Member, binary_layers, parse_freeze, sample, sampled_layers
from blrc.frontend.weights.binary import BINARY
from blrc.frontend.weights.record import Coded
from blrc.net.net import Conv, Dense, Moments, Norm


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


@given(
    seed=st.integers(0, 2**64 - 1),
    index=st.integers(0, 2**32 - 1),
    layers=st.none() | st.lists(st.text(), min_size=1, max_size=4, unique=True).map(tuple),
    freeze=st.fractions(0, Fraction(1, 2)),
)
def test_a_choice_survives_its_text(seed: int, index: int, layers: tuple[str, ...] | None, freeze: Fraction) -> None:
    member = Member(seed, index, layers, freeze)
    assert str(member).isascii() and str(member).isprintable()
    assert Member.parse(str(member)) == member


def test_text_of_a_choice() -> None:
    assert str(Member(0, 3)) == "sample 0:3"
    assert str(Member(0, 3, ("conv.1", 'a"b, c'), Fraction("0.1"))) == (
        'sample 0:3 layers conv.1,"a\\"b, c" freeze 1/10'
    )
    for text in ("", "sample", "sample 1", "sample 0:1 layers", "sample 0:1 layers a,", "sample 0:1 freeze 1/0", "MAP"):
        with pytest.raises(ValueError, match="no member"):
            Member.parse(text)


def weights_of(net: Any) -> dict[str, Any]:
    return {layer.name: layer.weights for layer in net.layers if isinstance(layer, Conv | Dense)}


@pytest.mark.parametrize("choice", ["all", "conv", "each", "pair"])
@pytest.mark.parametrize("freeze", [Fraction(0), Fraction(1, 10), Fraction(1, 2)])
def test_what_is_not_chosen_stays_at_map_and_the_rest_is_as_without_a_choice(choice: str, freeze: Fraction) -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    kinds = binary_layers(checkpoint)
    names = list(kinds)
    assert len(names) > 2
    convolutions = [name for name in names if kinds[name] == "binary_conv2d"]
    assert convolutions and convolutions != names
    picks = {
        "all": [names],
        "conv": [convolutions],
        "each": [[name] for name in names],
        "pair": [names[:1] + names[2:]],
    }
    full, likeliest = weights_of(sample(checkpoint, Member(9, 1))), weights_of(sample(checkpoint))
    for pick in picks[choice]:
        layers = sampled_layers(checkpoint, choice if choice in ("all", "conv") else ",".join(pick))
        found = weights_of(sample(checkpoint, Member(9, 1, layers, freeze)))
        for name in names:
            if name in pick:
                w = checkpoint.tensors[f"{name}.weight.logits"].astype(np.float64)
                # The middle of the code's interval, as the docstring of `blrc.frontend.weights.logits` says it; far
                # from every tie.
                p = 1 / (1 + np.exp(-(np.clip(np.ceil(w * 12) - 1, -128, 127) + 0.5) / 12))
                frozen = np.minimum(p, 1 - p) < float(freeze)
                assert np.array_equal(found[name], np.where(frozen, likeliest[name], full[name]))
                if 0 < freeze < Fraction(1, 2):
                    assert frozen.any() and not frozen.all()
            else:
                assert np.array_equal(found[name], likeliest[name])


def test_frozen_is_decided_at_the_integer_threshold() -> None:
    """T equal to a weight's min(p, 1-p) does not freeze it (the rule is <), the next rational above does."""
    every = np.arange(-128, 128).astype(np.int8)
    weights = Coded(BINARY, (every,))
    with localcontext() as context:
        context.prec = 50
        for code in (-128, -13, -1, 0, 40, 127):
            p = 1 / (1 + (-(Decimal(2 * code + 1) / 24)).exp())
            drawn = int((p * 2**32).to_integral_value())
            exact = Fraction(min(drawn, 2**32 - drawn), 2**32)
            assert not weights.frozen(exact)[code + 128]
            assert weights.frozen(exact + Fraction(1, 2**80))[code + 128]
    assert not weights.frozen(Fraction(0)).any()
    assert weights.frozen(Fraction(1, 2)).all()


def test_layers_that_can_be_sampled_are_listed() -> None:
    model = nn.Sequential(bnn.BinaryLinear(9, 8), bnn.StochasticSign(), bnn.BinaryLinear(8, 7), bnn.StochasticSign())
    model.append(bnn.SoftmaxLinear(7, 3))
    checkpoint = checkpoint_of(model, "uint8", (9,))
    assert sampled_layers(checkpoint, " 2 ,0") is None
    assert sampled_layers(checkpoint, ["2", "0"]) is None
    assert sampled_layers(checkpoint, ["2"]) == sampled_layers(checkpoint, "2") == ("2",)
    for choice, message in (
        ("2,4", "cannot sample '4': its binary layers are '0', '2'"),
        ("conv", "cannot sample its binary convolutions: it has none; its binary layers are '0', '2'"),
        ("", "cannot sample no layers: its"),
        ([], "cannot sample no layers: its"),
    ):
        with pytest.raises(BlrcError, match=message):
            sampled_layers(checkpoint, choice)
    with pytest.raises(BlrcError, match="cannot sample '1': its binary layers are '0', '2'"):
        sample(checkpoint, Member(0, 0, ("0", "1")))


def test_a_name_with_a_comma_is_one_name() -> None:
    model = nn.Sequential()
    model.add_module("a,b", bnn.BinaryLinear(9, 8))
    model.add_module("sign", bnn.StochasticSign())
    model.add_module("c", bnn.BinaryLinear(8, 8))
    model.add_module("sign2", bnn.StochasticSign())
    model.add_module("out", bnn.SoftmaxLinear(8, 3))
    checkpoint = checkpoint_of(model, "uint8", (9,))
    assert sampled_layers(checkpoint, "a,b") == ("a,b",)


def test_freeze_is_the_decimal_that_was_written() -> None:
    assert parse_freeze("0.1") == parse_freeze(0.1) == parse_freeze("1/10") == Fraction(1, 10)
    for bad in ("x", "nan", "1/0", "-0.1", "0.51", 1.0):
        with pytest.raises(BlrcError, match="freeze"):
            parse_freeze(bad)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layers": ()}, "at least one"),
        ({"layers": ("a", "a")}, "each once"),
        ({"freeze": Fraction(3, 5)}, "from 0 to 1/2"),
        ({"freeze": Fraction(-1, 5)}, "from 0 to 1/2"),
        ({"seed": None, "layers": ("a",)}, "map: nothing of it is sampled"),
        ({"seed": None, "freeze": Fraction(1, 5)}, "map: nothing of it is sampled"),
    ],
)
def test_choices_without_a_meaning(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        Member(**{"seed": 0, **values})


def test_nothing_of_a_binarized_nn_is_sampled() -> None:
    model, shape = binarized_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    for layer in sample(checkpoint, Member(5, 1)).layers:
        if isinstance(layer, Conv | Dense):
            assert np.array_equal(layer.weights, np.where(checkpoint.tensors[f"{layer.name}.weight"] >= 0, 1, -1))
    assert binary_layers(checkpoint) == {}
    with pytest.raises(BlrcError, match="cannot sample 'conv1': no weight of it is random"):
        sampled_layers(checkpoint, "conv1")


@pytest.mark.parametrize("text", ["1e-99999999", "1e99999999", "0." + "1" * 80, "1_0", "nan", "0.6", "-1", "1/0", ""])
def test_a_probability_that_is_none_is_refused_at_once(text: str) -> None:
    """A Fraction of 1e-99999999 would take for ever."""
    with pytest.raises(BlrcError, match=r"freeze .*: expected a probability"):
        parse_freeze(text)
    if text != "0.6":
        with pytest.raises(BlrcError, match=r"gate .*: expected a probability"):
            parse_gate(text)


def test_a_member_takes_a_fraction_only() -> None:
    for wrong in (0.1, "0.1", 0):
        with pytest.raises(BlrcError, match="must be a Fraction"):
            Member(0, 0, None, wrong)  # type: ignore[arg-type]
