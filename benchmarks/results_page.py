"""docs/results.md from the records in docs/results: no number in it is typed by hand.

python benchmarks/results_page.py

Works on a fresh clone, without training anything. `benchmarks/results.py` makes the records.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import results_cifar10
import results_figures as figures
from results import RECORDS, ROOT, SHIPPED, best_of, sha256
from results_runs import MNIST, Run
from results_table import NAMES, cpu_seconds, percent, runs_table, table

from blrc.store.places import write_atomically

PAGE = ROOT / "docs" / "results.md"
PAPER = {
    "bnn": 99.17,
    "map": 99.00,
    "2": 99.09,
    "5": 99.13,
    "16": 99.15,
    "fp": 99.48,
}  # Peters & Welling (2018), section 5
TEST_IMAGES = 10_000
GOALS = {"map": 99.30, "16": 99.40}  # of the better recipe
FURTHER = {"map": 99.40}
GROUPS = {"plain": "The paper's recipe", "distilled": "The better recipe"}
Record = Mapping[str, Any]


def main() -> None:
    for name, content in {**figures.all_figures(records()), **results_cifar10.all_figures(records())}.items():
        write_atomically(RECORDS / name, content)
    write_atomically(PAGE, page(records()).encode())


def records() -> dict[str, Record]:
    """Every record by its file's name."""
    return {
        path.relative_to(RECORDS).with_suffix("").as_posix(): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(RECORDS.rglob("*.json"))
    }


def page(known: Mapping[str, Record]) -> str:
    """The whole page."""
    return (
        "\n\n".join(
            [
                "# Results",
                "<!-- Made by benchmarks/results_page.py from docs/results/*.json; do not edit. -->",
                _about(known),
                "## MNIST, the paper's recipe",
                _plain(known),
                "## MNIST, the better recipe",
                _distilled(known),
                "## MNIST, certainty",
                _certainty(known),
                "## MNIST, re-estimation of norm statistics",
                _reestimation(known),
                "## MNIST, ablations",
                _ablations(known),
                "## MNIST, cheap ensembles",
                _cheap(known),
                "## MNIST, stopping early",
                _anytime(known),
                "## Every run on MNIST",
                _runs(known),
                *results_cifar10.sections(known),
            ]
        )
        + "\n"
    )


def _about(known: Mapping[str, Record]) -> str:
    runs = list(_of_runs(known))
    dates = sorted({record["date"] for _, record in runs})
    seconds = sum(cpu_seconds(record) for _, record in runs)
    epochs = sum(len(record["history"]) for _, record in runs)
    timed = sum("cpu_seconds" in row for _, record in runs for row in record["history"])
    versions = runs[0][1]["versions"]
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        "`make results` (MNIST; for CIFAR-10 see below) trains and evaluates what has no record in `docs/results/` yet and draws this page "
        f"({seconds / 3600:.1f} CPU hours of training are recorded, in {timed} of {epochs} epochs). Runs of {span}, PyTorch {versions['torch']}, "
        f"Python {versions['python']}, one thread, CPU. Accuracies are in percent on MNIST's 10,000 test images unless "
        "validation is named (the last 5,000 training images); whatever was chosen (epoch, seed, learning rate) was chosen "
        "on validation. Differences under 0.1 between single runs are noise. Members are evaluated as they are exported: "
        "thresholds in integers, norms re-estimated for each."
    )


def _of_runs(known: Mapping[str, Record]) -> Iterator[tuple[Run, Record]]:
    return ((run, known[run.name]) for run in MNIST if run.name in known)


def _table_rows(names: Sequence[str], *columns: Mapping[str, str]) -> list[list[str]]:
    return [[NAMES[n], f"{PAPER[n]:.2f}", *(column.get(n, "-") for column in columns)] for n in names]


def _ours(known: Mapping[str, Record], group: str) -> dict[str, str]:
    held = known[f"eval-{group}"]["eval"]["members"]
    return {name: percent(row["accuracy_mean"], row["accuracy_std"]) for name, row in held.items()}


def _plain(known: Mapping[str, Record]) -> str:
    best, bnn = best_of("plain"), best_of("bnn")
    ours = _ours(known, "plain")
    ours["bnn"] = percent(known[bnn.name]["test"]["map"])
    ours["fp"] = percent(known["fp"]["test"]["fp"])
    repeats = known["eval-plain"]["eval"]["repeats"]
    return "\n\n".join(
        [
            f"No augmentation, no soft labels. BLRNet: `{best.command}`, the best of {_count('plain')} runs by validation. It is "
            "not the paper's recipe to the letter: samples of activations are hard, the weights learn faster, rates fall by a "
            "cosine, and where a run has restart epochs, the weights' variance shrinks in them. `--recipe paper` keeps the "
            "paper's rates, schedule and soft samples: `paper-0` below. The Binarized NN: "
            f"`{bnn.command}`, the best of {_count('bnn')} learning rates at as many epochs as the runs with a restart have in all; FPNet: "
            f"`{_run('fp').command}`. Ensembles: mean and standard deviation over {repeats} draws of members "
            f"(`{_eval(known, 'plain')}`, seeds 0 to {repeats - 1}, {known['eval-plain']['date']}).",
            table(["", "paper", "here"], _table_rows(["bnn", "map", "2", "5", "16", "fp"], ours)),
            "All BLRNets of this table's kind, by their validation (MAP, then 16 members of seed 0); test in the last table:",
            table(["", "validation", "validation, 16"], _competitors(known)),
        ]
    )


def _eval(known: Mapping[str, Record], group: str) -> str:
    command: str = known[f"eval-{group}"]["command"]
    return command


def _competitors(known: Mapping[str, Record]) -> list[list[str]]:
    return [
        [
            f"`{run.command}`",
            percent(known[run.name]["validation"]["map"]),
            percent(known[run.name]["validation"]["16"]),
        ]
        for run in MNIST
        if run.group == "plain"
    ]


def _shipped(held: Record) -> str:
    if held.get("sha256") != sha256(SHIPPED["mnist"]):
        return "`examples/mnist/mnist.pt` is another checkpoint."
    return "`examples/mnist/mnist.pt` is this checkpoint."


def _distilled(known: Mapping[str, Record]) -> str:
    best = best_of("distilled")
    held = known[best.name]
    ours = _ours(known, "distilled")
    names = ["stochastic", "map", "2", "5", "16"]
    teacher = max(row["validation"] for row in held["history"] if row["stage"] == "fp")
    repeats = known["eval-distilled"]["eval"]["repeats"]
    return "\n\n".join(
        [
            "Soft labels from a full-precision network of the same architecture "
            f"({100 * teacher:.2f} % on validation), altered images, and a restart in which the weights' variance shrinks "
            f"(`blrc train mnist --help` has the recipe's numbers): `{best.command}`, the best of {_count('distilled')} runs "
            f"by validation, and of all BLRNets here. Mean and standard deviation over {repeats} draws of members (`{_eval(known, 'distilled')}`, "
            f"seeds 0 to {repeats - 1}, {known['eval-distilled']['date']}); validation is of one draw, seed 0. {_shipped(held)}",
            table(
                ["", "goal", "here", "validation"],
                [[NAMES[n], percent(GOALS.get(n)), ours[n], percent(held["validation"].get(n))] for n in names],
            ),
            _short(known["eval-distilled"]["eval"]["members"]),
        ]
    )


def _short(found: Mapping[str, Any]) -> str:
    """Which goals are reached, and how far away an accuracy on so few images may lie by chance."""
    said = []
    for name, goal in (*GOALS.items(), *FURTHER.items()):
        short = goal - found[name]["accuracy_mean"]
        verdict = "reached" if short < 0.005 else f"missed by {short:.2f} points"
        said.append(f"{NAMES[name]} {goal:.2f}: {verdict}")
    share = found["16"]["accuracy_mean"] / 100
    deviation = 100 * math.sqrt(share * (1 - share) / TEST_IMAGES)
    return (
        f"Goals: {'; '.join(said)}. An image is {100 / TEST_IMAGES:.2f} points, and the accuracy of such a network on "
        f"other {TEST_IMAGES:,} images of the kind has a standard deviation of {deviation:.2f} points; networks are chosen on "
        "validation images only."
    )


def _certainty(known: Mapping[str, Record]) -> str:
    parts = []
    for group, title in GROUPS.items():
        held = known[f"eval-{group}"]["eval"]["members"]
        rows = [
            [
                NAMES[name],
                percent(row["accuracy_mean"], row["accuracy_std"]),
                f"{row['nll_mean']:.4f}",
                f"{row['brier_mean']:.4f}",
                percent(row["ece_mean"]),
                f"{row['coverage_area_mean']:.4f}",
            ]
            for name, row in held.items()
        ]
        head = [
            title,
            "accuracy",
            "negative log-likelihood (nats)",
            "Brier",
            "calibration error (%)",
            "error-coverage area (%)",
        ]
        parts.append(table(head, rows))
    return "\n\n".join(
        [
            "How certain an ensemble is: the variance over members of its label's probability (paper, section 5.2); a single "
            "network: its highest softmax score. The area under the error-coverage curve is the mean error over all shares of "
            "images kept, the most certain first. `blrc eval` defines and computes all of these, by the commands above.",
            *parts,
            "![Error against coverage, the paper's recipe](results/error-coverage.svg)",
            "![Error against coverage, the better recipe](results/error-coverage-distilled.svg)",
            "![Reliability diagram, the better recipe](results/reliability.svg)",
            "![Distribution of the weights' probabilities, the better recipe](results/weights.svg)",
        ]
    )


def _reestimation(known: Mapping[str, Record]) -> str:
    rows = []
    for group in GROUPS:
        for name, row in known[f"eval-{group}"]["eval"]["members"].items():
            if row.get("accuracy_mean_running") is not None:
                with_running = percent(row["accuracy_mean_running"], row.get("accuracy_std_running"))
                rows.append(
                    [f"{group}: {NAMES[name]}", with_running, percent(row["accuracy_mean"], row["accuracy_std"])]
                )
    return "\n\n".join(
        [
            "Accuracy with the running statistics of training, and re-estimated for each network from the checkpoint's "
            "calibration samples; and against the number of batches used for it (the same commands).",
            table(["", "without re-estimation", "with"], rows),
            "![Accuracy against re-estimation batches](results/reestimation.svg)",
        ]
    )


def _ablations(known: Mapping[str, Record]) -> str:
    rows = []
    full = _run("plain-0")
    for run in (full, *(run for run in MNIST if run.group == "ablation")):
        held = known[run.name]
        history = [row for row in held["history"] if row["stage"] == "blrnet"]
        rows.append(
            [
                f"`{run.command}`",
                percent(100 * max(row["stochastic"] for row in history)),
                percent(100 * max(row["validation"] for row in history)),
                percent(held["test"]["stochastic"]),
                percent(held["test"]["map"]),
            ]
        )
    head = ["", "stochastic, best validation", "MAP, best validation", "stochastic, test", "MAP, test"]
    return "\n\n".join(
        [
            "The paper measured its ablations on CIFAR-10 (88.61 in full, 79.24 without batch norm, 75.07 with Xavier's "
            "initialisation, stochastic network); here they are on MNIST, where all differences are smaller.",
            table(head, rows),
            "![Validation accuracy of the ablations](results/ablations.svg)",
        ]
    )


def _runs(known: Mapping[str, Record]) -> str:
    return "\n\n".join(
        [
            "Every run that has a record; epochs of all stages together, CPU seconds of those epochs that recorded them. Accuracies "
            "are of the exported thresholds with norms re-estimated; training itself, which chooses the epoch, measures with its running "
            "statistics, so that its best differs a little. They were trained on a machine that did other work too; some were stopped and "
            "resumed. Without a record: runs of other seeds that were given up before their end. BLRNet and Binarized NN: the MAP "
            "network, and 16 members (seed 0); FPNet: itself.",
            runs_table(_of_runs(known)),
        ]
    )


def _cheap(known: Mapping[str, Record]) -> str:
    record = known["ensembles"]
    full = next(row for row in record["rows"] if row["name"].endswith("of all"))
    rows = [
        [
            row["name"],
            percent(row["accuracy"]),
            f"{row['flash']:,}",
            f"{row['flash_ratio']:.2f}",
            f"{row['asked_early']:.2f}",
            f"{row['time']:.0f}",
            f"{row['time_ratio']:.2f}",
        ]
        for row in record["rows"]
    ]
    gates = [[gate["probability"], percent(gate["accuracy"]), f"{gate['networks']:.2f}"] for gate in record["gates"]]
    chosen = next(row for row in record["rows"] if row["name"].endswith(f"gate {record['chosen']}"))
    short = full["accuracy"] - chosen["accuracy"]
    reached = short <= 0.03 and chosen["flash_ratio"] <= 1.3 and chosen["time_ratio"] <= 1.5
    verdict = (
        f"The gate that asks the members most often at a mean of {record['work']} networks on validation images is {record['chosen']}: "
        f"on the test images {short:.2f} points below the full ensemble, at {chosen['flash_ratio']:.2f} times the flash and "
        f"{chosen['time_ratio']:.2f} times the mean time of one network. The goal (0.03 points, 1.3 times, 1.5 times) is "
        f"{'reached' if reached else 'missed'}."
    )
    head = ["", "accuracy", "flash (bytes)", "of MAP's", "networks run (mean)", "CPU time (us)", "of MAP's"]
    return "\n\n".join(
        [
            f"`examples/mnist/mnist.pt` by `python benchmarks/ensembles.py --validation DIR` ({record['date']}): the compiled C, "
            f"flash at -Os, CPU time of `NAME_predict` at -O2 with early stopping on {record['timed']:,} images, medians of "
            f"{record['rounds']} rounds in turns (on a machine that did other work; networks run say the same without noise). `conv`: only the convolutions are sampled; frozen: weights with min(p, 1-p) below that stay at MAP; gate: "
            "MAP first, members only where its top probability is below.",
            table(head, rows),
            verdict,
            "The gate on validation images, by which it is chosen; behind a gate of 1 every image asks all members:",
            table(["gate", "accuracy (validation)", "networks run (mean)"], gates),
        ]
    )


def _anytime(known: Mapping[str, Record]) -> str:
    record = known["ensembles"]
    rows = [
        [
            row["name"],
            f"{row['asked']:.2f}",
            f"{row['asked_early']:.2f}",
            f"{row['saved']:.1f}",
            f"{row['confident']:.2f}",
            str(row["confident_changes"]),
        ]
        for row in record["rows"]
        if row["networks"] > 1
    ]
    head = ["", "networks run", "stopping when settled", "saved (%)", "stopping at 0.99 too", "labels it changes"]
    return "\n\n".join(
        [
            "Mean networks that an image takes of the 10,000 test images: all; until the remaining members cannot change the "
            "label (no label changes, which the script checks); and until the label's mean probability is 0.99 as well.",
            table(head, rows),
        ]
    )


def _run(name: str) -> Run:
    return next(run for run in MNIST if run.name == name)


def _count(group: str) -> int:
    return sum(run.group == group for run in MNIST)


if __name__ == "__main__":
    main()
