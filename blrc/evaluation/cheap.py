"""Compare cheap ensembles: their accuracy, bytes of tables, and how many networks an answer takes.

The choices are those of ``blrc export``: ``--sample`` (only some layers differ between members), ``--freeze`` (nearly
certain weights stay at MAP) and ``--gate`` (MAP answers first, and the members only where it is not certain).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from blrc.datasets.labelled import Labelled
from blrc.errors import BlrcError
from blrc.evaluation import metrics, scoring
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, NONE, Member, binary_convolutions, binary_layers
from blrc.lowering.lower import lower
from blrc.lowering.statistics import nets_of
from blrc.net.net import Net
from blrc.program import head
from blrc.program.head import Sums
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.size import footprint

GATES = (Fraction(9, 10), Fraction(95, 100), Fraction(98, 100), Fraction(99, 100))
FREEZE = Fraction(1, 10)
Progress = Callable[[str, int, int], None]
Scores = NDArray[np.int32]


@dataclass(frozen=True)
class Cheap:
    """Hold the results of one way to export a checkpoint, over repeats with other members.

    Attributes:
        options: the options of ``blrc export``.
        accuracy_mean, accuracy_std: mean and standard deviation of the accuracy, in per cent.
        tables, tables_ratio: bytes of constant tables in the C (those of the first repeat), and their ratio to MAP's.
        flash, flash_ratio: flash that the C takes, an upper bound for a Cortex-M4 (`blrc.targets.c.size.footprint`), in
            bytes, and its ratio to MAP's.
        networks_mean: networks that ``NAME_predict`` runs for a sample, on average; each costs what MAP costs.
    """

    options: str
    accuracy_mean: float
    accuracy_std: float
    tables: int
    tables_ratio: float
    flash: int
    flash_ratio: float
    networks_mean: float


@dataclass(frozen=True)
class _Variant:
    """Describe one way to sample the members, and the gates to try with them (0: none)."""

    options: str
    layers: tuple[str, ...] | None
    freeze: Fraction
    gates: tuple[int, ...]


@dataclass(frozen=True)
class _Size:
    """Hold the bytes of an export's tables, and of all its flash."""

    tables: int
    flash: int


def evaluate_cheap(
    checkpoint: Checkpoint,
    data: Labelled,
    members: int,
    repeats: int = 1,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
    layers: tuple[str, ...] | None = None,
    freeze: Fraction = NONE,
) -> list[Cheap]:
    """Measure MAP, the full ensemble, and what saves flash or time, each as ``NAME_predict`` would answer.

    Args:
        members: the number of members of each ensemble.
        repeats: how often the members are drawn anew.
        layers, freeze: another way to sample, beside those that are always tried (see `blrc.frontend.sample.Member`).

    Raises:
        BlrcError: there are fewer than 2 members or 1 repeat, no calibration samples, or a network cannot be compiled.
    """
    if members < 2 or repeats < 1:
        raise BlrcError(f"cheap ensembles of {members} members in {repeats} repeats: need 2 and 1 at least")
    kinds = binary_layers(checkpoint)
    convolutions = binary_convolutions(checkpoint)
    gates = tuple(map(head.gate_of, GATES))
    variants = [_Variant("", None, NONE, (0, *gates))]
    if convolutions and len(convolutions) < len(kinds):
        variants.append(_Variant(" --sample conv", convolutions, NONE, (0, *gates)))
    variants.append(_Variant(f" --freeze {float(FREEZE):g}", None, FREEZE, (0,)))
    if (layers, freeze) not in {(variant.layers, variant.freeze) for variant in variants}:
        sampled = "" if layers is None else f" --sample {','.join(layers)}"
        frozen = "" if freeze == NONE else f" --freeze {float(freeze):g}"
        variants.append(_Variant(sampled + frozen, layers, freeze, (0, *gates)))
    total, count = 1 + len(variants) * repeats * members, 1
    progress("map", 0, total)
    map_net = _net(checkpoint, MAP)
    map_scores = _scores(map_net, data)
    scale = head.scale_of(lower([map_net]).score_scale)
    size = _size([map_net], 0)
    accuracy = metrics.accuracy(map_scores.argmax(axis=1), data.labels)
    found = [Cheap("--members map", accuracy, 0.0, size.tables, 1.0, size.flash, 1.0, 1.0)]
    for variant in variants:
        answers: dict[int, list[tuple[float, float]]] = {gate: [] for gate in variant.gates}
        sizes: dict[int, _Size] = {}
        for repeat in range(repeats):
            nets, scores = [], []
            for index in range(members):
                nets.append(_net(checkpoint, Member(seed + repeat, index, variant.layers, variant.freeze)))
                scores.append(_scores(nets[-1], data))
                count += 1
                progress(variant.options.strip() or "all layers sampled", count, total)
            for gate in variant.gates:
                label, networks = predict([map_scores, *scores] if gate else scores, scale, gate)
                answers[gate].append((metrics.accuracy(label, data.labels), float(networks.mean())))
                if repeat == 0:
                    sizes[gate] = _size([map_net, *nets] if gate else nets, gate)
        found += _rows(variant, members, answers, sizes, size)
    return found


def predict(scores: Sequence[Scores], scale: head.Scale, gate: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the label and the number of networks run, ``(N,)`` each, as the C's ``NAME_predict`` gives them.

    Args:
        scores: the scores of the members in order, ``(N, classes)`` each; with a gate the first are MAP's.
        gate: the gate in Q16, or 0 for none.
    """
    sums = Sums.start(*scores[0].shape)
    label = np.zeros(len(scores[0]), dtype=np.int64)
    networks = np.zeros(len(scores[0]), dtype=np.int64)
    going = np.ones(len(scores[0]), dtype=bool)
    for index, member in enumerate(scores):
        sums = sums.add(member, scale)
        answer = sums.answer()
        label[going], networks[going] = answer.label[going], index + 1
        stop = sums.settled(len(scores) - index - 1)
        if gate and index == 0:
            stop |= answer.mean >= gate
        going &= ~stop
    return label, networks


def _rows(
    variant: _Variant,
    members: int,
    answers: dict[int, list[tuple[float, float]]],
    sizes: dict[int, _Size],
    of_map: _Size,
) -> Iterator[Cheap]:
    names = {0: "", **{head.gate_of(gate): f" --gate {float(gate):g}" for gate in GATES}}
    for gate, measured in answers.items():
        accuracy = metrics.spread([a for a, _ in measured])
        yield Cheap(
            f"--members {members}{variant.options}{names[gate]}",
            accuracy.mean,
            accuracy.std,
            sizes[gate].tables,
            sizes[gate].tables / of_map.tables,
            sizes[gate].flash,
            sizes[gate].flash / of_map.flash,
            float(np.mean([networks for _, networks in measured])),
        )


def _net(checkpoint: Checkpoint, member: Member) -> Net:
    return nets_of(checkpoint, [member])[0]


def _size(nets: Sequence[Net], gate: int) -> _Size:
    layout = lay_out(lower(nets, gate))
    return _Size(sum(step.flash for step in layout.steps), footprint.measure(layout).flash_bytes)


def _scores(net: Net, data: Labelled) -> Scores:
    return scoring.scores([lower([net])], data.raw)[0]
