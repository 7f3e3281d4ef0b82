"""Files as other people write them give what ONNX Runtime gives for the file itself, to the last tie."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from by_night import first
from foreign_files import foreign, raw_bits
from onnx_chains import imported, ran, scores

from blrc.errors import BlrcError

FILES = 40
"""Networks of one test; most of them have to be taken."""
JUSTIFIED = (
    "each feature of the raw input has a scale or a threshold of its own; give one for all features",
    "some channels of the raw input are turned round, or multiplied by 0; scale all alike",
    "its input is a map of one position, and it is no dense layer: it has groups, or pads to several positions; put",
)
"""Name what else the files have that no import takes."""


def expect_equal(seed: int, path: Path) -> bool:
    """Compare one network, and return whether the import takes it."""
    net = foreign(seed)
    net.file.save(path, listed=bool(seed % 2))
    said: list[str] = []
    try:
        found, program = imported(path, say=said.append, **net.options)
    except BlrcError as refused:
        assert re.match(rf"{path}: \w+ \([\w.]+(::\w+)?\): ", str(refused)) and "\n" not in str(refused)
        assert any(words in str(refused) for words in JUSTIFIED), f"seed {seed}: {refused}"
        return False
    raw = net.raw
    if said and said[-1].startswith("the raw input is bits"):
        channels_first = np.moveaxis(net.x, -1, 1) if net.last_at_first else net.x
        held = raw_bits(channels_first, said[-1])
        if held is None:
            return True
        raw = held
    net.file.at = net.scores
    expected = ran(net.file.model(), net.x).reshape(len(raw), -1)
    given = scores(program, raw.reshape(len(raw), *found.encoding.shape))
    bound = 0.02 * np.abs(expected).max() + 4 * program.score_scale if net.real else 0.0
    assert np.abs(given - expected).max() <= bound, f"seed {seed}"
    return True


@pytest.mark.parametrize("block", first(1, range(20)))
def test_files_of_others(block: int, tmp_path: Path) -> None:
    taken = [expect_equal(seed, tmp_path / "net.onnx") for seed in range(block * FILES, (block + 1) * FILES)]
    assert sum(taken) >= 0.8 * FILES
