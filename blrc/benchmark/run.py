"""`blrc bench`: one line a stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blrc.benchmark.clock import SECONDS
from blrc.benchmark.devices import measure_devices
from blrc.benchmark.host import Progress, measure
from blrc.benchmark.report import to_plain
from blrc.benchmark.subject import load
from blrc.errors import BlrcError
from blrc.program.program import Program
from blrc.store.places import writable, write_atomically
from blrc.verification.devices import parse_machines

if TYPE_CHECKING:
    from blrc.frontend.checkpoint import Checkpoint

ROUNDS = 15


def bench(
    model: str | Path | Program | Checkpoint,
    on: str | None = None,
    rounds: int | None = None,
    others: bool = True,
    json_file: str | Path | None = None,
    plot: str | Path | None = None,
    seconds: float | None = None,
    progress: Progress = lambda what, done, total: None,
    digest: str | None = None,
    trust_code: bool = False,
) -> dict[str, Any]:
    """How fast a model's C is: on this machine beside its rivals, or on others in instructions.

    Args:
        model: what `blrc.compile` takes: an exported folder, a checkpoint, a program.
        on: machines in emulators, with commas between (`machines.ALL`); then nothing is timed here.
        rounds: in each of which everything that is timed has its turn; by default 15.
        others: show what other choices of options would have cost.
        json_file: is written with what is returned.
        plot: a file for a figure, SVG (needs matplotlib).
        seconds: of one measurement; by default 0.01.
        progress: is told what is being done, how much of it is done, and how much there is.
        digest, trust_code: as for `blrc.compile`.

    Returns:
        plain data, see `blrc.benchmark.report.to_plain`.

    Raises:
        BlrcError: for every mistake that a user can make.
    """
    if on is not None and rounds is not None:
        raise BlrcError(f"--rounds {rounds} is about times, and --on counts instructions; leave out either")
    rounds = ROUNDS if rounds is None else rounds
    if rounds < 1:
        raise BlrcError(f"rounds {rounds}: must be at least 1")
    draw = None if plot is None else _figure()
    machines = () if on is None else parse_machines(on)
    for file in (json_file, plot):  # measuring takes long; what cannot be written is found before it
        if file is not None:
            writable(Path(file).parent)
    subject = load(model, digest, trust_code)
    if machines:
        plain = to_plain(subject, None, measure_devices(subject, machines, others, progress))
    else:
        plain = to_plain(
            subject, measure(subject, rounds, others, SECONDS if seconds is None else seconds, progress), ()
        )
    if json_file is not None:
        write_atomically(Path(json_file), (json.dumps(plain, indent=2) + "\n").encode())
    if draw is not None and plot is not None:
        write_atomically(Path(plot), draw(plain))
    return plain


def _figure() -> Callable[[dict[str, Any]], bytes]:
    from blrc.benchmark.show import figure  # matplotlib is an extra

    return figure.draw
