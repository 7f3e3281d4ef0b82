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


MAP_DIGEST = "ff296f2e91174cc3b62429fc1fa681b0d7f8cc9356dfc5d56ee3b9b7aaef7d00"
SAMPLES_DIGEST = "e345926f3c5d397f92b6836bbd19bf2893e5daf4ad042cdd14787af7fb0c6638"
SCORES = [
    [145, 109, 73],
    [329, 289, 251],
    [145, 109, 73],
    [255, 215, 177],
    [255, 215, 177],
    [145, 109, 73],
    [329, 289, 251],
]
