"""Run `blrc bench`, with one line of code for each stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blrc.benchmark.clock import SECONDS
from blrc.benchmark.devices import measure_devices
from blrc.benchmark.host import Progress, measure
from blrc.benchmark.report import to_plain
from blrc.benchmark.show.text import to_text
from blrc.benchmark.subject import Subject, load
from blrc.display import Figures
from blrc.errors import BlrcError
from blrc.program.program import Program
from blrc.reading.given import typed
from blrc.store.places import writable, write_atomically
from blrc.verification.devices import parse_machines

if TYPE_CHECKING:
    from blrc.frontend.checkpoint import Checkpoint

ROUNDS = 15


@dataclass(frozen=True)
class BenchRequest:
    """Hold the options of `bench`, which documents them.

    Raises:
        BlrcError: the number of rounds is less than 1, or rounds are given together with machines, whose instructions
            are counted.
    """

    machines: tuple[str, ...] = ()
    rounds: int | None = None
    others: bool = True
    plot: Path | None = None
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        if self.machines and self.rounds is not None:
            raise BlrcError(f"--rounds {self.rounds} is about times, and --on counts instructions; leave out either")
        if self.rounds is not None and self.rounds < 1:
            raise BlrcError(f"rounds {self.rounds}: must be at least 1")


class BenchReport(Figures):
    """Hold what `bench` measured, as plain data (`blrc.benchmark.report.to_plain`)."""

    def __repr__(self) -> str:
        """Name what was measured. ``print`` shows the tables instead."""
        parts = ", ".join(key for key in ("host", "devices") if key in self)
        return f"BenchReport({self['name']!r} for {self['cpu']} CPUs: {parts})"

    def __str__(self) -> str:
        return to_text(self)


@typed
def bench(
    model: str | Path | Program | Checkpoint,
    *,
    on: str | Sequence[str] | None = None,
    rounds: int | None = None,
    others: bool = True,
    plot: str | Path | None = None,
    seconds: float | None = None,
    progress: Progress = lambda what, done, total: None,
    digest: str | None = None,
    trust_code: bool = False,
) -> BenchReport:
    """Measure how fast a model's C is: in time on this machine beside its rivals, or in instructions on others.

    Args:
        model: an exported folder, a checkpoint, an ONNX file or a program, as for `blrc.compile`.
        on: machines to emulate, as for `blrc.verify`. Nothing is timed on this machine then.
        rounds: number of rounds, in each of which everything that is timed has its turn; None is 15.
        others: also measure what other choices of export options would have cost.
        plot: path of an SVG file for a figure (needs matplotlib).
        seconds: time of one measurement; None is 0.01.
        progress: called with what is being done, how much of it is done, and how much there is.
        digest, trust_code: as for `blrc.compile`.

    Returns:
        Plain data as in `blrc.benchmark.report.to_plain`, which ``print`` shows as tables.

    Raises:
        BlrcError: for every mistake that a user can make.
    """
    request = BenchRequest(
        machines=parse_machines(on),
        rounds=rounds,
        others=others,
        plot=None if plot is None else Path(plot),
        seconds=SECONDS if seconds is None else seconds,
    )
    draw = None if plot is None else _figure()
    if request.plot is not None:  # check this before the measurement, which takes long
        writable(request.plot.parent)
    plain = run(load(model, digest, trust_code), request, progress)
    if draw is not None and request.plot is not None:
        write_atomically(request.plot, draw(plain))
    return plain


def run(subject: Subject, request: BenchRequest, progress: Progress) -> BenchReport:
    """Measure a model as a request asks."""
    if request.machines:
        devices = measure_devices(subject, request.machines, request.others, progress)
        return BenchReport(to_plain(subject, None, devices))
    rounds = ROUNDS if request.rounds is None else request.rounds
    return BenchReport(to_plain(subject, measure(subject, rounds, request.others, request.seconds, progress), ()))


def _figure() -> Callable[[dict[str, Any]], bytes]:
    from blrc.benchmark.show import figure  # matplotlib is an extra

    return figure.draw
