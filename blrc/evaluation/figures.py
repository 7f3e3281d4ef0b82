"""Draw the figures of an evaluation from its plain data (`blrc.evaluation.report.to_plain`).

The figures are SVG files, with the same bytes for the same data. This module needs matplotlib,
``pip install 'blrc[plots]'``.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from blrc.extras import missing

try:
    import matplotlib
    from matplotlib.figure import Figure as Figure
except ImportError:
    raise missing("matplotlib", "drawing a figure") from None

Plain = Mapping[str, Any]
TITLES = {"map": "MAP", "stochastic": "stochastic network"}
BATCH = 128


def figures(plain: Plain) -> dict[str, bytes]:
    """Return the figures of everything that was evaluated, as file name to content."""
    curves = plain["curves"]
    found = {
        "error-coverage.svg": error_coverage(curves["error_coverage"]),
        "reliability.svg": reliability(curves["reliability"]),
        "weights.svg": weights(curves["weights"]),
    }
    if "reestimation" in curves:
        found["reestimation.svg"] = reestimation({"": curves["reestimation"]})
    return {name: to_svg(figure) for name, figure in found.items()}


def title(name: str) -> str:
    """Return the name of an entry in a legend."""
    return f"{name} members" if name.isdecimal() else TITLES.get(name, name)


def error_coverage(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw the error of the most certain share of samples (paper, section 5.2 and its error-coverage figure)."""
    figure, axes = axes_of("coverage: share of images kept, the most certain first (%)", "error of those kept (%)")
    for name, curve in curves.items():
        axes.plot([100 * x for x in curve["coverage"]], curve["error"], label=title(name))
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    return figure


def reliability(diagrams: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Draw accuracy against confidence in 15 bins, with larger dots for more samples.

    A calibrated network is on the diagonal.
    """
    figure, axes = axes_of("confidence: mean probability of the label", "accuracy")
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    for name, bins in diagrams.items():
        held = [bin for bin in bins if bin["count"]]
        total = sum(bin["count"] for bin in held)
        x, y = [bin["confidence"] for bin in held], [bin["accuracy"] for bin in held]
        (line,) = axes.plot(x, y, linewidth=1, label=title(name))
        axes.scatter(x, y, s=[6 + 60 * bin["count"] / total for bin in held], color=line.get_color())
    axes.legend(fontsize="small")
    return figure


def reestimation(of: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw accuracy against the number of batches on which norms are re-estimated.

    A number of 0 batches stands for the running statistics of training.

    Args:
        of: re-estimation curves by a name for the legend.
    """
    figure, axes = axes_of(f"batches of {BATCH} samples for re-estimation (0: none)", "accuracy (%)")
    ticks: list[int] = []
    for name, curve in of.items():
        prefix = f"{name}: " if name else ""
        ticks = list(curve["batches"]) if len(curve["batches"]) > len(ticks) else ticks
        at = range(len(curve["batches"]))
        axes.plot(at, curve["map"], "o-", label=f"{prefix}MAP")
        mean, std = ([spread[key] for spread in curve["sampled"]] for key in ("mean", "std"))
        axes.errorbar(at, mean, std, fmt="s--", capsize=3, label=f"{prefix}{curve['networks']} sampled networks, ± std")
    axes.set_xticks(range(len(ticks)), list(map(str, ticks)))
    axes.legend(fontsize="small")
    return figure


def weights(histograms: Mapping[str, Sequence[float]]) -> Figure:
    """Draw the distribution of p(B = +1) over the weights of each layer, as shares of the layer's weights."""
    figure, axes = axes_of("p(B = +1)", "share of the layer's weights (%)")
    for name, shares in histograms.items():
        edges = [i / len(shares) for i in range(len(shares) + 1)]
        axes.stairs([100 * share for share in shares], edges, label=name)
    axes.set_xlim(0, 1)
    axes.set_yscale("log")
    axes.legend(fontsize="small")
    return figure


def to_svg(figure: Figure) -> bytes:
    """Return a figure as SVG without date and random identifiers, on white, so that it can be read in dark mode too."""
    text = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "blrc", "svg.fonttype": "path"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    return text.getvalue()


def axes_of(x: str, y: str) -> tuple[Figure, Any]:
    """Return a figure with axes of these titles."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    return figure, axes
