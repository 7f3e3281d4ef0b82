"""The part of docs/results.md that is about CIFAR-10."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from results import SHIPPED, best_of, sha256
from results_runs import CIFAR10, Run
from results_table import NAMES, Record, cpu_seconds, percent, runs_table, table

from blrc.evaluation import figures

# Peters & Welling (2018), section 5: full width, the original images; then with ZCA whitening.
PAPER = {"bnn": 88.17, "map": 88.61, "2": 89.51, "5": 90.66, "16": 91.22, "fp": 92.36}
PAPER_WHITE = {"bnn": 88.56, "map": 88.96, "2": 89.78, "5": 90.48, "16": 90.82, "fp": 92.45}
PAPER_ABLATIONS = {"plain-0": 88.61, "no-norm-0": 79.24, "xavier-0": 75.07}
SHORT = 10  # epochs of the ablations and of the white network
CURVES = {
    "fp-0": "FPNet",
    "bnn-0": "Binarized NN",
    "plain-0": "BLRNet",
    "white-0": "white",
    "no-norm-0": "no batch norm",
    "xavier-0": "Xavier's initialisation",
}
STAGES = {"fp-0": "fp", "bnn-0": "bnn"}
TEST_IMAGES = 10_000


def sections(known: Mapping[str, Record]) -> Sequence[str]:
    """Headings and paragraphs."""
    return [
        "# CIFAR-10, at a quarter of the width",
        _about(known),
        "## CIFAR-10, side by side",
        _side_by_side(known),
        "## CIFAR-10, whitened, and ablations",
        _short(known),
        "## CIFAR-10, certainty",
        _certainty(known),
        "## CIFAR-10, re-estimation of norm statistics",
        _reestimation(known),
        "## CIFAR-10, the shipped network",
        _shipped(known),
        "## CIFAR-10 at full width, on the device path",
        _full_width(known),
        "## Every run on CIFAR-10",
        runs_table((run, known[run.name]) for run in CIFAR10),
    ]


def all_figures(known: Mapping[str, Record]) -> dict[str, bytes]:
    """File name to content."""
    plain = _evaluation(known)["curves"]
    coverage = {name: curve for name, curve in plain["error_coverage"].items() if name != "stochastic"}
    found = {
        "error-coverage": figures.error_coverage(coverage),
        "reestimation": figures.reestimation({"plain": plain["reestimation"]}),
        "validation": _curves(known),
    }
    return {f"cifar10/{name}.svg": figures.to_svg(figure) for name, figure in found.items()}


def _curves(known: Mapping[str, Record]) -> Figure:
    """Validation accuracy over training: of stochastic networks (solid) and their MAP networks (dashed)."""
    figure = Figure(figsize=(6.8, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, label) in enumerate(CURVES.items()):
        rows = [row for row in known[f"cifar10/{name}"]["history"] if row["stage"] == STAGES.get(name, "blrnet")]
        epochs = [row["epoch"] for row in rows]
        if name in STAGES:
            axes.plot(epochs, [100 * row["validation"] for row in rows], ":", color=f"C{number}", label=label)
            continue
        axes.plot(epochs, [100 * row["stochastic"] for row in rows], color=f"C{number}", label=label)
        axes.plot(epochs, [100 * row["validation"] for row in rows], "--", color=f"C{number}", lw=0.8)
    axes.set_xlabel("epoch of the network (after 5 of pretraining)")
    axes.set_ylabel("validation accuracy (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def _run(short: str) -> Run:
    return next(run for run in CIFAR10 if run.short == short)


def _evaluation(known: Mapping[str, Record]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = known["cifar10/eval-plain"]["eval"]
    return found


def _about(known: Mapping[str, Record]) -> str:
    held = [known[run.name] for run in CIFAR10]
    dates = sorted({record["date"] for record in held})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    hours = sum(cpu_seconds(record) for record in held) / 3600
    epochs = sum(len(record["history"]) for record in held)
    return (
        "`make results-cifar10` trains and evaluates what has no record in `docs/results/cifar10/` yet, goes on where it was "
        f"stopped, and draws this page: {hours:.1f} CPU hours of training in {epochs} epochs, and about half an hour of "
        "evaluation. With `DATA=DIR` the images come from there, else they are downloaded. **The images of these figures "
        "are CIFAR-10's, re-encoded as JPEG (quality 75, 4:2:0)**: accuracies come out a little below those on the original "
        f"files; compare them with each other. Runs of {span}, one thread, CPU. Accuracies are in percent on the "
        "10,000 test images unless validation is named (the last 5,000 training images, which chose the epoch). Hidden "
        "layers have a quarter of the paper's channels (32 to 128, and 256), a sixteenth of its weights."
    )


def _accuracy(known: Mapping[str, Record], entry: str) -> float:
    return float(_evaluation(known)["members"][entry]["accuracy_mean"])


def _side_by_side(known: Mapping[str, Record]) -> str:
    held = _evaluation(known)["members"]
    ours = {name: percent(row["accuracy_mean"], row["accuracy_std"]) for name, row in held.items()}
    bnn, fp = known["cifar10/bnn-0"]["test"]["map"], known["cifar10/fp-0"]["test"]["fp"]
    ours |= {"bnn": percent(bnn), "fp": percent(fp)}
    first, most = (_accuracy(known, entry) for entry in ("map", "16"))
    repeats = _evaluation(known)["repeats"]
    rows = [[NAMES[n], f"{PAPER[n]:.2f}", ours[n]] for n in ("bnn", "map", "2", "5", "16", "fp")]
    return "\n\n".join(
        [
            f"Equal epochs: BLRNet 5 of pretraining and 20 (`{_run('plain-0').command}`), the Binarized NN "
            f"(`{_run('bnn-0').command}`) and FPNet (`{_run('fp-0').command}`) 25 each. Mean and standard deviation over "
            f"{repeats} draws of members (`{known['cifar10/eval-plain']['command']}`, "
            f"{known['cifar10/eval-plain']['date']}).",
            table(["", "paper, full width", "here"], rows),
            f"The paper's order as a hypothesis. MAP at or above the Binarized NN: {_sign(first - bnn)} points here (paper "
            f"{_sign(PAPER['map'] - PAPER['bnn'])}). 16 members above MAP: {_sign(most - first)} points (paper "
            f"{_sign(PAPER['16'] - PAPER['map'])}). FPNet above 16 members: {_sign(fp - most)} points (paper "
            f"{_sign(PAPER['fp'] - PAPER['16'])}).",
            _why(known),
            "![Validation accuracy over training](results/cifar10/validation.svg)",
        ]
    )


def _deviation(accuracy: float) -> float:
    """Of an accuracy over other images of the kind, in points."""
    return 100 * math.sqrt(accuracy / 100 * (1 - accuracy / 100) / TEST_IMAGES)


def _why(known: Mapping[str, Record]) -> str:
    """Where it differs from the paper, and what the records say of the reasons."""
    blrnet, fp = (known[f"cifar10/{name}"]["history"][-1]["loss"] for name in ("plain-0", "fp-0"))
    members = _evaluation(known)["members"]
    first = _accuracy(known, "map")
    return (
        f"The standard deviation of an accuracy like MAP's over other 10,000 images is {_deviation(first):.2f} points. At a quarter of "
        "the width binary networks fall far behind full precision, where the paper's lose 3.8 points. The stochastic "
        f"network shows no sign of overfitting: its loss in the last epoch (moved and flipped training images, with the "
        f"penalty on the weights' variance) is {blrnet:.2f}, its negative log-likelihood on test images "
        f"{members['stochastic']['nll_mean']:.2f}; FPNet's loss comes down to {fp:.2f}. So it probably lacks channels, or epochs, rather "
        "than data: each sum has few terms, and much noise. The same noise would make members differ more than wide ones "
        "do, and an ensemble gain more. No run here tested that."
    )


def _sign(points: float) -> str:
    return f"{points:+.2f}"


def _short(known: Mapping[str, Record]) -> str:
    plain, white = _evaluation(known)["members"], known["cifar10/white-0"]["test"]
    rows = [
        [NAMES[n], f"{PAPER[n]:.2f}", percent(plain[n]["accuracy_mean"]), f"{PAPER_WHITE[n]:.2f}", percent(white[n])]
        for n in ("map", "2", "5", "16")
    ]
    ablations = []
    for short, paper in {**PAPER_ABLATIONS, "white-0": None}.items():
        held = known[f"cifar10/{short}"]
        history = [row for row in held["history"] if row["stage"] == "blrnet"]
        ablations.append(
            [
                f"`{_run(short).command}`",
                percent(paper),
                str(len(history)),
                percent(100 * history[SHORT - 1]["stochastic"]),
                percent(100 * history[SHORT - 1]["validation"]),
                percent(held["test"]["stochastic"]),
                percent(held["test"]["map"]),
            ]
        )
    head = [
        "",
        "paper, stochastic",
        "epochs",
        f"stochastic at epoch {SHORT}, validation",
        f"MAP at epoch {SHORT}, validation",
        "stochastic, test",
        "MAP, test",
    ]
    return "\n\n".join(
        [
            "ZCA whitening, fitted on the training images, in integers (`blrc.datasets.whitening`), beside the network of pixels, which trained "
            f"twice as long (20 epochs, {SHORT} here, after 5 of pretraining each): `{_run('white-0').command}`. Members of the white one are one draw, "
            "those of the other the mean of three.",
            table(["", "paper, plain", "plain, 20 epochs", "paper, white", f"white, {SHORT} epochs"], rows),
            f"The paper's ablations, in {SHORT} epochs (Xavier's initialisation has no pretraining). In full there is the longer run "
            f"only: at its epoch {SHORT} its rates have not fallen yet as those of the others have, so the difference at that "
            "epoch is less, and the difference at the end more, than between runs of one length.",
            table(head, ablations),
        ]
    )


def _certainty(known: Mapping[str, Record]) -> str:
    held = _evaluation(known)
    rows = [
        [
            NAMES.get(name, name),
            percent(row["accuracy_mean"], row["accuracy_std"]),
            f"{row['nll_mean']:.4f}",
            f"{row['brier_mean']:.4f}",
            percent(row["ece_mean"]),
            f"{row['coverage_area_mean']:.2f}",
        ]
        for name, row in (*held["members"].items(), *held["baselines"].items())
    ]
    head = [
        "",
        "accuracy",
        "negative log-likelihood (nats)",
        "Brier",
        "calibration error (%)",
        "error-coverage area (%)",
    ]
    return "\n\n".join(
        [
            "By the same command. As for MNIST above: an ensemble is certain where the variance over members of its label's "
            "probability is small, a single network where its highest softmax score is large.",
            table(head, rows),
            "On MNIST, by the paper's recipe, the variance over members sorts out errors better than one network's softmax score. Here it does not (a "
            "larger area is worse), while the ensemble's own probabilities are better by likelihood and Brier score. A likely reason: "
            "probabilities in the middle vary most, and so few channels leave most images there.",
            "![Error against coverage](results/cifar10/error-coverage.svg)",
        ]
    )


def _reestimation(known: Mapping[str, Record]) -> str:
    held = _evaluation(known)
    rows = [
        [
            NAMES[key],
            percent(row["accuracy_mean_running"], row.get("accuracy_std_running")),
            percent(row["accuracy_mean"], row["accuracy_std"]),
        ]
        for key, row in held["members"].items()
        if key != "stochastic"
    ]
    curve = held["curves"]["reestimation"]
    said = []
    for name, values in (("MAP", curve["map"]), ("sampled", [point["mean"] for point in curve["sampled"]])):
        after = [value for batches, value in zip(curve["batches"], values, strict=True) if batches >= 5]
        spread = max(after) - min(after)
        said.append(
            f"{name} {', '.join(f'{value:.2f}' for value in values)} after {', '.join(map(str, curve['batches']))} "
            f"batches of 128; from 5 on {spread:.2f} points apart"
        )
    return "\n\n".join(
        [
            "Accuracy with the running statistics of training, and re-estimated for each network:",
            table(["", "without re-estimation", "with"], rows),
            f"Against the number of batches: {'; '.join(said)}. The standard deviation of such an accuracy is "
            f"{_deviation(_accuracy(known, 'map')):.2f} points. The paper finds it flat from 5 batches.",
            "![Accuracy against re-estimation batches](results/cifar10/reestimation.svg)",
        ]
    )


def _shipped(known: Mapping[str, Record]) -> str:
    held = known["cifar10/shipped"]
    if held["sha256"] != sha256(SHIPPED["cifar10"]):
        raise SystemExit("docs/results/cifar10/shipped.json is about another checkpoint; run make results-cifar10")
    best = best_of("cifar10")
    rows = [[NAMES[name], percent(row["accuracy_mean"])] for name, row in held["eval"]["members"].items()]
    return "\n\n".join(
        [
            f"`examples/cifar10/cifar10-quarter.pt` holds the logits of `{best.short}` in 8 bits and 512 of its 2,560 images "
            f"for re-estimation, so that its norms differ a little: `{held['command']}` ({held['date']}), one draw.",
            table(["", "here"], rows),
        ]
    )


def _full_width(known: Mapping[str, Record]) -> str:
    held = known["cifar10/full-width"]
    rows = [
        [
            "MAP" if members == "map" else f"{members} members",
            str(row["images"]),
            f"{row['values']:,}",
            "equal" if row["equal"] else "different",
            f"{row['flash']:,}",
            f"{row['arena']:,}",
            f"{row['onnx']:,}",
        ]
        for members, row in held["members"].items()
    ]
    head = [
        "",
        "real images",
        "values compared",
        "C, ONNX, reference",
        "flash (bytes)",
        "arena (bytes)",
        "ONNX file (bytes)",
    ]
    return "\n\n".join(
        [
            f"13 million {held['weights']} weights (`{held['command']}`, {held['date']}): every layer of the compiled C (at -O3, and "
            "with sanitizers) and of the ONNX file on real test images, beside recorded, adversarial and random ones. Flash is "
            "of code and tables compiled with -Os for the machine it ran on; [performance.md](performance.md) has a "
            "Cortex-M4's. Of MAP it was bounded by `--flash 2M`.",
            table(head, rows),
        ]
    )
