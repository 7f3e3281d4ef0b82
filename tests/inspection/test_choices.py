"""What `blrc inspect` says of ensembles, against what exports of them hold and what early stopping can do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from random_networks import checkpoint_of, deep_network
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import sample
from blrc.inspection.choices import Choice, choices, to_text
from blrc.inspection.inspection import inspect
from blrc.lowering.lower import lower
from blrc.program import head
from blrc.targets.c.layout.layout import lay_out

BYTES = {"uint32_t": 4, "int32_t": 4, "int8_t": 1, "uint8_t": 1, "int16_t": 2}


def of(checkpoint: Checkpoint, members: int) -> dict[str, Choice]:
    found = choices(checkpoint, lay_out(lower([sample(checkpoint, running=True)])), 1000, members)
    return {choice.options: choice for choice in found}


def exported_tables(folder: Path) -> int:
    """Counted in the text of the C."""
    text = "".join(path.read_text() for path in folder.glob("net_weights*.c"))
    declared = re.findall(
        r"^NET_BLRC_STORED const (\w+) (?!\w+_of\[)\w+\[(?:NET_BLRC_\w+\()?(\d+)[^]]*\] = \{", text, re.MULTILINE
    )
    return sum(BYTES[kind] * int(n) for kind, n in declared)


def mixed() -> nn.Module:
    """A convolution with a norm, a dense layer without one, then one with a norm."""
    return nn.Sequential(
        bnn.BinaryConv2d(2, 20, 3),
        bnn.StochasticBatchNorm2d(20),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.BinaryLinear(20 * 4 * 4, 30),
        bnn.StochasticSign(),
        bnn.BinaryLinear(30, 40),
        bnn.StochasticBatchNorm1d(40),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(40, 3),
    )


@pytest.mark.parametrize(("which", "kind"), [("deep", "uint8"), ("mixed", "uint8"), ("mixed", "bits")])
def test_tables_are_those_of_exports(which: str, kind: str, tmp_path: Path) -> None:
    model, shape = deep_network(3) if which == "deep" else (mixed(), (2, 6, 6))
    checkpoint = checkpoint_of(model, kind, shape, 4)
    found = of(checkpoint, 3)
    assert list(found) == [
        "--members map",
        "--members 3",
        "--members 3 --sample conv",
        "--members 3 --sample conv --gate 0.98",
    ]
    for i, (options, choice) in enumerate(found.items()):
        words = options.split()
        given = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
        done = blrc.export(checkpoint, folder=tmp_path / str(i), targets="c", name="net", **given)  # type: ignore[arg-type]
        assert choice.tables == exported_tables(done.folder), options
        assert choice.networks_max == len(done.program.members)


@pytest.mark.parametrize("members", range(1, 8))
def test_early_stopping_needs_half_of_the_members(members: int) -> None:
    """Each is as sure as can be of the first class, which wins ties."""
    model, shape = deep_network(3)
    found = of(checkpoint_of(model, "bits", shape, 4), members)
    sums, used = head.Sums.start(1, 3), 0
    while not used or not sums.settled(members - used)[0]:
        sums, used = sums.add(np.array([[2**29, -(2**29), -(2**29)]]), head.scale_of(1.0)), used + 1
    choice = found[f"--members {members}"]
    assert (choice.networks_min, choice.networks_max) == (used, members)
    assert (choice.operations_min, choice.operations_max) == (1000 * used, 1000 * members)
    gated = found[f"--members {members} --sample conv --gate 0.98"]
    assert (gated.networks_min, gated.networks_max) == (1, members + 1)


def test_what_would_be_the_same_is_not_shown() -> None:
    dense = nn.Sequential(bnn.BinaryLinear(9, 8), bnn.StochasticSign(), bnn.SoftmaxLinear(8, 3))
    found = of(checkpoint_of(dense, "uint8", (9,), 0), 16)
    assert list(found) == ["--members map", "--members 16", "--members 16 --gate 0.98"]


def test_the_inspection_shows_them() -> None:
    model, shape = deep_network(3)
    found = inspect(checkpoint_of(model, "uint8", shape, 4))
    assert len(found.choices) == 4
    first = found.choices[0]
    assert first.tables == found.flash
    assert first.operations_min == first.operations_max == found.binary_operations + found.integer_operations
    lines = to_text(found.choices)
    assert lines[3].split()[:6] == ["--members", "16", "--sample", "conv", f"{found.choices[2].tables:,}", "8"]
