"""`make run NETWORK=other.pt` in `examples/firmware` runs that network, whatever was built before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from by_night import night_rows
from firmware_project import copied
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.exports.door import read_manifest

pytestmark = pytest.mark.needs("make", "arm-none-eabi-gcc", "qemu-system-arm")


def network(path: Path, kind: str, shape: tuple[int, int, int], seed: int) -> Path:
    """A small network in a file that is older than any other."""
    channels, height, width = shape
    model = nn.Sequential(
        bnn.BinaryConv2d(channels, 4, 3),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(4 * (height - 2) * (width - 2), 3),
    )
    encoding = encoding_of(kind, shape)
    blrc.save(randomise(model, seed), path=path, input=encoding, calibration=raw_samples(encoding, 8, seed))
    os.utime(path, (1, 1))
    return path


@pytest.mark.nightly
def test_an_older_file_of_another_network_is_exported_anew(tmp_path: Path) -> None:
    project = copied(tmp_path / "firmware")
    exported = project.folder / "build" / "model-map"
    digests = []
    for seed in (0, 1):
        path = network(tmp_path / f"{seed}.pt", "uint8", (1, 28, 28), seed)
        done = project.make("run", f"NETWORK={path}")
        assert done.stdout.endswith("self-test: all equal\n"), done.stderr
        digests.append(read_manifest(exported).digest)
    assert digests[0] != digests[1]
    written = (exported / "mnist.h").stat().st_mtime_ns
    assert project.make("run", f"NETWORK={path}").stdout.endswith("self-test: all equal\n")
    assert (exported / "mnist.h").stat().st_mtime_ns == written  # of equal bytes nothing is made again


@pytest.mark.parametrize(
    ("kind", "shape"), [("uint8", (3, 7, 9)), *night_rows(("int8", (1, 28, 28)), ("bits", (1, 28, 28)))]
)
def test_a_network_of_another_input_is_shown_one_of_its_own(
    kind: str, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    project = copied(tmp_path / "firmware")
    done = project.make("run", f"NETWORK={network(tmp_path / 'other.pt', kind, shape, 2)}")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "the network's own recorded input" in lines
    assert any(line.startswith("label: ") and line.endswith("(as recorded)") for line in lines)
    assert lines[-1] == "self-test: all equal"
