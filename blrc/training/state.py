"""Keep the state of an unfinished run in a file beside the output."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from blrc.errors import BlrcError
from blrc.reading.archive import read_stored
from blrc.store import steps
from blrc.store.atomic import cannot_write, hidden, write_atomically
from blrc.store.lock import lock_file
from blrc.training.stages.stage import LIKELIHOOD, Tensors

FORMAT = 7  # raise it when fields change, here or in the recipe, or when the same options compute something else


@dataclass
class TrainingState:
    """Hold what a run needs to continue after its last finished epoch.

    Attributes:
        options: everything that the result depends on, as plain values: the recipe's fields, the data's digest, and the
            number of processes where there are several.
        threads: number of torch's threads. Another number changes the last bits of the result.
        device: ``cpu`` or ``cuda``, where the run began. The other one changes the last bits of the result.
        stage: index of the current stage.
        epoch: number of its finished epochs.
        model, adam: state dicts of its network and its optimiser.
        best, best_merit, best_accuracy, best_epoch: its best tensors so far, the figure by which they were chosen,
            their accuracy and their epoch.
        results: best tensors of finished stages, by name.
        history: one row per epoch so far: stage, epoch, loss, validation (accuracy in [0, 1]), what else the stage
            measures, and the epoch's CPU seconds.
    """

    options: dict[str, Any]
    threads: int
    device: str = "cpu"
    stage: int = 0
    epoch: int = 0
    model: Tensors = field(default_factory=dict)
    adam: dict[str, Any] = field(default_factory=dict)
    best: Tensors = field(default_factory=dict)
    best_merit: float = -math.inf
    best_accuracy: float = -1.0
    best_epoch: int = 0
    results: dict[str, Tensors] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def accuracies(self) -> dict[str, list[float]]:
        """Return the validation accuracy of every epoch so far, by stage."""
        found: dict[str, list[float]] = {}
        for row in self.history:
            found.setdefault(row["stage"], []).append(row["validation"])
        return found

    @property
    def merits(self) -> dict[str, list[float]]:
        """Return what the best epoch has most of, for every epoch so far, by stage."""
        found: dict[str, list[float]] = {}
        for row in self.history:
            found.setdefault(row["stage"], []).append(comparable(row.get(LIKELIHOOD, row["validation"])))
        return found


def comparable(merit: float) -> float:
    """Return a merit that has its place among others: that of a network that diverged, NaN, is below all of them."""
    return -math.inf if math.isnan(merit) else merit


def state_file(output: Path) -> Path:
    """Return the path of the state file of a run that writes `output`."""
    return output.with_name(output.name + ".training")


@contextmanager
def run_alone(output: Path) -> Iterator[None]:
    """Keep other runs away from `output` and its state until this one ends or its process dies.

    Raises:
        BlrcError: another run holds them, or the folder cannot be written.
    """
    held = f"{output}: another blrc train that writes it is running; wait for it to end, or choose another file with -o"
    made: list[Path] = []
    try:
        made = steps.make_folders(output.parent)
        lock = lock_file(output.parent / hidden(output.name, "lock"), held)
    except (OSError, ValueError) as error:
        raise cannot_write(output, error) from None
    try:
        yield
    finally:
        lock.release()
        for folder in reversed(made):
            with suppress(OSError):  # the folder is not empty if it holds what was trained
                folder.rmdir()


def save_state(state: TrainingState, path: Path) -> None:
    """Write a state atomically, so that a run that is killed meanwhile still has the previous one."""
    content = {f.name: getattr(state, f.name) for f in fields(state)}
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **content}, buffer)
    write_atomically(path, buffer.getvalue())


def load_state(path: Path, options: dict[str, Any]) -> TrainingState:
    """Read the state of a run with these options.

    Raises:
        BlrcError: the file is no training state, or it is of another version, or of a run with other options. The
            message names each option that differs.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning from some version of torch is no reason to refuse a file
            content = torch.load(io.BytesIO(read_stored(path)), map_location="cpu", weights_only=True)
        if content.pop("format") != FORMAT:
            raise BlrcError(f"{path}: written by another version of blrc: delete it and train anew")
        state = TrainingState(**content)
        _check(state)
    except BlrcError:
        raise
    except Exception:  # a damaged file can make torch's reader and unpickler raise anything
        raise BlrcError(f"{path}: not a training state, or damaged: delete it and train anew") from None
    differing = [
        f"{name} {state.options.get(name)!r}, now {options.get(name)!r}"
        for name in sorted(state.options.keys() | options.keys())
        if state.options.get(name) != options.get(name)
    ]
    if differing:
        raise BlrcError(
            f"{path}: the interrupted run had other options ({'; '.join(differing)}): "
            "give the same ones, or delete the file and train anew"
        )
    return state


def _check(state: TrainingState) -> None:
    """Raise a `TypeError` if a field does not have its type."""
    whole = (state.threads, state.stage, state.epoch, state.best_epoch)
    held = (state.model, state.best, *state.results.values())
    good = isinstance(state.options, dict) and isinstance(state.history, list)
    good = (
        good
        and all(type(number) is int and number >= 0 for number in whole)
        and type(state.device) is str
        and type(state.best_accuracy) is type(state.best_merit) is float
        and all(type(name) is str for name in (*state.options, *state.results))
        and all(type(key) is str and isinstance(value, torch.Tensor) for each in held for key, value in each.items())
        and isinstance(state.adam, dict)
        and all(type(row["stage"]) is str and type(row["validation"]) is float for row in state.history)
    )
    if not good:
        raise TypeError("a field of another type")
