"""Draw the measurements of `blrc bench` and `make bench` as SVG figures. This needs matplotlib.

The same data give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blrc.benchmark.rivals.registry import FLOAT32
from blrc.evaluation.figures import Figure, axes_of, to_svg

WIDTH = 0.8  # width of all bars of a group together


def draw(plain: Mapping[str, Any]) -> bytes:
    """Draw a report as an SVG figure.

    For times on this machine it shows how many times faster than float32 each contestant is, by layer. For emulated
    machines it shows instructions per multiply-add.

    Args:
        plain: plain data as in `blrc.benchmark.report.to_plain`.
    """
    return to_svg(_speed(plain["host"]) if "host" in plain else _instructions(plain["devices"]))


def bars(groups: Sequence[str], series: Mapping[str, Sequence[float | None]], x: str, y: str, one: str = "") -> Figure:
    """Draw bars side by side in groups, on a logarithmic axis.

    Args:
        groups: labels of the groups.
        series: one value per group for each name; None where there is no value.
        x, y: labels of the axes.
        one: label of a line at 1; empty for no line.
    """
    figure, axes = axes_of(x, y)
    width = WIDTH / max(1, len(series))
    for k, (name, values) in enumerate(series.items()):
        held = [(i, value) for i, value in enumerate(values) if value is not None]
        at = [i + (k + 0.5) * width - WIDTH / 2 for i, _ in held]
        start = 1.0 if one else 0.0  # bars go up or down from the line
        axes.bar(at, [value - start for _, value in held], width, bottom=start, label=name)
    if one:
        axes.axhline(1, color="0.3", linewidth=1, label=one)
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), list(groups))
    if series:
        figure.legend(loc="outside upper center", ncols=5, fontsize="small")
    return figure


def _speed(host: Mapping[str, Any]) -> Figure:
    rows = host["rows"]
    names = list(dict.fromkeys(name for row in rows for name in row["us"]))
    base = FLOAT32 if all(FLOAT32 in row["us"] for row in rows if row["macs"]) else None
    series = {name: [_ratio(row, name, base) for row in rows] for name in names if name != base}
    y = "runs a second" if base is None else f"times faster than {base} (CPU time)"
    return bars([row["what"] for row in rows], series, "", y, base or "")


def _ratio(row: Mapping[str, Any], name: str, base: str | None) -> float | None:
    if name not in row["us"] or (base is not None and base not in row["us"]):
        return None
    return float((1e6 if base is None else row["us"][base]) / row["us"][name])


def _instructions(devices: Sequence[Mapping[str, Any]]) -> Figure:
    layers = list(dict.fromkeys(step["what"] for device in devices for step in device["steps"]))
    series = {}
    for device in devices:
        of = {step["what"]: step["instructions"] / step["macs"] for step in device["steps"] if step["macs"]}
        series[device["title"]] = [of.get(layer) for layer in layers]
    return bars(layers, series, "", "instructions a multiply-add")
