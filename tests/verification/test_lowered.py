"""A fault of lowering makes every engine equally wrong: the program's bits are compared with the net's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from by_night import first
from random_networks import calibrated_net, deep_network, raw_samples

from blrc.lowering import lower as lowering
from blrc.lowering.fold import Folded
from blrc.lowering.lower import lower
from blrc.verification.oracles.lowered import first_other_bits


def calibrated(seed: int) -> Any:
    checkpoint, net = calibrated_net(deep_network, seed)
    return net, raw_samples(checkpoint.encoding, 150, 5)


@pytest.mark.parametrize("seed", first(2, range(6)))
def test_random_networks_lower_to_their_own_bits(seed: int) -> None:
    net, raw = calibrated(seed)
    assert first_other_bits(lower([net]), net, raw) is None


@pytest.mark.parametrize("fault", ["flip", "threshold", "order"])
@pytest.mark.parametrize("seed", first(2, range(3)))
def test_faults_of_lowering_are_named(seed: int, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, raw = calibrated(seed)
    fold, turn = lowering.fold, lowering._turn_rows

    def wrong(linear: Any, *rest: Any) -> Folded:
        right = fold(linear, *rest)
        if linear.name != "1.0":
            return right
        if fault == "flip":
            return Folded(np.zeros_like(right.flip), right.threshold)
        # Sums of bits go in steps of two; the largest thresholds stay where they are legal.
        moved = np.where(right.threshold < right.threshold.max(), right.threshold + 2, right.threshold)
        return Folded(right.flip, moved.astype(np.int32)) if fault == "threshold" else right

    monkeypatch.setattr(lowering, "fold", wrong)
    if fault == "order":
        monkeypatch.setattr(lowering, "_turn_rows", lambda rows, shape: turn(rows, shape)[..., ::-1].copy())
    assert first_other_bits(lower([net]), net, raw) == "1.0"
