"""The runs behind docs/results.md: train, evaluate, record, draw.

python tools/pages/results.py [mnist|cifar10] [--data DIR] [--only NAME ...] [--train-only]

Each run is one ``blrc train`` command (`results_runs.py`). Its checkpoint, log and unfinished
state lie in build/results; what was measured goes to docs/results/NAME.json. Runs that have a record are not run again
(delete the record to do so), and an interrupted one goes on, so the command can be stopped at any time. At the end the
page and its figures are drawn from the records alone (`results_page.py`).
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from results_runs import RUNS, Run

from blrc.app.export import build
from blrc.datasets import idx
from blrc.datasets.cifar import cifar10
from blrc.frontend import checkpoint, full_precision
from blrc.frontend.members import parse_members
from blrc.net.encoding import device_layout
from blrc.program import head, reference
from blrc.store.places import cache_folder, write_atomically
from blrc.training.data import prepare
from blrc.training.recipe import Recipe
from blrc.training.stages import networks
from blrc.training.stages.stage import accuracy
from blrc.version import VERSION

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "results"
RECORDS = ROOT / "docs" / "results"
SHIPPED = {
    "mnist": ROOT / "examples" / "mnist" / "mnist.pt",
    "cifar10": ROOT / "examples" / "cifar10" / "cifar10-quarter.pt",
}
READ = {"mnist": idx.mnist, "cifar10": cifar10}
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
MEMBERS = "stochastic,map,2,5,16"


@dataclass(frozen=True)
class Evaluation:
    """What ``blrc eval`` measures of the best run of `group`, over `repeats` draws, beside the best of `baseline`."""

    task: str
    group: str
    baseline: str
    repeats: int


EVALUATIONS = {
    "eval-distilled": Evaluation("mnist", "distilled", "bnn", 5),
    "eval-plain": Evaluation("mnist", "plain", "bnn", 3),
    "cifar10/eval-plain": Evaluation("cifar10", "cifar10", "cifar10-bnn", 3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", nargs="?", default="mnist", choices=RUNS)
    parser.add_argument("--data", type=Path, help="folder of the data set's files; by default downloaded to a cache")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these runs only")
    parser.add_argument("--train-only", action="store_true", help="no evaluation, no page")
    options = parser.parse_args()
    runs = RUNS[options.task]
    READ[options.task](options.data)  # downloaded where it is not there yet
    folder = options.data or cache_folder(options.task)
    chosen = [run for run in runs if options.only is None or run.short in options.only]
    unknown = set(options.only or ()) - {run.short for run in runs}
    if unknown:
        parser.error(f"no such run: {', '.join(sorted(unknown))}; there are {', '.join(run.short for run in runs)}")
    for run in chosen:
        (BUILD / run.name).parent.mkdir(parents=True, exist_ok=True)
        if record(run) is None:
            train(run, folder)
            if not options.train_only:
                write(run.name, {**about(run), **evaluate(run, folder)})
    if options.train_only or len(chosen) < len(runs):
        return
    for name, evaluation in EVALUATIONS.items():
        if evaluation.task != options.task:
            continue
        best, baseline = best_of(evaluation.group), best_of(evaluation.baseline)

        def make(best: Run = best, baseline: Run = baseline, repeats: int = evaluation.repeats) -> Mapping[str, Any]:
            return full_evaluation(best, *(trained(run, folder) for run in (best, baseline)), folder, repeats)

        once(name, make, run=best.name, model=record_of_checkpoint(best), baseline=record_of_checkpoint(baseline))
    shipped = SHIPPED[options.task]
    if options.task == "mnist":
        once("uncertain", lambda: most_uncertain(shipped, folder), sha256=sha256(shipped))
        once("ensembles", lambda: ensembles(shipped, folder), sha256=sha256(shipped))
    else:
        source = best_of("cifar10")

        def of_shipped() -> Mapping[str, Any]:
            return evaluation_of_shipped(shipped, trained(source, folder), folder)

        once("cifar10/shipped", of_shipped, sha256=sha256(shipped), source=record_of_checkpoint(source))
    run_script(Path(__file__).with_name("results_page.py"))


def once(name: str, make: Callable[[], Mapping[str, Any]], **about: str) -> None:
    """Make a record that is not there, or that is about another thing: `about` is kept in it."""
    path = RECORDS / f"{name}.json"
    held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if held is None or any(held.get(key) != value for key, value in about.items()):
        say(name)
        write(name, {"date": datetime.date.today().isoformat(), **about, **make()})


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def record_of_checkpoint(run: Run) -> str:
    """The SHA-256 of the checkpoint that a run's record is about; the oldest records do not say."""
    known: str = (record(run) or {}).get("sha256", "unknown")
    return known


def trained(run: Run, folder: Path) -> Path:
    """The checkpoint of a run; where it lies no more, it is trained again, and has to be the one of the record."""
    output = BUILD / f"{run.name}.pt"
    train(run, folder)
    if sha256(output) != record_of_checkpoint(run):
        raise SystemExit(
            f"{output} is not the checkpoint that {RECORDS / run.name}.json is about (another machine or version "
            "trains other bits); delete the record, and the run is evaluated anew"
        )
    return output


def train(run: Run, folder: Path) -> None:
    """Train, or go on with, a run that has no checkpoint yet."""
    output = BUILD / f"{run.name}.pt"
    if output.exists():
        return
    say(run.command)
    blrc(
        "train", run.task, "-o", output, "--data", folder, "--log", output.with_suffix(".csv"), "--resume", *run.options
    )


def about(run: Run) -> dict[str, Any]:
    """What stands in every record: how to make it, when it was made, and every epoch."""
    with (BUILD / f"{run.name}.csv").open(encoding="utf-8", newline="") as file:
        history = [{key: _number(value) for key, value in row.items() if value} for row in csv.DictReader(file)]
    return {
        "name": run.name,
        "group": run.group,
        "command": run.command,
        "date": datetime.date.today().isoformat(),
        "sha256": sha256(BUILD / f"{run.name}.pt"),
        "versions": {"blrc": VERSION, "torch": torch.__version__, "python": platform.python_version()},
        "history": history,
    }


def evaluate(run: Run, folder: Path) -> dict[str, Any]:
    """Accuracies in percent on validation (by which runs are chosen) and test images."""
    output = BUILD / f"{run.name}.pt"
    if run.is_real:
        return real_accuracies(run, output, folder)
    few = {"bnn": "map", "shorter": "map", "ablation": "stochastic,map", "white": MEMBERS}
    members = few.get(run.group.removeprefix("cifar10-"), "stochastic,map,16")
    found: dict[str, Any] = {}
    for part, extra in (("validation", ("--validation",)), ("test", ())):
        result = evaluated(output, folder, members, 1, *extra)["members"]
        found[part] = {name: row["accuracy_mean"] for name, row in result.items()}
    return found


def real_accuracies(run: Run, model: Path, folder: Path) -> dict[str, Any]:
    """Of a full-precision network."""
    width = (float(value) for name, value in pairwise(run.options) if name == "--width")
    recipe = Recipe(task=run.task, model="fp", width=next(width, 1.0))
    prepared = prepare(recipe, folder)
    network = networks.new(recipe)
    network.load_state_dict(full_precision.load_real(model))
    network.eval()
    test = READ[run.task](folder, train=False)
    with torch.inference_mode():
        return {
            part: {"fp": 100 * accuracy(network, data, prepared.encoding)}
            for part, data in (("validation", prepared.validation), ("test", test))
        }


def full_evaluation(run: Run, model: Path, bnn: Path, folder: Path, repeats: int) -> dict[str, Any]:
    """Everything that ``blrc eval`` measures, over repeated draws of the members, beside the Binarized NN."""
    with tempfile.TemporaryDirectory() as plots:  # which asks for the re-estimation curve
        baseline = Path(plots) / "Binarized NN.pt"
        write_atomically(baseline, bnn.read_bytes())
        found = evaluated(model, folder, MEMBERS, repeats, "--baseline", str(baseline), "--plots", plots)
    # Paths of this machine have no place in a record.
    command = (
        f"blrc eval {model.name} --data {DATA[run.task]} --members {MEMBERS} --repeats {repeats} "
        f"--baseline {bnn.name} --plots ."
    )
    return {"command": command, "eval": {**found, "checkpoint": model.name, "data": f"{DATA[run.task]} test images"}}


def evaluation_of_shipped(model: Path, source: Path, folder: Path) -> dict[str, Any]:
    """Accuracies of the shipped network: that of `source`, but with fewer images for re-estimation."""
    mine, its = (checkpoint.load(path).tensors for path in (model, source))
    if mine.keys() != its.keys() or any((mine[key] != its[key]).any() for key in mine):
        raise SystemExit(f"{model}: not the network of {source}; ship that one")
    path = model.relative_to(ROOT)
    return {
        "command": f"blrc eval {path} --data CIFAR-10 --members {MEMBERS}",
        "eval": {**evaluated(model, folder, MEMBERS, 1), "checkpoint": str(path), "data": "CIFAR-10 test images"},
    }


def ensembles(model: Path, folder: Path) -> dict[str, Any]:
    """Flash, time and members run of full and cheap ensembles (`benchmarks/ensembles.py`)."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "ensembles.json"
        run_script(ROOT / "benchmarks" / "ensembles.py", "--model", model, "--validation", folder, "--json", path)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def run_script(script: Path, *arguments: object) -> None:
    """Run another script with this interpreter."""
    subprocess.run([sys.executable, str(script), *map(str, arguments)], check=True)


def evaluated(model: Path, folder: Path, members: str, repeats: int, *extra: str) -> dict[str, Any]:
    text = blrc("eval", model, "--data", folder, "--members", members, "--repeats", repeats, "--json", *extra)
    result: dict[str, Any] = json.loads(text)
    return result


def most_uncertain(model: Path, folder: Path) -> dict[str, Any]:
    """The test image on whose label the members of the shipped ensemble disagree most, and what each of them says.

    Disagreement is the paper's measure (section 5.2): the variance over members of the label's probability.
    """
    test = idx.mnist(folder, train=False)
    program, _ = build(checkpoint.load(model), parse_members("16", 0))
    raw, scale = device_layout(test.images), head.scale_of(program.score_scale)
    scores = [reference.scores(program, raw, member) for member in range(16)]
    answer = head.ensemble(scores, scale)
    index = int(answer.variance.argmax())
    p = [head.probabilities(head.log_probabilities(s[index : index + 1], scale))[0] / head.ONE for s in scores]
    return {
        "model": str(model.relative_to(ROOT)),
        "index": index,
        "true": int(test.labels[index]),
        "label": int(answer.label[index]),
        "mean": float(answer.mean[index] / head.ONE),
        "deviation": float(answer.variance[index] ** 0.5 / head.ONE),
        "pixels": test.images[index, 0].tolist(),
        "probabilities": [[round(float(value), 4) for value in row] for row in p],
    }


def best_of(group: str) -> Run:
    """The run of a group with the highest validation accuracy of its MAP network; the first of equals."""
    known = {run: record(run) for runs in RUNS.values() for run in runs if run.group == group}
    missing = [run for run, held in known.items() if held is None]
    if missing:
        raise SystemExit(
            f"no record of {missing[0].command!r} in docs/results: run make results"
            f"{'' if missing[0].task == 'mnist' else f'-{missing[0].task}'}"
        )
    return max(known, key=lambda run: known[run]["validation"]["map"])


def record(run: Run) -> Mapping[str, Any] | None:
    """What is known of a run; nothing where its command was another."""
    path = RECORDS / f"{run.name}.json"
    held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return held if held is not None and held["command"] == run.command else None


def write(name: str, content: Mapping[str, Any]) -> None:
    (RECORDS / name).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(RECORDS / f"{name}.json", (json.dumps(content, indent=1) + "\n").encode())


def blrc(*arguments: object) -> str:
    """Run a command as a user does; its progress goes to the terminal."""
    line: Sequence[str] = [sys.executable, "-m", "blrc", *map(str, arguments)]
    done = subprocess.run(line, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"failed: blrc {' '.join(map(str, arguments))}")
    return done.stdout


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
