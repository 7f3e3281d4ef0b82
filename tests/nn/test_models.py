"""The paper's networks: shapes, names, sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import BinaryConv2d, BinaryLinear, SteConv2d, SteLevels, SteLinear, models


def weights(model: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(p.shape) for p in model.parameters() if p.ndim > 1]


def test_mnist_is_32c3_mp2_64c3_mp2_512fc_sm10() -> None:
    assert list(dict(models.mnist().named_children())) == [
        "conv1", "norm1", "pool1", "sign1", "conv2", "norm2", "pool2", "sign2", "flatten", "dense", "norm3", "sign3",
        "scores",
    ]  # fmt: skip
    assert weights(models.mnist()) == [(32, 1, 3, 3), (64, 32, 3, 3), (512, 64 * 7 * 7), (10, 512)]


def test_cifar10_is_the_paper_s() -> None:
    assert weights(models.cifar10()) == [
        (128, 3, 3, 3), (128, 128, 3, 3), (256, 128, 3, 3), (256, 256, 3, 3), (512, 256, 3, 3), (512, 512, 3, 3),
        (1024, 512 * 4 * 4), (10, 1024),
    ]  # fmt: skip
    names = list(dict(models.cifar10(width=0.25).named_children()))
    assert names[:11] == [
        "conv1",
        "norm1",
        "sign1",
        "conv2",
        "norm2",
        "pool2",
        "sign2",
        "conv3",
        "norm3",
        "sign3",
        "conv4",
    ]


@pytest.mark.parametrize("flavour", ["blrnet", "lrnet", "bnn", "fp"])
@pytest.mark.parametrize(("build", "shape"), [(models.mnist, (1, 28, 28)), (models.cifar10, (3, 32, 32))])
def test_forward_and_backward(build: object, shape: tuple[int, ...], flavour: models.Flavour) -> None:
    model = build(flavour) if build is models.mnist else models.cifar10(flavour, width=0.125)
    scores = model(torch.randn(4, *shape))
    assert scores.shape == (4, 10)
    scores.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all() and parameter.grad.any(), name


def test_flavours_have_the_same_layers() -> None:
    binary, real = models.mnist(), models.mnist("fp")
    assert weights(binary) == weights(real)
    for name, module in binary.named_children():
        if isinstance(module, BinaryConv2d | BinaryLinear):
            assert module.bias is None and real.get_submodule(name).bias is None  # useless before a norm


def test_the_binarized_nn_ends_in_a_binary_layer_and_its_norm() -> None:
    assert weights(models.mnist("bnn")) == weights(models.mnist())
    assert list(dict(models.mnist("bnn").named_children()))[-4:] == ["norm3", "sign3", "scores", "norm4"]
    assert weights(models.cifar10("bnn")) == [*weights(models.cifar10())[:-1], (1024, 1024), (10, 1024)]
    assert list(dict(models.cifar10("bnn", 0.125).named_children()))[-8:] == [
        "dense", "norm7", "sign7", "dense2", "norm8", "sign8", "scores", "norm9",
    ]  # fmt: skip
    assert [m.bias is None for m in models.mnist("bnn").modules() if isinstance(m, SteConv2d | SteLinear)] == [True] * 4
    assert [name for name, _ in models.mnist("bnn", norm=False).named_children() if "norm" in name] == []


def test_an_lr_net_samples_before_its_norms_and_rounds_behind_its_pools() -> None:
    model = models.mnist("lrnet", bits=3)
    assert list(dict(model.named_children())) == [
        "conv1", "sample1", "norm1", "pool1", "levels1", "conv2", "sample2", "norm2", "pool2", "levels2", "flatten",
        "dense", "sample3", "norm3", "levels3", "scores",
    ]  # fmt: skip
    assert weights(model) == weights(models.mnist())
    assert {type(m) for m in model.modules() if "norm" in type(m).__name__.lower()} == {nn.BatchNorm1d, nn.BatchNorm2d}
    assert [m.bits for m in model.modules() if isinstance(m, SteLevels)] == [3, 3, 3]
    assert weights(models.cifar10("lrnet", 0.25, bits=1)) == weights(models.cifar10(width=0.25))


def test_refusals() -> None:
    with pytest.raises(BlrcError, match="flavour 'bnnn'"):
        models.mnist("bnnn")  # type: ignore[arg-type]
    for width in (0.0, -1.0, float("nan")):
        with pytest.raises(BlrcError, match="leaves no channels"):
            models.cifar10(width=width)
