"""The checkpoint that is shipped: its folded decisions on every reachable integer, its size, its accuracy."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from by_night import first
from test_fold import every_decision

import blrc
from blrc.app.export import build
from blrc.datasets import labelled
from blrc.frontend import checkpoint
from blrc.frontend.sample import Member, sample
from blrc.lowering.calibrate import calibrate
from blrc.program import reference
from blrc.program.program import Value
from blrc.verification.oracles.agreement import torch_agreement

MNIST = Path(__file__).parents[2] / "examples" / "mnist"
CIFAR10 = Path(__file__).parents[2] / "examples" / "cifar10"
PIXELS = "4616edb298c8ab1c6bc89d170b55fcaae614b1096d18af878e5f67ca3d7ecc86"


@pytest.mark.parametrize("member", first(1, [Member(0, 1), Member(), Member(0, 0)]))
def test_every_channel_decides_right_on_every_reachable_integer(member: Member) -> None:
    shipped = checkpoint.load(MNIST / "mnist.pt")
    assert shipped.calibration is not None
    net = calibrate(sample(shipped, member), shipped.calibration)
    checked, _ = every_decision(net)
    # Each of 32 + 64 + 512 channels on each integer of its range.
    assert checked == 32 * (2 * 9 * 127 + 1) + 64 * (2 * 288 + 1) + 512 * (2 * 3136 + 1)
    every_decision(sample(shipped, member, running=True))


@pytest.mark.slow("runs a shipped network")
@pytest.mark.parametrize("count", [250, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_accuracy_of_the_likeliest_weights(count: int) -> None:
    shipped = checkpoint.load(MNIST / "mnist.pt")
    program, nets = build(shipped, [Member()])
    test = labelled.load(MNIST / "data", program.input, program.classes)
    raw, recorded = test.raw[:count], test.labels[:count]
    labels = reference.labels(reference.scores(program, raw))
    assert len(test.raw) == 10_000 and len(labels) == count
    assert np.mean(labels == recorded) >= 0.99
    with blrc.compile(program, flags=("-O1",)) as net:
        np.testing.assert_array_equal(net(raw), labels)
    agreement = torch_agreement(nets[0], raw.transpose(0, 3, 1, 2)[:1000], labels[:1000])
    assert agreement.differences == 0
    assert agreement.same_labels >= 0.995 * min(count, 1000)


def test_it_holds_codes_and_is_small() -> None:
    shipped = checkpoint.load(MNIST / "mnist.pt")
    assert all(value.dtype == np.int8 for key, value in shipped.tensors.items() if key.endswith(".logits"))
    files = [MNIST / "mnist.pt", *(MNIST / "data").iterdir()]
    assert sum(path.stat().st_size for path in files) < 5_000_000
    assert max(path.stat().st_size for path in files) < 3_000_000


def cifar10_images() -> labelled.Labelled:
    return labelled.load(CIFAR10 / "test-1000.npz", Value("input", "uint8", (32, 32, 3)), 10)


def test_cifar10_is_small_and_holds_codes() -> None:
    shipped = checkpoint.load(CIFAR10 / "cifar10-quarter.pt")
    assert all(value.dtype == np.int8 for key, value in shipped.tensors.items() if key.endswith(".logits"))
    assert sum(path.stat().st_size for path in CIFAR10.iterdir() if path.is_file()) < 3_000_000


def test_the_test_images_of_cifar10_are_what_they_were() -> None:
    """Another JPEG decoder could make other pixels of the streams, and then other accuracies."""
    test = cifar10_images()
    images = np.ascontiguousarray(test.raw.transpose(0, 3, 1, 2))
    assert images.shape == (1000, 3, 32, 32)
    assert hashlib.sha256(images.tobytes()).hexdigest() == PIXELS


def test_the_test_images_of_cifar10_are_the_first_1000(data_folder: Path) -> None:
    test = cifar10_images()
    with np.load(data_folder / "cifar10" / "cifar10_jpeg.npz") as arrays:
        first = np.flatnonzero(arrays["is_test"])[:1000]
        np.testing.assert_array_equal(test.labels, arrays["labels"][first])
        jpegs, offsets = arrays["jpeg"], arrays["offsets"]
    with np.load(CIFAR10 / "test-1000.npz") as arrays:
        streams = arrays["jpeg"]
        held = [streams[a:b].tobytes() for a, b in pairwise(arrays["offsets"])]
    assert held == [jpegs[offsets[i] : offsets[i + 1]].tobytes() for i in first]


@pytest.mark.nightly
@pytest.mark.needs("cc")
def test_cifar10_exports_and_verifies(tmp_path: Path) -> None:
    blrc.export(CIFAR10 / "cifar10-quarter.pt", folder=tmp_path / "out", members="2", name="cifar")
    test = cifar10_images()
    np.savez(tmp_path / "few.npz", images=test.raw[:50].transpose(0, 3, 1, 2), labels=test.labels[:50])
    report = blrc.verify(tmp_path / "out", data=tmp_path / "few.npz", random=10)
    assert report.equal and not report.skipped
    with blrc.compile(CIFAR10 / "cifar10-quarter.pt") as net:
        assert np.mean(net(test.raw) == test.labels) >= 0.7
