"""Smaller networks against torch networks whose channels are cut off by hand, over random networks of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_night import night
from head_networks import SHAPE, stochastic
from random_networks import checkpoint_of, deep_network, leveled_network
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP
from blrc.frontend.saving import write
from blrc.lowering.lower import lower
from blrc.lowering.statistics import nets_of
from blrc.nn import deterministic, reestimate
from blrc.nn.convert.deterministic import Sign
from blrc.program import reference
from blrc.pruning.channels import Channels, channels_of, weight_count
from blrc.pruning.constants import means_of, with_statistics
from blrc.pruning.removal import read_without_norm, without

Network = Callable[[int], tuple[nn.Module, tuple[int, ...]]]


def plain_network(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    """No norms: biases take up what is dropped. Convolutions without padding, so that this is exact."""
    layers = (
        bnn.BinaryConv2d(2, 9, 3, bias=True), bnn.StochasticSign(),
        bnn.BinaryConv2d(9, 12, 3, bias=bool(seed % 2)), bnn.StochasticMaxPool2d(2), bnn.StochasticSign(),
        nn.Flatten(),
        bnn.BinaryLinear(12 * 9, 20, bias=bool(seed % 3)), bnn.StochasticSign(),
        bnn.BinaryLinear(20, 11, bias=True), bnn.StochasticSign(),
        bnn.SoftmaxLinear(11, 4),
    )  # fmt: skip
    return nn.Sequential(*layers), (2, 10, 10)


def bent_network(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    """A nonlinearity before a norm, which then cannot take up a constant: pruning took it for one that can."""
    layers = (
        bnn.SteConv2d(2, 9, 3), nn.BatchNorm2d(9), bnn.SteSign(),
        bnn.BinaryConv2d(9, 7, 3), bnn.GaussianSample(), nn.PReLU(7), nn.BatchNorm2d(7), bnn.SteLevels(2, 0.5),
        nn.Flatten(), bnn.SoftmaxLinear(7 * 36, 4),
    )  # fmt: skip
    return nn.Sequential(*layers), (2, 10, 10)


def headed_network(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    return stochastic(), SHAPE


def line_network(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    """A network over time."""
    layers = (
        bnn.BinaryConv1d(3, 8, 3, padding=1), bnn.StochasticBatchNorm1d(8), bnn.StochasticSign(),
        bnn.BinaryConv1d(8, 10, 2, groups=2), bnn.StochasticBatchNorm1d(10), bnn.StochasticSign(),
        nn.Flatten(), bnn.SoftmaxLinear(90, 3),
    )  # fmt: skip
    return nn.Sequential(*layers), (3, 10)


NETWORKS: tuple[Network, ...] = (deep_network, leveled_network, plain_network, headed_network, line_network)


def drawn(channels: Channels, seed: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Drop some random groups of every family, and keep one at least."""
    rng, kept = np.random.default_rng(seed), np.ones(channels.count, dtype=bool)
    for family in channels.families:
        count = int(rng.integers(1, len(family.groups)))
        for group in rng.permutation(len(family.groups))[:count]:
            kept[family.groups[group]] = False
    return kept


def cut_by_hand(source: Checkpoint, channels: Channels, kept: np.ndarray[Any, Any]) -> tuple[nn.Module, torch.Tensor]:
    """The whole network in torch, where a layer reads 0 of dropped channels, or their mean where no norm follows.

    Its norms are estimated after that. Nothing here removes a weight.
    """
    x = torch.from_numpy(source.encoding.real(source.samples())).double()
    model = deterministic(source.model().eval().double())
    reestimate(model, x)
    plain, means = read_without_norm(source), {}
    hooks = []
    for node in source.nodes:
        if node.name in plain:

            def measure(_: nn.Module, __: Any, y: torch.Tensor, name: str = node.name) -> None:
                means[name] = y.transpose(0, 1).flatten(1).mean(1)

            hooks.append(model.get_submodule(node.name).register_forward_hook(measure))
    model(x)
    for hook in hooks:
        hook.remove()
    readers = [n for n in source.nodes if ("in_channels" in n.options or "in_features" in n.options)]
    for node in readers:
        if node.inputs[0] == "input" or node.options.get("groups", 1) > 1:
            continue
        gone = torch.from_numpy(~kept[channels.of[node.inputs[0]]])
        instead = (
            means.get(node.inputs[0], torch.zeros(len(gone)).double())
            if not _normed(source, node.name)
            else torch.zeros(len(gone)).double()
        )

        def replace(_: nn.Module, inputs: tuple[torch.Tensor, ...], gone: Any = gone, instead: Any = instead) -> Any:
            shape = (1, -1, *[1] * (inputs[0].ndim - 2))
            return (torch.where(gone.reshape(shape), instead.reshape(shape), inputs[0]),)

        model.get_submodule(node.name).register_forward_pre_hook(replace)
    reestimate(model, x)
    return model, x


def _normed(source: Checkpoint, name: str) -> bool:
    """In these networks a norm follows a layer directly, behind a sample, or not at all."""
    for node in source.nodes:
        if name in node.inputs:
            return "norm" in node.kind or (
                node.kind in ("gaussian_sample", "max_pool2d", "plain_pool2d") and _normed(source, node.name)
            )
    return False


def pruned(network: Network, seed: int) -> tuple[Checkpoint, Channels, Any, Checkpoint]:
    model, shape = network(seed)
    kind = ("uint8", "int8", "bits")[seed % 3] if len(shape) == 3 else ("bits", "int8")[seed % 2]
    source = checkpoint_of(model, kind, shape, seed, ties=False)
    channels = channels_of(source)
    kept = drawn(channels, seed)
    return source, channels, kept, without(source, channels, kept, means_of(source, read_without_norm(source)))


@pytest.mark.parametrize("seed", [1, 2, *night(0, *range(3, 12))])
@pytest.mark.parametrize("network", [*NETWORKS, bent_network])  # whose norm an export cannot estimate
def test_a_pruned_network_is_the_whole_one_with_channels_cut_off_by_hand(network: Network, seed: int) -> None:
    source, channels, kept, found = pruned(network, seed)
    whole, x = cut_by_hand(source, channels, kept)
    ours = deterministic(found.model().eval().double())
    reestimate(ours, x)
    certain = clear_of_ties(whole, x) & clear_of_ties(ours, x)
    wanted, got = whole(x), ours(x)
    pairs = [(wanted[k], got[k]) for k in wanted] if isinstance(wanted, dict) else [(wanted, got)]
    assert certain.sum() >= 0.5 * len(certain)
    for theirs, mine in pairs:  # biases are float32
        assert torch.allclose(theirs[certain], mine[certain], rtol=0, atol=1e-4)


def clear_of_ties(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return for which samples no sign is of a value beside 0 that rounding a bias to float32 could have put there."""
    certain = torch.ones(len(x), dtype=torch.bool)

    def look(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        certain.logical_and_(((inputs[0].abs() > 1e-6) | (inputs[0] == 0)).flatten(1).all(1))

    signs = (Sign, bnn.SteSign)
    hooks = [each.register_forward_pre_hook(look) for each in model.modules() if isinstance(each, signs)]
    model(x)
    for hook in hooks:
        hook.remove()
    return certain


@pytest.mark.parametrize("seed", [1, 2, *night(0, *range(3, 12))])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_exported_integers_are_those_of_torch(network: Network, seed: int) -> None:
    """The scores of the exported program, whose real weights are rounded, and those of torch in float64."""
    _, _, _, found = pruned(network, seed)
    found = found.of_head(None)
    x = torch.from_numpy(found.encoding.real(found.samples())).double()
    ours = deterministic(found.model().eval().double())
    wanted = reestimate(ours, x)(x).detach().numpy()
    program = lower(nets_of(found, [MAP]))
    raw = np.moveaxis(found.samples().reshape(len(x), *(found.encoding.map_shape)), 1, -1)
    scores = reference.scores(program, raw.astype(bool) if program.input.dtype == "bits" else raw)
    codes = [2 ** node.options["bits"] - 1 for node in found.nodes if node.kind == "ste_levels"][-1:] or [1]
    terms = found.nodes[-1].options["in_features"] * codes[0] + 1  # half a unit is lost in each, and in the bias
    assert np.abs(scores * float(program.score_scale) - wanted).max() <= terms * float(program.score_scale) / 2


def test_groups_of_a_depthwise_layer_go_with_what_they_read() -> None:
    layers = (
        bnn.BinaryConv2d(1, 6, 3), bnn.StochasticBatchNorm2d(6), bnn.StochasticSign(),
        bnn.BinaryConv2d(6, 12, 3, groups=6), bnn.StochasticBatchNorm2d(12), bnn.StochasticSign(),
        nn.Flatten(), bnn.SoftmaxLinear(12 * 16, 3),
    )  # fmt: skip
    source = checkpoint_of(nn.Sequential(*layers), "bits", (1, 8, 8))
    channels = channels_of(source)
    (family,) = channels.families
    assert family.layers == ("0", "3") and len(family.groups) == 6
    assert {len(group) for group in family.groups} == {3}
    kept = np.ones(channels.count, dtype=bool)
    kept[family.groups[1]] = kept[family.groups[4]] = False
    small = without(source, channels, kept, means_of(source, read_without_norm(source)))
    options = {node.name: node.options for node in small.nodes}
    assert options["0"]["out_channels"] == options["3"]["in_channels"] == options["3"]["groups"] == 4
    assert options["3"]["out_channels"] == 8 and options["7"]["in_features"] == 8 * 16
    rows = [0, 1, 4, 5, 6, 7, 10, 11]  # the two filters of each group that stays
    assert np.array_equal(small.tensors["3.weight.logits"], source.tensors["3.weight.logits"][rows])


def test_channels_that_are_tied_to_the_input_or_are_scores_stay() -> None:
    layers = (
        bnn.BinaryConv2d(4, 8, 3, groups=4), bnn.StochasticBatchNorm2d(8), bnn.StochasticSign(), nn.Flatten(),
        bnn.BinaryLinear(8 * 36, 5), bnn.StochasticBatchNorm1d(5),
    )  # fmt: skip
    assert channels_of(checkpoint_of(nn.Sequential(*layers), "bits", (4, 8, 8))).families == ()


def test_running_statistics_are_those_of_training(tmp_path: Path) -> None:
    """With one batch of all samples, they are the batch's, as a norm in training records them with momentum 1."""
    *_, found = pruned(deep_network, 2)
    ours = with_statistics(found)
    model = found.model()
    torch.manual_seed(0)
    norms = [m for m in model.modules() if isinstance(m, bnn.StochasticBatchNorm1d | bnn.StochasticBatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    model.train()(torch.from_numpy(found.encoding.real(found.samples())))
    for key, value in model.state_dict().items():
        if key.endswith(("running_mean", "running_var")):
            assert np.allclose(ours.tensors[key], value.numpy(), rtol=1e-4, atol=1e-5)
            assert not np.array_equal(ours.tensors[key], found.tensors[key])
        elif key.endswith("num_batches_tracked"):
            assert ours.tensors[key] == found.tensors[key]


@pytest.mark.slow("compiles C and runs every layer")
@pytest.mark.parametrize("network", night(deep_network, leveled_network))
def test_exports_of_pruned_networks_verify(network: Network, tmp_path: Path) -> None:
    *_, found = pruned(network, 1)
    write(found, tmp_path / "small.pt")
    blrc.export(tmp_path / "small.pt", targets=("c", "onnx"), folder=tmp_path / "out")
    report = blrc.verify(tmp_path / "out", model=tmp_path / "small.pt", random=40)
    assert report.equal and report.agreement is not None and report.agreement.differences == 0


def test_ternary_weights_are_counted_once() -> None:
    """Their two tensors of logits counted as two weights each."""
    layers = (
        bnn.BinaryConv2d(2, 5, 3, weight="ternary"), bnn.StochasticSign(), nn.Flatten(),
        bnn.BinaryLinear(5 * 16, 6), bnn.StochasticSign(), bnn.SoftmaxLinear(6, 3),
    )  # fmt: skip
    source = checkpoint_of(nn.Sequential(*layers), "bits", (2, 6, 6))
    assert weight_count(source) == 2 * 5 * 9 + 5 * 16 * 6 + 6 * 3
