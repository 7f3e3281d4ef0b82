"""Describe what an export records of its request: settings for the manifest, and inputs for the self-test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import Member, binary_layers
from blrc.net.choices import Norms, Rounding
from blrc.net.encoding import device_layout
from blrc.net.net import Levels, Net, Norm, Scale
from blrc.net.pieces import Stage, pieces
from blrc.program.head import ONE
from blrc.program.program import Program
from blrc.verification.inputs.stimuli import adversarial_inputs

RECORDED = 6  # calibration samples among the recorded vectors; the two extremes are recorded as well
SHOWN = 10
"""Channels that a note names."""


def describe(
    source: Checkpoint, member: Member, gate: int, norms: Norms, rounding: Rounding = "exact"
) -> dict[str, object]:
    """Return the manifest's settings: the input, how norms were calibrated, and what of the last `member` is sampled.

    Warnings about the checkpoint are under ``notes``, ``rounding`` is there unless it is exact, and ``original`` names
    the ONNX file that was imported, if one was.
    """
    extras: dict[str, object] = {} if rounding == "exact" else {"rounding": rounding}
    if source.original is not None:
        extras["original"] = source.original.to_plain()
    return {**_settings(source, norms), **_choices(source, member, gate), **extras}


def notes(source: Checkpoint) -> list[str]:
    """Return sentences on what in a checkpoint is legal, but hardly intended."""
    samples = source.calibration
    if samples is None or any(not np.array_equal(sample, samples[0]) for sample in samples):
        return []
    return [
        f"all calibration samples are equal ({len(samples):,} times the same input), so the norms' "
        "statistics say nothing of other inputs; save it again with samples of the data"
    ]


def constant_notes(net: Net) -> Iterator[str]:
    """Yield a sentence for each layer that has channels whose bit no input changes."""
    for piece in pieces(net):
        if isinstance(piece, Stage) and len(found := _constant_channels(piece)):
            names = ", ".join(map(str, found[:SHOWN])) + (" ..." if len(found) > SHOWN else "")
            yield (
                f"layer {piece.linear.name!r}: {len(found)} of {len(piece.linear.weights)} channels give the same "
                f"{'code' if isinstance(piece.sign, Levels) else 'bit'} for every input, since a factor is 0: {names}"
            )


def _constant_channels(stage: Stage) -> NDArray[np.intp]:
    """Return the channels of a stage of which a norm's gamma or a scale's factor is 0."""
    constant = np.zeros(len(stage.linear.weights), dtype=bool)
    for step in stage.steps:
        if isinstance(step, Norm | Scale):
            constant |= (step.gamma if isinstance(step, Norm) else step.factor) == 0
    return np.flatnonzero(constant)


def recorded_inputs(source: Checkpoint, program: Program) -> NDArray[Any]:
    """Return raw inputs in device layout: calibration samples if there are any, and the two extremes."""
    extremes = adversarial_inputs(program.input)[:2]
    if source.calibration is None:
        return extremes
    samples = device_layout(source.calibration[:RECORDED])
    return np.concatenate([samples.astype(extremes.dtype), extremes])


def _settings(source: Checkpoint, norms: Norms) -> dict[str, object]:
    encoding, samples = source.encoding, source.calibration
    return {
        "input": {
            "kind": encoding.kind,
            "shape": list(encoding.shape),
            "scale": encoding.scale,
            "mean": list(encoding.mean),
            "std": list(encoding.std),
            **({"at": list(encoding.at)} if encoding.at else {}),
            **({} if encoding.exact is None else {"exact": encoding.exact}),
        },
        "norms": norms,
        "calibration_samples": 0 if samples is None or norms == "given" else len(samples),
        **({"heads": [name for name, _ in source.heads]} if source.heads else {}),
        **({"values": [[unit.scale, unit.offset] for unit in source.values]} if source.values else {}),
        **({"notes": found} if (found := notes(source)) else {}),
    }


def _choices(source: Checkpoint, member: Member, gate: int) -> dict[str, object]:
    """Return which layers of a member are sampled, the probability below which weights are frozen, and the gate.

    The gate is given as a fraction too.
    """
    layers = (binary_layers(source) if member.layers is None else member.layers) if member.seed is not None else ()
    return {
        "sampled_layers": list(layers),
        "freeze": str(member.freeze),
        "gate": {"q16": gate, "probability": gate / ONE} if gate else None,
    }
