"""Goals of speed and of instructions beside what was measured, and what a measurement says of those that are missed.

Ratios are for a Zen 4 CPU; on another one they are only a comparison. 85 % of a ratio to float32 counts as reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blrc.benchmark.rivals.registry import FLOAT32, INT8

COUNTS = 0.85  # of a ratio
RATIOS = {
    "avx512": {"a": 23, "b": 22, "c": 25, "d": 20, "e": 50, "f": 150, "g": 20, "h": 24},
    "avx2": {"a": 12, "b": 16, "c": 12, "d": 8, "e": 23, "f": 80, "g": 8, "h": 11},
    "portable": {"a": 4, "b": 7, "c": 4.8, "d": 1.7, "e": 12, "f": 55, "g": 2, "h": 4},  # or popcnt, the better
}
OF_INT8 = 5.0  # times ONNX Runtime in int8, with AVX-512, every shape


@dataclass(frozen=True)
class Budget:
    """Instructions of one inference on a microcontroller, in at most so many bytes of RAM: arena, input and scores, as
    the int8 figures count. `network` is ``mnist`` or ``cifar10`` at full width."""

    machine: str
    network: str
    instructions: int
    ram: int | None = None


BUDGETS = (
    Budget("cortex-m4", "mnist", 2_600_000, 2 * 1024),
    Budget("cortex-m4", "mnist", 1_800_000, 20 * 1024),
    Budget("cortex-m4", "mnist", 1_500_000, 64 * 1024),
    Budget("cortex-m4", "cifar10", 145_000_000, 160 * 1024),
    Budget("cortex-m4", "cifar10", 100_000_000, 160 * 1024),
    Budget("cortex-m55", "mnist", 900_000),
    Budget("cortex-m55", "cifar10", 60_000_000),
)


@dataclass(frozen=True)
class Goal:
    """One goal and what was found.

    Attributes:
        level: of the instruction set.
        shape: a to h.
        goal: times a rival's speed.
        counts: from this ratio on it is reached.
        found: the ratio measured.
        at_peak: the ratio if the layer ran at the popcount peak measured in the same rounds, and nothing else took
            time; bit-sliced kernels, which count nothing, may pass it.
        fixed: share of the time that does not depend on the number of outputs, so is neither xor nor count: windows
            are gathered, borders found, tables of look-ups filled. None for dense layers and networks.
    """

    level: str
    shape: str
    rival: str
    goal: float
    counts: float
    found: float
    at_peak: float
    fixed: float | None

    @property
    def reached(self) -> bool:
        return self.found >= self.counts

    @property
    def why(self) -> str:
        """What stands in the way, in measured terms; empty where it is reached."""
        if self.reached:
            return ""
        if self.at_peak < self.counts:
            return (
                f"the popcount peak itself is at {self.at_peak:.1f}: {self.found / self.at_peak:.0%} of it are reached"
            )
        text = f"{self.counts / self.at_peak:.0%} of the peak were needed, {self.found / self.at_peak:.0%} are reached"
        if self.fixed:  # less than nothing is noise
            text += f"; {self.fixed:.0%} of the time does not depend on the outputs"
        return text


def goals(shapes: Mapping[str, Mapping[str, Any]], levels: tuple[str, ...]) -> Iterator[Goal]:
    """The goals of all levels and shapes that were measured (`bench.measure`)."""
    for level, of_shapes in RATIOS.items():
        if level not in levels:
            continue
        for shape, goal in of_shapes.items():
            if shape in shapes:
                yield _goal(shapes[shape], level, shape, FLOAT32, "ratio_vs_ort_fp32", goal, COUNTS * goal)
    if "avx512" in levels:
        for shape, row in shapes.items():
            yield _goal(row, "avx512", shape, INT8, "ratio_vs_ort_int8", OF_INT8, OF_INT8)


def _goal(row: Mapping[str, Any], level: str, shape: str, rival: str, ratio: str, goal: float, counts: float) -> Goal:
    us = row["us"]
    run = "popcnt" if level == "portable" and us.get("popcnt", us[level]) < us[level] else level
    at_peak = us[rival] * row["peak_gmacs"][run] * 1e3 / row["macs"]
    fixed = row.get("fixed_us", {}).get(run)
    return Goal(
        level, shape, rival, goal, counts, row[ratio][level], at_peak, None if fixed is None else fixed / us[run]
    )


INPUT_AND_SCORES = {"mnist": 784 + 40, "cifar10": 3072 + 40}  # bytes


def best_choice(budget: Budget, devices: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The fewest instructions that an export takes there within the RAM of a goal: a choice of `blrc bench --on`."""
    (device,) = (device for device in devices if device["name"] == budget.machine)
    fitting = [
        choice
        for choice in device["choices"]
        if choice["instructions"] is not None
        and (budget.ram is None or choice["arena"] + INPUT_AND_SCORES[budget.network] <= budget.ram)
    ]
    return min(fitting, key=lambda choice: int(choice["instructions"]), default=None)
