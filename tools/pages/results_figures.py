"""Figures of docs/results.md, drawn from its records: SVG, the same bytes for the same records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from blrc.evaluation import figures as plots

Record = Mapping[str, Any]
# CIFAR-10's runs, and the stage of those that are no BLRNet.
CURVES = {
    "fp-0": "FPNet",
    "bnn-0": "Binarized NN",
    "plain-0": "BLRNet",
    "white-0": "white",
    "no-norm-0": "no batch norm",
    "xavier-0": "Xavier's initialisation",
}
STAGES = {"fp-0": "fp", "bnn-0": "bnn"}
ABLATIONS = {"plain-0": "in full", "no-norm": "no batch norm", "xavier": "Xavier's initialisation"}


def all_figures(known: Mapping[str, Record]) -> dict[str, bytes]:
    """File name to content."""
    evaluations = {group: known[f"eval-{group}"]["eval"]["curves"] for group in ("plain", "distilled")}
    coverage = {
        name: curve for name, curve in evaluations["plain"]["error_coverage"].items() if name not in ("stochastic",)
    }
    figures = {
        "error-coverage": plots.error_coverage(coverage),
        "error-coverage-distilled": plots.error_coverage(evaluations["distilled"]["error_coverage"]),
        "reliability": plots.reliability(evaluations["distilled"]["reliability"]),
        "weights": plots.weights(evaluations["distilled"]["weights"]),
        "reestimation": plots.reestimation({group: curves["reestimation"] for group, curves in evaluations.items()}),
        "ablations": ablations(known),
        "uncertain-digit": uncertain_digit(known["uncertain"]),
    }
    cifar10 = known["cifar10/eval-plain"]["eval"]["curves"]
    coverage = {name: curve for name, curve in cifar10["error_coverage"].items() if name != "stochastic"}
    figures |= {
        "cifar10/error-coverage": plots.error_coverage(coverage),
        "cifar10/reestimation": plots.reestimation({"plain": cifar10["reestimation"]}),
        "cifar10/validation": cifar10_curves(known),
    }
    return {f"{name}.svg": plots.to_svg(figure) for name, figure in figures.items()}


def ablations(known: Mapping[str, Record]) -> Figure:
    """Validation accuracy over training: the stochastic network (solid, as in the paper) and its MAP network."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, label) in enumerate(ABLATIONS.items()):
        rows = [row for row in known[name]["history"] if row["stage"] == "blrnet"]
        epochs = [row["epoch"] for row in rows]
        for key, style, kind in (("stochastic", "-", "stochastic"), ("validation", "--", "MAP")):
            values = [100 * row[key] for row in rows]
            axes.plot(epochs, values, style, color=f"C{number}", label=f"{label}, {kind}")
    axes.set_xlabel("epoch of the binary network")
    axes.set_ylabel("validation accuracy (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def uncertain_digit(record: Record) -> Figure:
    """The image, each member's probabilities (its vote outlined), and what they say together."""
    p = np.array(record["probabilities"])
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    picture, votes = figure.subplots(1, 2, width_ratios=(1.0, 1.5))
    picture.imshow(np.array(record["pixels"]), cmap="gray_r", vmin=0, vmax=255)
    picture.set_title(f"test image {record['index']}, a {record['true']}", fontsize="medium")
    picture.set_xticks([])
    picture.set_yticks([])
    votes.imshow(p.T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for member, label in enumerate(p.argmax(1)):
        votes.plot(member, label, "s", mfc="none", mec="C3", ms=11)
    votes.set_xlabel("member")
    votes.set_ylabel("class")
    votes.set_xticks(range(0, len(p), 3), [str(k + 1) for k in range(0, len(p), 3)])
    votes.set_yticks(range(p.shape[1]))
    votes.set_title(
        f"together: {record['label']}, probability {record['mean']:.2f} ± {record['deviation']:.2f}", fontsize="medium"
    )
    return figure


def cifar10_curves(known: Mapping[str, Record]) -> Figure:
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
