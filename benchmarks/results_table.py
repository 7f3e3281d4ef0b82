"""Tables of docs/results.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from results_runs import Run

Record = Mapping[str, Any]
NAMES = {
    "bnn": "Binarized NN",
    "stochastic": "stochastic network",
    "map": "BLRNet, MAP",
    "2": "BLRNet, 2 members",
    "5": "BLRNet, 5 members",
    "16": "BLRNet, 16 members",
    "fp": "FPNet",
}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; all columns but the first are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def percent(value: float | None, deviation: float | None = None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" + (f" ± {deviation:.2f}" if deviation else "")


def runs_table(runs: Iterable[tuple[Run, Record]]) -> str:
    """A row for each run: its command, length and accuracies."""
    rows = []
    for run, record in runs:
        first = "fp" if run.is_real else "map"
        rows.append(
            [
                f"`{run.command}`",
                record["date"],
                str(len(record["history"])),
                f"{cpu_seconds(record):,.0f}",
                percent(record["validation"][first]),
                percent(record["test"][first]),
                percent(record["validation"].get("16")),
                percent(record["test"].get("16")),
            ]
        )
    return table(["", "date", "epochs", "CPU s", "validation", "test", "validation, 16", "test, 16"], rows)


def cpu_seconds(record: Record) -> float:
    """Of all epochs of a run that recorded them."""
    return sum(float(row.get("cpu_seconds", 0)) for row in record["history"])
