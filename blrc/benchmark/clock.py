"""Time several contestants in turns, so that other load on the machine affects all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Run = Callable[[int], object]
"""Does its work so many times, in the calling thread; or elsewhere, and gives the `Time` that this took there."""

SECONDS = 0.01  # time of one measurement
LEAST = 1e-7  # lower bound on the seconds of a run


@dataclass(frozen=True)
class Time:
    """Hold the seconds that one run takes.

    Attributes:
        cpu: CPU seconds of the calling thread.
        wall: wall-clock seconds.
    """

    cpu: float
    wall: float


def interleaved(
    contestants: Mapping[Key, Run],
    rounds: int,
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Key, Time]:
    """Return the time of one run of each contestant, the median over rounds in which each one has its turn.

    Args:
        contestants: functions to time, by name.
        rounds: number of rounds.
        seconds: CPU time of one turn, approximately.
        progress: called with the number of finished rounds and the number of all rounds.
    """
    repeats = {name: _repeats(run, seconds) for name, run in contestants.items()}
    spent: dict[Key, list[Time]] = {name: [] for name in contestants}
    for done in range(rounds):
        progress(done, rounds)
        for name, run in contestants.items():
            took = _took(run, repeats[name])
            spent[name].append(Time(took.cpu / repeats[name], took.wall / repeats[name]))
    progress(rounds, rounds)
    return {name: _median(each) for name, each in spent.items()}


def _repeats(run: Run, seconds: float) -> int:
    """Estimate how often a contestant runs in so many seconds, from a few runs after a warm-up."""
    run(2)
    each = max(LEAST, _took(run, 3).cpu / 3)
    return max(1, round(seconds / each))


def _took(run: Run, repeats: int) -> Time:
    wall, cpu = time.perf_counter(), time.thread_time()
    elsewhere = run(repeats)
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    return elsewhere if isinstance(elsewhere, Time) else Time(cpu, wall)


def _median(times: list[Time]) -> Time:
    return Time(statistics.median(t.cpu for t in times), statistics.median(t.wall for t in times))
