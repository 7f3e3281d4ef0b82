"""Times of several contestants, measured in turns, so that what else the machine does strikes them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Run = Callable[[int], object]
"""Does its work so many times, in the calling thread; or elsewhere, and gives the `Time` that this took there."""

SECONDS = 0.01  # of one measurement
LEAST = 1e-7  # seconds that a run is taken to last at least


@dataclass(frozen=True)
class Time:
    """Seconds of one run, medians over rounds: of the calling thread on a CPU, and on the wall."""

    cpu: float
    wall: float


def interleaved(
    contestants: Mapping[Key, Run],
    rounds: int,
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Key, Time]:
    """The time of one run of each: in every round each contestant has its turn, of about so many `seconds`.

    Args:
        progress: is told how many rounds are done, and how many there are.
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
    """How often it runs in so many seconds: by a few runs after those that warm it up."""
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
