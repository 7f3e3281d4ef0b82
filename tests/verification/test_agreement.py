"""Agreement with torch: the counts are those of a float64 torch network written out here."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from by_night import first
from numpy.typing import NDArray
from random_networks import calibrated_net, deep_network, raw_samples

from blrc.lowering.lower import lower
from blrc.net.encoding import device_layout
from blrc.net.net import Conv, Dense, Flatten, MaxPool, Net, Norm, Sign, Softmax, Sums
from blrc.program import reference
from blrc.verification.oracles.agreement import torch_agreement

calibrated = partial(calibrated_net, deep_network)


def torch_labels(net: Net, raw: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Labels of the network in torch, float64, in real units, and how many values its norms gave."""
    x = torch.from_numpy(net.encoding.codes(raw).astype(np.float64)) / net.encoding.scale
    decisions = 0
    scale = net.encoding.scale
    for layer in net.layers:
        if isinstance(layer, Conv):
            top, left, bottom, right = layer.window.padding
            x = F.conv2d(
                F.pad(x, (left, right, top, bottom)),
                torch.from_numpy(layer.weights.astype(np.float64)),
                None if layer.bias is None else torch.from_numpy(layer.bias),
                layer.window.stride,
                0,
                layer.window.dilation,
                layer.groups,
            )
            bias = layer.bias
        elif isinstance(layer, Dense):
            bias = layer.bias
            x = F.linear(
                x, torch.from_numpy(layer.weights.astype(np.float64)), None if bias is None else torch.from_numpy(bias)
            )
        elif isinstance(layer, Norm):
            decisions += x.numel()
            sums = layer.statistics
            assert isinstance(sums, Sums)
            channels = range(len(layer.gamma))
            shift = np.zeros(len(layer.gamma)) if bias is None else bias
            mean = torch.tensor([float(sums.mean(c)) / scale + shift[c] for c in channels], dtype=torch.float64)
            variance = torch.tensor([float(sums.variance(c)) / scale**2 for c in channels], dtype=torch.float64)
            gamma, beta = torch.from_numpy(layer.gamma), torch.from_numpy(layer.beta)
            x = F.batch_norm(x, mean, variance, gamma, beta, False, 0.0, layer.eps)
        elif isinstance(layer, MaxPool):
            top, left, bottom, right = layer.window.padding
            x = F.pad(x, (left, right, top, bottom), value=-torch.inf)
            x = F.max_pool2d(x, layer.window.kernel, layer.window.stride)
        elif isinstance(layer, Sign):
            x = torch.where(x >= 0, 1.0, -1.0).double()
            scale = 1.0
        elif isinstance(layer, Flatten):
            x = x.flatten(1)
        elif isinstance(layer, Softmax):
            x = F.linear(x, torch.from_numpy(layer.weights), torch.from_numpy(layer.bias))
    return x.argmax(1).numpy(), decisions


@pytest.mark.parametrize("seed", first(2, range(6)))
def test_counts_are_those_of_a_torch_network(seed: int) -> None:
    """Without ties in the parameters torch's own batch_norm decides alike, so its labels are the ones counted."""
    checkpoint, net = calibrated(seed, ties=False)
    raw = raw_samples(checkpoint.encoding, 60, 5)
    theirs, decisions = torch_labels(net, raw)
    found = torch_agreement(net, raw, theirs)
    assert found.differences == 0
    assert (found.labels, found.same_labels) == (60, 60)
    assert found.decisions == decisions
    wrong = theirs.copy()
    wrong[::3] = (wrong[::3] + 1) % 7
    assert torch_agreement(net, raw, wrong).same_labels == 40


@pytest.mark.parametrize("seed", first(2, range(3)))
def test_the_program_agrees(seed: int) -> None:
    checkpoint, net = calibrated(seed)
    raw = raw_samples(checkpoint.encoding, 60, 6)
    device = device_layout(raw)
    scores = reference.scores(lower([net]), device.astype(bool) if checkpoint.encoding.kind == "bits" else device)
    found = torch_agreement(net, raw, reference.labels(scores))
    assert found.differences == 0
    assert found.same_labels >= 55  # all but those that the rounding of the softmax weights turns


def test_more_inputs_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, net = calibrated(1)
    raw = raw_samples(checkpoint.encoding, 23, 7)
    labels = np.zeros(23, np.int64)
    whole = torch_agreement(net, raw, labels)
    monkeypatch.setattr("blrc.verification.oracles.agreement.CHUNK", 5)
    assert torch_agreement(net, raw, labels) == whole


@pytest.mark.parametrize("seed", first(2, range(3)))
def test_a_wrong_threshold_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact rule is moved by one in one channel of one layer; float64 stays right."""
    from blrc.lowering import calibrate, fold

    checkpoint, net = calibrated(seed)
    raw = raw_samples(checkpoint.encoding, 60, 8)
    labels = np.zeros(60, np.int64)
    assert torch_agreement(net, raw, labels).differences == 0
    right = fold.fold_stage

    def wrong(*arguments: Any) -> fold.Folded:
        rule = right(*arguments)
        if arguments[0].linear.name == "1.0":
            return replace(rule, threshold=(rule.threshold + 2).astype(np.int32))
        return rule

    monkeypatch.setattr(calibrate, "fold_stage", wrong)
    assert torch_agreement(net, raw, labels).differences > 0


def test_ties_are_named_as_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where float64 falls on the other side of an exact tie, it is counted apart and is no difference."""
    from blrc.verification.oracles import agreement

    checkpoint, net = calibrated(1)
    raw = raw_samples(checkpoint.encoding, 60, 9)
    labels = np.zeros(60, np.int64)
    right = agreement.float64_decision

    def other_side_of_ties(*arguments: Any) -> Any:
        plus, tie = right(*arguments)
        return plus ^ tie, tie

    monkeypatch.setattr(agreement, "float64_decision", other_side_of_ties)
    found = torch_agreement(net, raw, labels)
    assert found.differences == 0
    assert found.ties > 0
