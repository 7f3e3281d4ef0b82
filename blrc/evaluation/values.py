"""Evaluate networks and ensembles that give values on data with real targets: how far off they are, in stated units.

For N samples with O values each, errors e = value - target over all N x O of them:

    mae   = mean |e|                   rmse = sqrt(mean e^2)
    r2    = 1 - sum e^2 / sum (target - mean target of that output)^2; nothing where all targets are equal

The value of an ensemble is the mean of its members' values, which are those of the program that each member alone is
exported as. (Where the last layer is binary, an export of several may have a coarser scale, of 2^-23 of the largest
value; see `blrc.lowering.affine`.) ``stochastic`` is the torch network with sampled activations, drawn once for each
repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from blrc.datasets.labelled import Valued
from blrc.display import NO_TERMINAL, table
from blrc.errors import BlrcError
from blrc.evaluation import metrics, scoring
from blrc.evaluation.choice import Choice
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, Member, sample
from blrc.lowering.lower import lower
from blrc.lowering.statistics import nets_of
from blrc.net.encoding import torch_layout

Reals = NDArray[np.float64]
Progress = Callable[[str, int, int], None]
CHUNK = 250
METRICS = ("mae", "rmse", "r2")


def errors(values: Reals, targets: Reals) -> dict[str, float | None]:
    """Return mean absolute error, root of the mean squared error, and R^2, each over all values."""
    off = values - targets
    spread = float(((targets - targets.mean(axis=0)) ** 2).sum())
    return {
        "mae": float(np.abs(off).mean()),
        "rmse": float(np.sqrt((off**2).mean())),
        "r2": 1 - float((off**2).sum()) / spread if spread else None,
    }


def evaluate(checkpoint: Checkpoint, data: Valued, choice: Choice, progress: Progress) -> dict[str, dict[str, Any]]:
    """Return the metrics of every entry of `choice`, as means and standard deviations over repeats.

    Raises:
        BlrcError: there are no calibration samples, fewer than one repeat, or a network cannot be compiled.
    """
    if choice.repeats < 1:
        raise BlrcError(f"--repeats {choice.repeats}: must be at least 1")
    choice.member(choice.repeats - 1, 0)  # refuses a seed that is too large before anything is computed
    largest = max(choice.sizes, default=0)
    total = choice.repeats * largest + len({"map", "stochastic"} & set(choice.entries))
    found: dict[str, list[dict[str, float | None]]] = {entry: [] for entry in choice.entries}
    done = 0

    def step(what: str) -> None:
        nonlocal done
        done += 1
        progress(what, done, total)

    if "map" in choice.entries:
        found["map"].append(errors(_values(checkpoint, MAP, data), data.values))
        step("map")
    if "stochastic" in choice.entries:
        for repeat in range(choice.repeats):
            found["stochastic"].append(errors(_stochastic(checkpoint, data, choice.seed + repeat), data.values))
        step("stochastic network")
    for repeat in range(choice.repeats if largest else 0):
        together = np.zeros_like(data.values)
        for index in range(1, largest + 1):
            together = together + _values(checkpoint, choice.member(repeat, index - 1), data)
            if index in choice.sizes:
                found[str(index)].append(errors(together / index, data.values))
            step(f"members, repeat {repeat + 1}")
    return {entry: _row(rows) for entry, rows in found.items()}


def _values(checkpoint: Checkpoint, member: Member, data: Valued) -> Reals:
    program = lower(nets_of(checkpoint, [member]))
    return program.real(scoring.scores([program], data.raw)[0])


@torch.no_grad()
def _stochastic(checkpoint: Checkpoint, data: Valued, seed: int) -> Reals:
    encoding, parts = checkpoint.encoding, []
    unit = checkpoint.values[0]
    with torch.random.fork_rng(devices=[]):
        model = checkpoint.model().eval()  # building it draws weights, which are then replaced
        torch.manual_seed(seed)
        for start in range(0, len(data.raw), CHUNK):
            raw = torch_layout(data.raw[start : start + CHUNK], encoding.shape).astype(encoding.dtype)
            parts.append(model(torch.from_numpy(encoding.real(raw))).double().numpy())
    return np.asarray(np.concatenate(parts) * unit.scale + unit.offset)


def outputs_of(checkpoint: Checkpoint) -> int:
    """Return how many values the network gives."""
    return lower([sample(checkpoint, MAP, running=True)]).classes


def _row(rows: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    row: dict[str, float | None] = {}
    for name in METRICS:
        held = [value for each in rows if (value := each[name]) is not None]
        spread = metrics.spread(held) if held else None
        row[f"{name}_mean"] = None if spread is None else spread.mean
        row[f"{name}_std"] = None if spread is None else spread.std
    return row


def to_plain(
    found: Mapping[str, Any], checkpoint: Checkpoint, choice: Choice, data: str, samples: int
) -> dict[str, Any]:
    """Return what was measured as plain data: ``members`` has ``mae_*``, ``rmse_*`` and ``r2_*`` of each entry."""
    return {
        "checkpoint": checkpoint.source,
        "outputs": "values",
        "data": data,
        "samples": samples,
        "seed": choice.seed,
        "repeats": choice.repeats,
        "sample": "all" if choice.layers is None else list(choice.layers),
        "freeze": str(choice.freeze),
        "members": dict(found),
        "baselines": {},
    }


def to_text(plain: Mapping[str, Any], width: int = NO_TERMINAL) -> str:
    """Return the table for a person, from the plain data."""
    rows: list[Sequence[str]] = [("", "mean absolute error", "root mean squared error", "R^2")]
    for name, row in plain["members"].items():
        label = f"{name} members" if name.isdecimal() else name
        rows.append((label, *(_pair(row, metric, digits) for metric, digits in zip(METRICS, (5, 5, 4), strict=True))))
    repeats = f"{plain['repeats']} repeat{'' if plain['repeats'] == 1 else 's'}"
    return "\n".join(
        [
            f"{plain['checkpoint']} on {plain['samples']:,} samples of {plain['data']}, {repeats}",
            "",
            *table(rows, width=width),
            "",
            "mean ± standard deviation over repeats (map is one network); in the units of the values, over all outputs",
        ]
    )


def _pair(row: Mapping[str, Any], name: str, digits: int) -> str:
    mean, deviation = row[f"{name}_mean"], row[f"{name}_std"]
    if mean is None:
        return "-"
    return f"{mean:.{digits}g}" + (f" ± {deviation:.2g}" if deviation else "")
