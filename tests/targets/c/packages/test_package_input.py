"""The README of a package says what the caller has to do with a real value before the network can take it."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.net.encoding import int8_codes
from blrc.targets.c.options import PACKAGES


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
def test_the_readme_says_what_the_input_is(kind: str, tmp_path: Path) -> None:
    encoding = int8_codes((6,), scale=23.4375) if kind == "int8" else encoding_of(kind, (6,))
    model = randomise(nn.Sequential(bnn.BinaryLinear(6, 5), bnn.StochasticSign(), bnn.SoftmaxLinear(5, 3)), 0)
    blrc.save(model, path=tmp_path / "net.pt", input=encoding, calibration=raw_samples(encoding, 4, 0))
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="c", packages=list(PACKAGES))
    found = list((tmp_path / "out").glob("*/net/README.md"))
    assert len(found) == len(PACKAGES)
    for path in found:
        text = path.read_text()
        assert ("standardisation is part of the network" in text.replace("No standardisation", "")) == (kind == "uint8")
        assert ("times 23.4375, rounded" in text) == (kind == "int8")
        assert ("1 stands for +1" in text) == (kind == "bits")
