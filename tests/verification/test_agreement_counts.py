"""Decisions are counted once for each sum and channel: the counts must be those of every single decision."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from by_night import first
from numpy.typing import NDArray
from random_networks import checkpoint_of, deep_network, raw_samples
from torch import nn

from blrc import nn as bnn
from blrc.app.export import build
from blrc.frontend.sample import MAP
from blrc.lowering.calibrate import folded
from blrc.lowering.fold import Folded, float64_decision
from blrc.lowering.preactivations import max_pool, preactivation
from blrc.net.net import Net
from blrc.net.pieces import Stage, pieces
from blrc.verification.oracles import agreement


def one_by_one(net: Net, raw: NDArray[Any], shift: int) -> tuple[int, int, int]:
    """Decisions, ties, differences, where every threshold is `shift` too high; each decision by itself."""
    x: NDArray[np.int8] = net.encoding.codes(raw)
    binary = net.encoding.kind == "bits"
    decisions = ties = differences = 0
    for piece in pieces(net):
        if isinstance(piece, Stage):
            peak, scale = (1, 1.0) if binary else (net.encoding.peak, net.encoding.scale)
            z = np.moveaxis(preactivation(piece.linear, x, peak), 1, -1)
            rule = folded(piece, net.encoding, binary)
            ours = np.where(rule.flip, -z, z) >= rule.threshold + shift
            if piece.norm is not None:
                theirs, tie = float64_decision(piece, scale, z.astype(np.int64))
                decisions += z.size
                ties += int((tie & (ours != theirs)).sum())
                differences += int((~tie & (ours != theirs)).sum())
            x = np.moveaxis(np.where(ours, 1, -1), -1, 1).astype(np.int8)
            for pool in piece.pools:
                x = max_pool(x, pool.window)
            binary = True
        elif x.ndim == 4:
            x = x.reshape(len(x), -1)
    return decisions, ties, differences


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(("seed", "kind"), [(0, "uint8"), (1, "int8"), (2, "bits")])
def test_counts_are_those_of_every_decision(shift: int, seed: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, shape = deep_network(seed)
    source = checkpoint_of(model, kind, shape, seed)
    _, nets = build(source, [MAP])
    raw = raw_samples(source.encoding, 70, seed)

    def shifted(*arguments: Any) -> Folded:
        rule = folded(*arguments)
        return replace(rule, threshold=rule.threshold + np.int32(shift))

    monkeypatch.setattr(agreement, "folded", shifted)
    monkeypatch.setattr(agreement, "CHUNK", 33)  # several chunks, of samples and of sums
    found = agreement.torch_agreement(nets[0], raw, np.zeros(len(raw), dtype=np.int64))
    assert (found.decisions, found.ties, found.differences) == one_by_one(nets[0], raw, shift)
    assert (found.differences > 0) == (shift == 1)


@pytest.mark.parametrize("shift", first(1, [1, 0]))
def test_a_wide_dense_layer_of_pixels_takes_no_table_of_all_its_sums(
    shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """784 inputs of up to +-127 reach 199,137 sums: a count for each of 1024 channels would take 1.6 GB."""
    model = nn.Sequential(
        nn.Flatten(),
        bnn.BinaryLinear(784, 1024),
        bnn.StochasticBatchNorm1d(1024),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(1024, 3),
    )
    source = checkpoint_of(model, "uint8", (1, 28, 28))
    _, nets = build(source, [MAP])
    raw = raw_samples(source.encoding, 600, 0)

    def shifted(*arguments: Any) -> Folded:
        rule = folded(*arguments)
        return replace(rule, threshold=rule.threshold + np.int32(shift))

    monkeypatch.setattr(agreement, "folded", shifted)
    tracemalloc.start()
    found = agreement.torch_agreement(nets[0], raw, np.zeros(len(raw), dtype=np.int64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert (found.decisions, found.ties, found.differences) == one_by_one(nets[0], raw, shift)
    assert (found.differences > 0) == (shift == 1)
