"""Evaluate a checkpoint's networks and ensembles on labelled data, repeated with other members.

Repeat r of seed s takes the members k = 0, 1, ... of seed s + r, which are those that
``blrc export --seed s+r --members N`` holds. So ensembles of 2, 5 and 16 in one repeat share members, repeats do not,
and all accuracies are those of the program exported with ``--norms estimated`` (re-estimated) or ``--norms given``
(running), bit for bit. ``map`` is one network and is evaluated once.
``stochastic`` is the torch network with sampled activations in evaluation mode, hence with the running norm statistics
of training (paper, section 5), drawn once for each repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc.datasets.labelled import Labelled
from blrc.errors import BlrcError
from blrc.evaluation import metrics, scoring
from blrc.evaluation.choice import Choice
from blrc.evaluation.metrics import Bin, Predictions, Quality, Spread
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, Member, sample
from blrc.lowering.calibrate import calibrate
from blrc.lowering.lower import lower
from blrc.lowering.statistics import norms_of
from blrc.net.encoding import torch_layout
from blrc.net.net import Net
from blrc.program import head
from blrc.program.head import Scale, Sums

Progress = Callable[[str, int, int], None]
NORMS = REESTIMATED, RUNNING = "re-estimated", "running"
BATCHES = (0, 1, 2, 5, 10, 20)  # of re-estimation, of 128 samples each; 0: running statistics
BATCH = 128
SINGLES = 5  # sampled networks in the re-estimation curve
MAX_WORKERS = 4
_TORCH_CHUNK = 250


@dataclass(frozen=True)
class Measured:
    """Hold metrics over repeats, the mean error-coverage curve, and the reliability of all repeats together."""

    quality: Mapping[str, Spread]
    coverage: Sequence[float]
    error: Sequence[float]
    reliability: tuple[Bin, ...]


@dataclass(frozen=True)
class Reestimation:
    """Hold the accuracy in per cent after re-estimating norms on each number of batches.

    A number of 0 batches stands for the running statistics of training.
    """

    batches: tuple[int, ...]
    map: tuple[float, ...]
    sampled: tuple[Spread, ...]
    networks: int


@dataclass(frozen=True)
class Evaluation:
    """Hold the measurements for each entry and each baseline, by norm statistics (`NORMS`).

    The entry ``stochastic``, full-precision baselines, and checkpoints that keep their norms as given and have no
    calibration samples have only running statistics.

    Attributes:
        accuracies: the accuracy of each repeat in per cent, by entry and norm statistics.
        reestimation: the re-estimation curve, or None if it was not asked for.
    """

    samples: int
    choice: Choice
    entries: Mapping[str, Mapping[str, Measured]]
    baselines: Mapping[str, Mapping[str, Measured]]
    accuracies: Mapping[str, Mapping[str, tuple[float, ...]]]
    reestimation: Reestimation | None


class _Collector:
    """Collect qualities and curves of one entry under one norm statistics, repeat by repeat."""

    def __init__(self) -> None:
        self.qualities: list[Quality] = []
        self.curves: list[metrics.Floats] = []
        self.bins: list[tuple[Bin, ...]] = []

    def add(self, predictions: Predictions, labels: NDArray[np.int64]) -> None:
        self.qualities.append(metrics.measure(predictions, labels))
        self.curves.append(metrics.error_coverage(predictions, labels))
        self.bins.append(metrics.reliability(predictions, labels))

    def measured(self) -> Measured:
        rows = [asdict(quality) for quality in self.qualities]
        quality = {field.name: metrics.spread([row[field.name] for row in rows]) for field in fields(Quality)}
        coverage, error = metrics.downsample(np.mean(self.curves, axis=0))
        return Measured(quality, coverage, error, metrics.pooled(self.bins))


def evaluate(
    checkpoint: Checkpoint,
    data: Labelled,
    choice: Choice,
    baselines: Mapping[str, Checkpoint | nn.Module],
    reestimation: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Evaluation:
    """Evaluate every entry of `choice`, each baseline, and on request the re-estimation curve.

    Args:
        baselines: checkpoints, evaluated as ``map`` is, and full-precision networks, which take what `checkpoint`'s
            stochastic network takes.
        reestimation: whether to measure the re-estimation curve.

    Raises:
        BlrcError: there are no calibration samples, no samples, or fewer than one repeat, or a network cannot be
            compiled.
    """
    if choice.repeats < 1:
        raise BlrcError(f"--repeats {choice.repeats}: must be at least 1")
    choice.member(choice.repeats - 1, 0)  # refuses a seed that is too large before anything is computed
    largest = max(choice.sizes, default=0)
    compiled = {name: other for name, other in baselines.items() if isinstance(other, Checkpoint)}
    real = {name: other for name, other in baselines.items() if isinstance(other, nn.Module)}
    jobs = [(other, MAP) for other in compiled.values()]
    jobs += [(checkpoint, MAP)] if "map" in choice.entries else []
    jobs += [(checkpoint, choice.member(repeat, index)) for repeat in range(choice.repeats) for index in range(largest)]
    singles = [MAP, *(choice.member(repeat, 0) for repeat in range(min(choice.repeats, SINGLES)))]
    draws = choice.repeats if "stochastic" in choice.entries else 0
    curve = len(singles) if reestimation else 0
    count = _Counter(progress, draws + len(jobs) + curve + len(real))
    collected: dict[tuple[str, str], _Collector] = {}

    def collect(name: str, norms: str, predictions: Predictions) -> None:
        collected.setdefault((name, norms), _Collector()).add(predictions, data.labels)

    for repeat in range(draws):
        collect("stochastic", "running", _stochastic(checkpoint, data, choice.seed + repeat))
        count.done("stochastic network")
    for name, model in real.items():
        collect(name, "running", _torch(model.eval(), checkpoint, data))
        count.done("baselines")
    with _workers() as pool:
        found = pool.map(lambda job: _both(job[0], job[1], data), jobs)
        for name in compiled:
            _single(name, next(found), collect)
            count.done("baselines")
        if "map" in choice.entries:
            _single("map", next(found), collect)
            count.done("map")
        for repeat in range(choice.repeats if largest else 0):
            for name, norms, predictions in _ensembles(choice.sizes, found, largest, count, repeat):
                collect(name, norms, predictions)
        steps = _batches(checkpoint) if reestimation else ()
        rows = []
        for row in pool.map(lambda member: _by_batches(checkpoint, member, steps, data), singles[:curve]):
            rows.append(row)
            count.done("re-estimation batches")
    return Evaluation(
        len(data.labels),
        choice,
        {entry: _measured(entry, collected) for entry in choice.entries},
        {name: _measured(name, collected) for name in baselines},
        {
            entry: {
                norms: tuple(quality.accuracy for quality in collected[entry, norms].qualities)
                for norms in NORMS
                if (entry, norms) in collected
            }
            for entry in choice.entries
        },
        _reestimation(steps, rows) if reestimation else None,
    )


class _Counter:
    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.count = progress, total, 0
        progress("start", 0, total)

    def done(self, what: str) -> None:
        self.count += 1
        self.progress(what, self.count, self.total)


@contextmanager
def _workers() -> Iterator[ThreadPoolExecutor]:
    """Give a pool of threads for whole networks instead of threads inside torch's operations, which are too short."""
    threads = torch.get_num_threads()
    workers = min(threads, MAX_WORKERS)
    torch.set_num_threads(max(1, threads // workers))
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)  # an interrupt waits for the networks in work, not for the rest
        torch.set_num_threads(threads)


Scored = dict[str, tuple[NDArray[np.int32], Scale]]


def _calibrated(checkpoint: Checkpoint, member: Member, samples: int | None = None) -> Net:
    return calibrate(sample(checkpoint, member), checkpoint.samples()[:samples])


def _both(checkpoint: Checkpoint, member: Member, data: Labelled) -> Scored:
    """Return the scores of a network with re-estimated norms and with running ones, each with its scale.

    A norm behind a binary last layer sets the scale (`blrc.lowering.affine`), so other statistics may give another
    scale. Nothing is re-estimated for a checkpoint that keeps its norms as given and has no calibration samples.
    """
    nets = {RUNNING: sample(checkpoint, member, running=True)}
    if checkpoint.calibration is not None or norms_of(checkpoint) == "estimated":
        nets[REESTIMATED] = _calibrated(checkpoint, member)
    programs = {norms: lower([net]) for norms, net in nets.items()}
    scores = scoring.scores(list(programs.values()), data.raw)
    return {
        norms: (found, head.scale_of(program.score_scale))
        for (norms, program), found in zip(programs.items(), scores, strict=True)
    }


Collect = Callable[[str, str, Predictions], None]


def _single(name: str, scored: Scored, collect: Collect) -> None:
    for norms, (scores, scale) in scored.items():
        collect(name, norms, predictions([scores], scale))


def predictions(scores: Sequence[NDArray[np.int32]], scale: Scale) -> Predictions:
    """Return what members with these scores say together."""
    running = _Running.start(scores[0])
    for member in scores:
        running = running.add(member, scale)
    return running.predictions()


@dataclass(frozen=True, eq=False)
class _Running:
    """Hold the sums of an ensemble: those of the device, and the members' probabilities unrounded."""

    sums: Sums
    p: metrics.Floats

    @staticmethod
    def start(scores: NDArray[np.int32]) -> _Running:
        return _Running(Sums.start(*scores.shape), np.zeros(scores.shape))

    def add(self, scores: NDArray[np.int32], scale: Scale) -> _Running:
        p = metrics.member_probabilities(head.log_probabilities(scores, scale))
        return _Running(self.sums.add(scores, scale), self.p + p)

    def predictions(self) -> Predictions:
        return metrics.of_members(self.sums, self.p)


def _ensembles(
    sizes: Sequence[int], found: Iterator[Scored], largest: int, count: _Counter, repeat: int
) -> Iterator[tuple[str, str, Predictions]]:
    """Yield the predictions of one repeat after each of `sizes` members."""
    running: dict[str, _Running] = {}
    for index in range(1, largest + 1):
        for norms, (scores, scale) in next(found).items():
            running[norms] = running.get(norms, _Running.start(scores)).add(scores, scale)
            if index in sizes:
                yield str(index), norms, running[norms].predictions()
        count.done(f"members, repeat {repeat + 1}")


def _stochastic(checkpoint: Checkpoint, data: Labelled, seed: int) -> Predictions:
    with torch.random.fork_rng(devices=[]):
        model = checkpoint.model().eval()  # building it draws weights, which are then replaced
        torch.manual_seed(seed)
        return _torch(model, checkpoint, data)


@torch.no_grad()
def _torch(model: nn.Module, checkpoint: Checkpoint, data: Labelled) -> Predictions:
    """Run a torch network on the real values that `checkpoint`'s input stands for."""
    encoding, parts = checkpoint.encoding, []
    for start in range(0, len(data.raw), _TORCH_CHUNK):  # a copy of all of them could be large
        raw = torch_layout(data.raw[start : start + _TORCH_CHUNK], encoding.shape).astype(encoding.dtype)
        parts.append(model(torch.from_numpy(encoding.real(raw))).double().numpy())
    return metrics.of_logits(np.concatenate(parts))


def _batches(checkpoint: Checkpoint) -> tuple[int, ...]:
    held = 0 if checkpoint.calibration is None else len(checkpoint.calibration)
    return tuple(batches for batches in BATCHES if batches * BATCH <= held)


def _by_batches(checkpoint: Checkpoint, member: Member, steps: Sequence[int], data: Labelled) -> tuple[float, ...]:
    nets = [
        _calibrated(checkpoint, member, step * BATCH) if step else sample(checkpoint, member, running=True)
        for step in steps
    ]
    scores = scoring.scores([lower([net]) for net in nets], data.raw)
    return tuple(metrics.accuracy(s.argmax(axis=1), data.labels) for s in scores)


def _reestimation(steps: tuple[int, ...], rows: Sequence[tuple[float, ...]]) -> Reestimation:
    sampled = tuple(metrics.spread(column) for column in zip(*rows[1:], strict=True))
    return Reestimation(steps, rows[0], sampled, len(rows) - 1)


def _measured(name: str, collected: Mapping[tuple[str, str], _Collector]) -> dict[str, Measured]:
    return {norms: collected[name, norms].measured() for norms in NORMS if (name, norms) in collected}
