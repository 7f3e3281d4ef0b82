"""Present an evaluation as plain data for JSON, and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from blrc.display import NO_TERMINAL, table
from blrc.evaluation import values
from blrc.evaluation.cheap import Cheap
from blrc.evaluation.evaluation import REESTIMATED, RUNNING, Evaluation, Measured

_PERCENT = ("ece", "coverage_area")  # fractions that are shown in per cent


def to_plain(
    evaluation: Evaluation, checkpoint: str, data: str, weights: Mapping[str, Any], cheap: Sequence[Cheap] = ()
) -> dict[str, Any]:
    """Return everything that was measured, as plain data.

    ``members`` holds an object for each entry: ``accuracy_mean``, ``accuracy_std`` (per cent), ``nll_*`` (nats),
    ``brier_*``, ``ece_*`` and ``coverage_area_*`` (per cent), with re-estimated norms. The same names with ``_running``
    appended hold the values for the running statistics of training. Where there are only the latter (of a stochastic
    network, for example), they stand under both names. ``curves`` holds what figures are drawn from.

    Args:
        weights: histogram of p(B = +1) for each layer (`blrc.inspection.inspection.weight_histograms`).
    """
    choice = evaluation.choice
    plain: dict[str, Any] = {
        "checkpoint": checkpoint,
        "data": data,
        "samples": evaluation.samples,
        "seed": choice.seed,
        "repeats": choice.repeats,
        "sample": "all" if choice.layers is None else list(choice.layers),
        "freeze": str(choice.freeze),
        "members": {entry: _row(measured) for entry, measured in evaluation.entries.items()},
        "baselines": {name: _row(measured) for name, measured in evaluation.baselines.items()},
        "curves": {
            "error_coverage": {
                name: {"coverage": list(best(m).coverage), "error": [100.0 * e for e in best(m).error]}
                for name, m in {**evaluation.entries, **evaluation.baselines}.items()
            },
            "reliability": {
                name: [asdict(bin) for bin in best(m).reliability]
                for name, m in {**evaluation.entries, **evaluation.baselines}.items()
            },
            "weights": dict(weights),
        },
    }
    if evaluation.reestimation is not None:
        plain["curves"]["reestimation"] = asdict(evaluation.reestimation)
    if cheap:
        plain["cheap"] = [asdict(row) for row in cheap]
    return plain


def best(measured: Mapping[str, Measured]) -> Measured:
    """Return the measurement with re-estimated norms if there is one, or else the one with running statistics."""
    return measured.get(REESTIMATED) or measured[RUNNING]


def _row(measured: Mapping[str, Measured]) -> dict[str, float]:
    row: dict[str, float] = {}
    for suffix, part in (("", best(measured)), ("_running", measured[RUNNING])):
        for name, spread in part.quality.items():
            factor = 100.0 if name in _PERCENT else 1.0
            row[f"{name}_mean{suffix}"] = factor * spread.mean
            row[f"{name}_std{suffix}"] = factor * spread.std
    return row


_HEAD = ("", "accuracy %", "not re-estimated %", "NLL", "Brier", "ECE %", "error-coverage area %")


def to_text(plain: Mapping[str, Any], width: int = NO_TERMINAL) -> str:
    """Return the tables for a person, from the plain data."""
    if plain.get("outputs") == "values":
        return values.to_text(plain, width)
    rows: list[Sequence[str]] = [_HEAD]
    for name, row in {**plain["members"], **plain["baselines"]}.items():
        label = f"{name} members" if name.isdecimal() else name
        own = "-" if name == "stochastic" else _pair(row, "accuracy", 2, "_running")
        accuracy = _pair(row, "accuracy", 2)
        rest = (_pair(row, "nll", 4), _pair(row, "brier", 4), _pair(row, "ece", 2), _pair(row, "coverage_area", 4))
        rows.append((label, accuracy, own, *rest))
    lines = [
        f"{plain['checkpoint']} on {plain['samples']:,} samples of {plain['data']}, "
        f"{plain['repeats']} repeat{'' if plain['repeats'] == 1 else 's'}",
        "",
    ]
    lines += table(rows, width=width)
    lines += [
        "",
        "mean ± standard deviation over repeats (map is one network); norms re-estimated for each network, or as in",
        "training (a stochastic network has only these); NLL in nats; label and certainty as on the device",
    ]
    if "cheap" in plain:
        lines += ["", *_cheap(plain["cheap"], width)]
    return "\n".join(lines)


def _cheap(found: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    rows: list[Sequence[str]] = [("export with", "accuracy %", "flash", "of map", "networks run")]
    for row in found:
        accuracy = _pair(row, "accuracy", 2)
        size = (f"{row['flash']:,}", f"{row['flash_ratio']:.2f} x")
        rows.append((row["options"], accuracy, *size, f"{row['networks_mean']:.2f}"))
    return [
        *table(rows, width=width),
        "",
        "flash: bytes, an upper bound for a Cortex-M4; networks run: mean work of NAME_predict, in networks as costly",
        "as map; it stops at the gate or when the label is settled. Choose the gate on validation data (--validation),",
        "not on the test set.",
    ]


def _pair(row: Mapping[str, Any], name: str, digits: int, suffix: str = "") -> str:
    mean, deviation = row[f"{name}_mean{suffix}"], row[f"{name}_std{suffix}"]
    return f"{mean:.{digits}f}" + (f" ± {deviation:.{digits}f}" if deviation else "")
