"""The checkpoint that is shipped: its folded decisions on every reachable integer, its size, its accuracy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_fold import every_decision

import blrc
from blrc import api, checkpoint, labelled, reference
from blrc.calibrate import calibrate
from blrc.sample import Member, sample
from blrc.verification.agreement import torch_agreement

MNIST = Path(__file__).parent.parent / "examples" / "mnist"


@pytest.mark.parametrize("member", [Member(), Member(0, 0), Member(0, 1)])
def test_every_channel_decides_right_on_every_reachable_integer(member: Member) -> None:
    shipped = checkpoint.load(MNIST / "mnist.pt")
    assert shipped.calibration is not None
    net = calibrate(sample(shipped, member), shipped.calibration)
    checked, _ = every_decision(net)
    # Each of 32 + 64 + 512 channels on each integer of its range.
    assert checked == 32 * (2 * 9 * 127 + 1) + 64 * (2 * 288 + 1) + 512 * (2 * 3136 + 1)
    every_decision(sample(shipped, member, running=True))


def test_accuracy_of_the_likeliest_weights() -> None:
    shipped = checkpoint.load(MNIST / "mnist.pt")
    program, nets = api.build(shipped, [Member()])
    test = labelled.load(MNIST / "data", program.input, program.classes)
    labels = reference.labels(reference.scores(program, test.raw))
    assert len(labels) == 10_000
    assert np.mean(labels == test.labels) >= 0.99
    with blrc.compile(program) as net:
        np.testing.assert_array_equal(net(test.raw), labels)
    agreement = torch_agreement(nets[0], test.raw.transpose(0, 3, 1, 2)[:1000], labels[:1000])
    assert agreement.differences == 0
    assert agreement.same_labels >= 995


def test_it_holds_codes_and_is_small() -> None:
    shipped = checkpoint.load(MNIST / "mnist.pt")
    assert all(value.dtype == np.int8 for key, value in shipped.tensors.items() if key.endswith(".logits"))
    files = [MNIST / "mnist.pt", *(MNIST / "data").iterdir()]
    assert sum(path.stat().st_size for path in files) < 5_000_000
    assert max(path.stat().st_size for path in files) < 3_000_000
