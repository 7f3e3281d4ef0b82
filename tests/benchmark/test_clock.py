"""Times are medians over rounds in which everything has its turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blrc.benchmark import clock
from blrc.benchmark.clock import Time, interleaved


class Clock:
    """Stands in for the module `time`: it goes on only while a contestant runs."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0
        self.ran: list[tuple[str, int]] = []

    def thread_time(self) -> float:
        return self.cpu

    def perf_counter(self) -> float:
        return self.wall

    def contestant(self, name: str, cpu: list[float]) -> Callable[[int], None]:
        """Takes so many seconds of CPU a run, one entry a call, the last one from then on; twice that on the wall."""

        def run(repeats: int) -> None:
            self.ran.append((name, repeats))
            each = cpu.pop(0) if len(cpu) > 1 else cpu[0]
            self.cpu += repeats * each
            self.wall += 2 * repeats * each

        return run


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(clock, "time", made)
    return made


def test_everything_has_its_turn_in_every_round(fake: Clock) -> None:
    done: list[tuple[int, int]] = []
    runs = {"a": fake.contestant("a", [1.0]), "b": fake.contestant("b", [0.25])}
    found = interleaved(runs, 3, 2.0, lambda *at: done.append(at))
    assert fake.ran[:4] == [("a", 2), ("a", 3), ("b", 2), ("b", 3)]  # warm-up, and how long one takes
    assert fake.ran[4:] == [("a", 2), ("b", 8)] * 3
    assert found == {"a": Time(1.0, 2.0), "b": Time(0.25, 0.5)}
    assert done == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_one_slow_round_changes_nothing(fake: Clock) -> None:
    found = interleaved({1: fake.contestant("", [1.0, 1.0, 1.0, 64.0, 1.0])}, 3, 1.0)
    assert found == {1: Time(1.0, 2.0)}


def test_what_takes_longer_than_a_measurement_runs_once(fake: Clock) -> None:
    interleaved({"a": fake.contestant("a", [5.0])}, 1, 1.0)
    assert fake.ran[-1] == ("a", 1)


def test_what_runs_elsewhere_tells_its_own_time(fake: Clock) -> None:
    def run(repeats: int) -> Time:
        fake.ran.append(("", repeats))
        fake.cpu, fake.wall = fake.cpu + 100, fake.wall + 100  # ours, waiting for it
        return Time(0.5 * repeats, 0.75 * repeats)

    assert interleaved({"": run}, 2, 4.0) == {"": Time(0.5, 0.75)}
    assert [repeats for _, repeats in fake.ran] == [2, 3, 8, 8]
