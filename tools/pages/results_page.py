"""Write docs/results.md and its figures from the records in docs/results: no number in the page is typed by hand.

python tools/pages/results_page.py

Works on a fresh clone, without training anything. results.py makes the records; results.md.j2 is the page's text.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import results_figures
from jinja2 import Undefined
from results import RECORDS, ROOT, SHIPPED, best_of, sha256
from results_runs import CIFAR10, MNIST, RUNS
from template import fill

from blrc.store.places import write_atomically

PAGE = ROOT / "docs" / "results.md"
NAMES = {
    "bnn": "Binarized NN",
    "stochastic": "stochastic network",
    "map": "BLRNet, MAP",
    "2": "BLRNet, 2 members",
    "5": "BLRNet, 5 members",
    "16": "BLRNet, 16 members",
    "fp": "FPNet",
}
# Peters & Welling (2018), section 5. CIFAR-10 at full width, of the original images, and with ZCA whitening.
PAPER = {"bnn": 99.17, "map": 99.00, "2": 99.09, "5": 99.13, "16": 99.15, "fp": 99.48}
PAPER_CIFAR10 = {"bnn": 88.17, "map": 88.61, "2": 89.51, "5": 90.66, "16": 91.22, "fp": 92.36}
PAPER_WHITE = {"bnn": 88.56, "map": 88.96, "2": 89.78, "5": 90.48, "16": 90.82, "fp": 92.45}
TEST_IMAGES = 10_000
LEVELS_GOAL = 99.40  # of an LR-net with activations of two bits
GOALS = {"map": 99.30, "16": 99.40}  # of the better recipe
FURTHER = {"map": 99.40}
SHORT = 10  # epochs of CIFAR-10's ablations and of the white network
FLAT = 5  # batches from which the paper finds re-estimation flat
Record = Mapping[str, Any]


def main() -> None:
    """Write the figures and the page."""
    for name, content in results_figures.all_figures(records()).items():
        write_atomically(RECORDS / name, content)
    write_atomically(PAGE, page(records()).encode())


def records() -> dict[str, Record]:
    """Return every record by its file's name."""
    return {
        path.relative_to(RECORDS).with_suffix("").as_posix(): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(RECORDS.rglob("*.json"))
    }


def page(known: Mapping[str, Record]) -> str:
    """Return the whole page."""
    if known["cifar10/shipped"]["sha256"] != sha256(SHIPPED["cifar10"]):
        raise SystemExit("docs/results/cifar10/shipped.json is about another checkpoint; run make results-cifar10")
    return fill(
        "results.md.j2",
        CIFAR10=CIFAR10,
        GOALS=GOALS,
        LEVELS_GOAL=LEVELS_GOAL,
        MNIST=MNIST,
        NAMES=NAMES,
        PAPER=PAPER,
        PAPER_CIFAR10=PAPER_CIFAR10,
        PAPER_WHITE=PAPER_WHITE,
        SHIPPED=SHIPPED,
        SHORT=SHORT,
        TEST_IMAGES=TEST_IMAGES,
        PAPER_ORDER=("bnn", "map", "2", "5", "16", "fp"),
        records=known,
        best_of=best_of,
        batches=batches,
        count=lambda group: sum(run.group == group for run in MNIST),
        cpu_seconds=cpu_seconds,
        deviation=deviation,
        epochs=lambda runs: sum(len(known[run.name]["history"]) for run in runs),
        hours=lambda runs: sum(cpu_seconds(known[run.name]) for run in runs) / 3600,
        ours=ours,
        percent=percent,
        run=lambda name: next(run for runs in RUNS.values() for run in runs if run.name == name),
        sha256=sha256,
        span=lambda runs: span([known[run.name]["date"] for run in runs]),
        timed_epochs=lambda runs: sum("cpu_seconds" in row for run in runs for row in known[run.name]["history"]),
        pruned=lambda layers, share: pruned(known["pruning"], layers, share),
        verdicts=verdicts,
    )


def percent(value: Any = None, deviation: Any = None) -> str:
    """Return an accuracy, with its deviation over draws where there is one; a dash where nothing was measured."""
    if value is None or isinstance(value, Undefined):
        return "-"
    return f"{value:.2f}" + (f" ± {deviation:.2f}" if deviation else "")


def ours(evaluation: Record, bnn: Record | None = None, real: Record | None = None) -> dict[str, str]:
    """Return the accuracies of an evaluation's members, beside those of the baselines."""
    rows = evaluation["eval"]["members"].items()
    found = {name: percent(row["accuracy_mean"], row["accuracy_std"]) for name, row in rows}
    if bnn is not None and real is not None:
        found |= {"bnn": percent(bnn["test"]["map"]), "fp": percent(real["test"]["fp"])}
    return found


def cpu_seconds(record: Record) -> float:
    """Return the CPU seconds of all epochs of a run that recorded them."""
    return sum(float(row.get("cpu_seconds", 0)) for row in record["history"])


def span(dates: Sequence[str]) -> str:
    """Return the first and the last day."""
    return " to ".join(sorted({min(dates), max(dates)}))


def deviation(accuracy: float) -> float:
    """Return the standard deviation, in points, of an accuracy over other images of the kind."""
    return 100 * math.sqrt(accuracy / 100 * (1 - accuracy / 100) / TEST_IMAGES)


def verdicts(found: Mapping[str, Any]) -> list[str]:
    """Return which goals are reached."""
    said = []
    for name, goal in (*GOALS.items(), *FURTHER.items()):
        short = goal - found[name]["accuracy_mean"]
        said.append(f"{NAMES[name]} {goal:.2f}: {'reached' if short < 0.005 else f'missed by {short:.2f} points'}")
    return said


def pruned(record: Record, layers: str, share: float) -> dict[str, str]:
    """Return the accuracies on validation and test images without a share of the channels, by the ranking of these."""
    rows = [row for row in record["rows"] if (row["layers"], row["share"]) == (layers, share)]
    found = {f"{row['ranking']} {part}": percent(row[part]) for row in rows for part in ("validation", "test")}
    for part in ("validation", "test"):
        drawn = [row[part] for row in rows if row["ranking"].startswith("random")]
        if len(drawn) > 1:
            found[f"random {part}"] = f"{statistics.mean(drawn):.2f} ± {statistics.stdev(drawn):.2f}"
    return found


def batches(curve: Mapping[str, Any]) -> list[str]:
    """Return what the accuracy is after each number of batches for re-estimation, and how flat it is in the end."""
    said = []
    for name, values in (("MAP", curve["map"]), ("sampled", [point["mean"] for point in curve["sampled"]])):
        late = [value for batches, value in zip(curve["batches"], values, strict=True) if batches >= FLAT]
        said.append(
            f"{name} {', '.join(f'{value:.2f}' for value in values)} after {', '.join(map(str, curve['batches']))} "
            f"batches of 128; from {FLAT} on {max(late) - min(late):.2f} points apart"
        )
    return said


if __name__ == "__main__":
    main()
