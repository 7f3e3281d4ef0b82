"""Compare an export with the ONNX file that it was imported from: bits of every layer, thresholds, scores, labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.exports.door import OpenedExport
from blrc.extras import require
from blrc.frontend.sample import MAP, sample
from blrc.importing.declared import Declared
from blrc.importing.file import MOST_BYTES, Graph, read
from blrc.importing.flow import Flow
from blrc.importing.walk import Walked, walk
from blrc.lowering.lower import lower
from blrc.net.encoding import torch_layout
from blrc.net.net import Net, Rounding
from blrc.program import program_file, reference
from blrc.program.program import Op, Program
from blrc.reading import regular
from blrc.store.listing import content_of
from blrc.verification.original.places import Place, Tensor, fed, is_plus, places, scores_of, source_of
from blrc.verification.original.report import Against, Layer
from blrc.verification.original.runs import Part, from_file
from blrc.verification.original.standard import standard
from blrc.verification.original.thresholds import Decided, compare_thresholds, with_thresholds

AT_ONCE = 2**25
"""Values of all tensors of one run in ONNX Runtime."""
SINGLE = 2.0**-20
"""Relative error of float32's sums of scores, of the largest score that can occur: some roundings of 2^-24."""
_KINDS = {"uint8": "pixels", "int8": "int8", "bits": "bits"}


@dataclass(frozen=True, eq=False)
class Original:
    """Hold the original network.

    Attributes:
        path, sha256: its file.
        graph, flows: what the import read, and what it makes of each tensor.
        net: the net that it is imported to.
        model: the file with standard operators only.
    """

    path: Path
    sha256: str
    graph: Graph
    flows: dict[str, Flow]
    net: Net
    model: Any

    @property
    def batch(self) -> int | None:
        """Return the batch that the file fixes, or None."""
        shape = self.graph.source.shape
        return shape[0] if shape and shape[0] else None


def open_original(path: Path, program: Program, scale: float, rounding: Rounding) -> Original:
    """Read the original network that an export is compared with.

    Args:
        program: the export's.
        scale: codes per unit of its int8 input.
        rounding: what decides its bits.

    Raises:
        BlrcError: the file cannot be imported, or is for another input.
    """
    require("onnxruntime", "comparing an export with its original")
    sha256 = content_of(regular.read(path, MOST_BYTES)).sha256 if path.is_file() else ""
    graph = read(path)
    walked = _walked(graph, program.input.dtype, scale, path)
    assert walked.checkpoint is not None
    net = replace(sample(walked.checkpoint, MAP, running=True), rounding=rounding)
    flows = dict(walked.flows)
    ranks = {name: len(flow.axes) + 1 for name, flow in flows.items()}
    return Original(path, sha256, graph, flows, net, standard(path, ranks))


def _walked(graph: Graph, kind: str, scale: float, path: Path) -> Walked:
    """Import the file as it says, or, if it does not say what its input is, as the export has it."""
    walked = walk(graph, None, str(path))
    if walked.checkpoint is None:
        told = Declared(_KINDS[kind], scale=scale) if kind == "int8" else Declared(_KINDS[kind])
        walked = walk(graph, told, str(path))
    if walked.checkpoint is None:
        raise BlrcError(f"{path}: {walked.refusals[0]}")
    return walked


def against_original(
    opened: OpenedExport,
    path: Path,
    inputs: Sequence[tuple[NDArray[Any], NDArray[Any] | None]],
    progress: Callable[[str, int, int], None],
) -> Against:
    """Compare an exported folder with its original, as `compare_original` does, and the files' digests."""
    manifest = opened.manifest
    original = open_original(path, opened.program, float(manifest.settings["input"]["scale"]), manifest.rounding)
    found = compare_original(opened.program, original, inputs, progress)
    if manifest.original in (None, original.sha256):
        return found
    return replace(found, notes=(f"the export was made of another file, whose SHA-256 is {manifest.original}",))


def compare_original(
    program: Program,
    original: Original,
    inputs: Sequence[tuple[NDArray[Any], NDArray[Any] | None]],
    progress: Callable[[str, int, int], None],
) -> Against:
    """Compare an export's program with the original network.

    Args:
        inputs: raw samples in device layout, and their labels, where known.

    Raises:
        BlrcError: the program has several members, or ONNX Runtime cannot run the original.
    """
    if len(program.members) > 1:
        raise BlrcError(f"{original.path}: is one network, but the export has {len(program.members)}")
    again = lower([original.net])
    problems = _other_tables(program, again)
    same = program_file.digest(again) == program_file.digest(program)
    exact = replace(original.net, rounding="exact")
    if [op.name for op in program.ops] != [op.name for op in again.ops] or program.input != again.input:
        return _nothing(original, problems)
    found = places(program, exact, original.graph, original.flows)
    decided: dict[str, Decided] = {}
    for number, place in enumerate(found):
        progress("thresholds of the original", number, len(found))
        if place.decision is not None:
            decided[place.layer] = compare_thresholds(
                program, place.decision, exact.encoding, original.model, original.batch
            )
    progress("thresholds of the original", len(found), len(found))
    channels = tuple(channel for each in decided.values() for channel in each.channels)
    problems += [f"{channel}" for channel in channels if not channel.explained]
    tally = _Tally(program, original, found, decided)
    for raw, labels in inputs:
        tally.run(raw, labels, progress)
    return Against(
        original.sha256,
        same,
        tally.layers,
        sum(each.decisions for each in decided.values()),
        channels,
        tally.scores,
        tally.farthest,
        tally.bound,
        tally.labels,
        tally.same,
        None if not tally.labelled else 100.0 * tally.correct / tally.labelled,
        tuple([*problems, *tally.problems()]),
        (),
    )


def _nothing(original: Original, problems: list[str]) -> Against:
    return Against(original.sha256, False, {}, 0, (), 0, 0.0, 0.0, 0, 0, None, tuple(problems), ())


def _other_tables(program: Program, again: Program) -> list[str]:
    """Say what of a program is not what importing the original gives: its layers, or the tables of one."""
    ours, theirs = ([(type(op).__name__, op.name, op.y.shape) for op in each.ops] for each in (program, again))
    if ours != theirs or program.input != again.input:
        first = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
        )
        names = [repr(each[first][1]) if first < len(each) else "nothing" for each in (ours, theirs)]
        return [
            f"the original has other layers: {names[1]} where the export has {names[0]}; give the file it was made of"
        ]
    problems = []
    for op in program.ops:
        for name in op.constants:
            a, b = program.constant(name), again.constant(name)
            if a.shape != b.shape:
                problems.append(f"layer {op.name!r}: {name} has the shape {a.shape}, and from the original {b.shape}")
            elif not np.array_equal(a, b):
                rows = np.flatnonzero((a != b).reshape(len(a), -1).any(axis=1))
                problems.append(
                    f"layer {op.name!r}: {name} is not what the original gives, first in channel {rows[0]} "
                    f"({len(rows)} of {len(a)})"
                )
    if program.score_scale != again.score_scale:
        problems.append(f"the scores' scale is {program.score_scale:g}, and from the original {again.score_scale:g}")
    return problems


class _Tally:
    """Run the original on inputs, and compare each layer on the original's own bits of the layer before."""

    def __init__(
        self, program: Program, original: Original, found: Sequence[Place], decided: dict[str, Decided]
    ) -> None:
        self.program, self.original, self.places = program, original, found
        self.source: Tensor = source_of(original.graph, original.flows)
        self.last = scores_of(original.flows)
        outputs = list(dict.fromkeys([*(place.bits.name for place in found), self.last.name]))
        self.part = Part(original.model, self.source.name, self.source.flow, outputs, original.batch)
        self.layers = {place.layer: Layer() for place in found}
        self.variants = {
            place.layer: tuple(
                with_thresholds(program, place.layer, table)
                for table in (place.decision.rule.threshold, decided[place.layer].float32)
            )
            for place in found
            if place.decision is not None
        }
        self.tail = program.ops[sum(len(place.ops) for place in found) :]
        inputs = prod(program.ops[-1].x.shape)
        self.bound = float(Fraction(inputs + 1) * Fraction(program.score_scale) / 2)
        self.slack = SINGLE * program.ops[-1].peak(program) * program.score_scale
        self.scores = self.labels = self.same = self.labelled = self.correct = self.far = 0
        self.farthest = 0.0
        self.first: dict[str, str] = {}

    def run(self, raw: NDArray[Any], labels: NDArray[Any] | None, progress: Callable[[str, int, int], None]) -> None:
        """Compare inputs, some at a time."""
        values = prod(self.program.input.shape) + sum(op.largest_map for op in self.program.ops)
        step = max(1, AT_ONCE // (4 * values))
        for i in range(0, len(raw), step):
            progress("original", i, len(raw))
            self._chunk(raw[i : i + step], None if labels is None else labels[i : i + step])
        progress("original", len(raw), len(raw))

    def _chunk(self, raw: NDArray[Any], labels: NDArray[Any] | None) -> None:
        encoding = self.original.net.encoding
        given = raw.astype(np.uint8) if self.program.input.dtype == "bits" else raw
        theirs = self.part.run(fed(self.source, encoding, torch_layout(given, encoding.shape)))
        x = raw.astype(bool) if self.program.input.dtype == "bits" else raw
        for place in self.places:
            wanted = is_plus(place.bits, theirs[place.bits.name]) != place.inverted
            ours = _through(self.program, place.ops, x)
            wanted = wanted.reshape(ours.shape)
            self._compare_bits(place, x, ours, wanted)
            x = wanted
        real = from_file(self.last.flow, theirs[self.last.name]).reshape(len(raw), -1).astype(np.float64)
        self._compare_scores(real, _through(self.program, self.tail, x).reshape(len(raw), -1))
        label = real.argmax(axis=1)
        self.labels += len(raw)
        self.same += int((label == reference.labels(reference.scores(self.program, raw))).sum())
        if labels is not None:
            self.labelled += len(raw)
            self.correct += int((label == labels).sum())

    def _compare_bits(self, place: Place, x: NDArray[Any], ours: NDArray[Any], wanted: NDArray[np.bool_]) -> None:
        """Count bits that differ, and those of them where exact rationals give ours and float32 gives theirs."""
        layer, other = self.layers[place.layer], ours != wanted
        layer.bits += ours.size
        rows = np.flatnonzero(other.reshape(len(other), -1).any(axis=1))
        if not len(rows):
            return
        other, wanted = other[rows], wanted[rows]
        unexplained = other
        if (variants := self.variants.get(place.layer)) is not None:
            exact, float32 = (_through(variant, place.ops, x[rows]) for variant in variants)
            unexplained = other & ~((exact != wanted) & (float32 == wanted))
        layer.differ += int(other.sum())
        layer.explained += int(other.sum()) - int(unexplained.sum())
        if unexplained.any() and place.layer not in self.first:
            at = [int(i[0]) for i in np.nonzero(unexplained)]
            self.first[place.layer] = f"first in channel {at[3]} at row {at[1]}, column {at[2]}"

    def _compare_scores(self, real: NDArray[np.float64], ours: NDArray[Any]) -> None:
        far = np.abs(ours.astype(np.float64) * self.program.score_scale - real)
        self.scores += real.size
        self.farthest = max(self.farthest, float(far.max(initial=0.0)))
        self.far += int((~(far <= self.bound + self.slack)).sum())

    def problems(self) -> list[str]:
        """Return what is not explained."""
        found = [
            f"layer {name!r}: {layer.differ - layer.explained:,} of {layer.bits:,} bits are not the original's, "
            f"{self.first[name]}"
            for name, layer in self.layers.items()
            if layer.differ > layer.explained
        ]
        if self.far:
            found.append(
                f"{self.far:,} of {self.scores:,} scores are not the original's: off by {self.farthest:.3g}, but rounding "
                f"explains {self.bound:.3g}"
            )
        return found


def _through(program: Program, ops: Sequence[Op], x: NDArray[Any]) -> NDArray[Any]:
    for op in ops:
        x = op.run(program, x, 0)
    return x
