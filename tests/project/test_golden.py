"""One fixed checkpoint, compiled to the same program for ever, on every machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from blrc.app.export import build
from blrc.frontend import checkpoint
from blrc.frontend.sample import Member
from blrc.program import program_file, reference
from blrc.verification.inputs.stimuli import adversarial_inputs

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"


def test_program_of_the_likeliest_weights() -> None:
    program, _ = build(checkpoint.load(TINY), [Member()])
    assert program_file.digest(program) == MAP_DIGEST


def test_program_of_two_samples() -> None:
    program, _ = build(checkpoint.load(TINY), [Member(7, 0), Member(7, 1)])
    assert program_file.digest(program) == SAMPLES_DIGEST


def test_scores() -> None:
    program, _ = build(checkpoint.load(TINY), [Member()])
    scores = reference.scores(program, adversarial_inputs(program.input)[:7])
    assert np.array_equal(scores, SCORES), scores.tolist()


MAP_DIGEST = "f9e7185ce86c03dfeeb937601a3d9d3646c238d005276db784b451665ed16e4b"
SAMPLES_DIGEST = "bc77df1dbca220366e363ca93b767d221d89e1b3d61b278cd14a8446c72ac23f"
SCORES = [
    [145, 109, 73],
    [329, 289, 251],
    [145, 109, 73],
    [255, 215, 177],
    [255, 215, 177],
    [145, 109, 73],
    [329, 289, 251],
]
