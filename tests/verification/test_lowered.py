"""A fault of lowering makes every engine equally wrong: the program's bits are compared with the net's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from by_night import first
from random_networks import calibrated_net, deep_network, raw_samples

from blrc.lowering import translate as lowering
from blrc.lowering.fold import Folded
from blrc.lowering.lower import lower
from blrc.net.pieces import Stage
from blrc.verification.oracles.lowered import first_other_bits


def calibrated(seed: int) -> Any:
    checkpoint, net = calibrated_net(deep_network, seed)
    return net, raw_samples(checkpoint.encoding, 150, 5)


@pytest.mark.parametrize("seed", first(2, range(6)))
def test_random_networks_lower_to_their_own_bits(seed: int) -> None:
    net, raw = calibrated(seed)
    assert first_other_bits(lower([net]), net, raw) is None


@pytest.mark.parametrize("fault", ["flip", "threshold", "order", "inverted"])
@pytest.mark.parametrize("seed", first(2, range(3)))
def test_faults_of_lowering_are_named(seed: int, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, raw = calibrated(seed)
    fold, turn = lowering.folded, lowering._Here.rows

    def wrong(stage: Stage, *rest: Any) -> Folded:
        right = fold(stage, *rest)
        if stage.linear.name != "1.0":
            return right
        if fault == "flip":
            return replace(right, flip=np.zeros_like(right.flip))
        if fault == "inverted":
            return replace(right, inverted=~right.inverted)
        # Sums of bits go in steps of two; the largest thresholds stay where they are legal.
        moved = np.where(right.threshold < right.threshold.max(), right.threshold + 2, right.threshold)
        return replace(right, threshold=moved.astype(np.int32)) if fault == "threshold" else right

    monkeypatch.setattr(lowering, "folded", wrong)
    if fault == "order":
        monkeypatch.setattr(lowering._Here, "rows", lambda self, rows: turn(self, rows)[..., ::-1].copy())
    assert first_other_bits(lower([net]), net, raw) == ("1.3" if fault == "inverted" else "1.0")
