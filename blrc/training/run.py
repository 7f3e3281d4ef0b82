"""Do one training run, from data through stages to a checkpoint, which can be resumed after any epoch."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import nn
from tqdm import tqdm

from blrc.display import Brief
from blrc.errors import BlrcError
from blrc.frontend import full_precision, saving
from blrc.nn import divergence
from blrc.store import steps
from blrc.training.data import prepare
from blrc.training.loop import run_stages
from blrc.training.machine import bf16, torch_compile
from blrc.training.machine.memory import keep_freed_memory
from blrc.training.machine.ranks import Ranks, joined
from blrc.training.recipe import Recipe
from blrc.training.stages import networks
from blrc.training.stages.registry import best_stage, choice, stages_of
from blrc.training.stages.stage import LAST
from blrc.training.state import TrainingState, load_state, run_alone, save_state, state_file

MOST_THREADS = 1024  # more than any machine has for one process


class FinishedError(BlrcError):
    """Report that there is nothing to resume, because the output exists and no unfinished run does."""


@dataclass(frozen=True, repr=False)
class Trained(Brief):
    """Hold the result of a run.

    Attributes:
        model: the network after its best epoch.
        accuracies: validation accuracy in [0, 1] of every epoch, by stage. For a stochastic network it is that of its
            MAP network.
        history: one row per epoch (`blrc.training.state.TrainingState`).
        accuracy: validation accuracy of the model.
    """

    model: nn.Sequential
    accuracies: Mapping[str, list[float]]
    history: Sequence[Mapping[str, Any]]
    accuracy: float


def run(
    output: str | Path,
    data: str | Path | None,
    recipe: Recipe,
    resume: bool = False,
    stream: TextIO | None = None,
    threads: int | None = None,
    log: str | Path | None = None,
    device: str = "cpu",
    minutes: float = math.inf,
) -> Trained:
    """Train one of the paper's networks, or a baseline, and write its checkpoint.

    The network is trained on the same input codes that it gets on the device. After every epoch the run's state is
    written to ``<output>.training``. With `resume`, a run that was killed continues from there, and ends with the same
    bytes as an uninterrupted one at the same number of threads. The file is removed when the checkpoint is written. A
    lock on ``.<output>.blrc-lock`` keeps other runs away meanwhile. The kernel releases it however the process ends.

    The checkpoint is that of the best epoch on the validation set. Beside that of an LR-net, whose best epoch is chosen
    by likelihood, the last epoch's is written to ``<output>-last`` (before the suffix).

    A full-precision network cannot be compiled, and `blrc.frontend.full_precision.load_real` reads its file.

    If torchrun started the run, each process takes its share of every batch, and the first one writes and prints.
    Order and augmentation do not depend on the number of processes, but the noise does. All processes must see the
    same files.

    Args:
        output: path of the checkpoint.
        data: folder of the data set's files; None is the cache, to which absent files are downloaded.
        recipe: options of the run.
        resume: continue from the saved state. If there is neither a state nor an output, a new run begins, and a line
            says so.
        stream: where progress is shown, as a bar on a terminal or else a line per epoch; None is stderr.
        threads: number of torch's threads during the run; None keeps the current number.
        log: path of a CSV file with a line per epoch, which is written after each epoch.
        device: ``cpu``, ``cuda``, or ``auto``, which takes a GPU where there is one.
        minutes: stop after an epoch, before this many minutes are over. The run can be resumed then.

    Raises:
        BlrcError: options or data are bad; or there is a saved state, but `resume` is off or the options differ from
            those of the state; or another run is writing `output`.
        OutOfTimeError: `minutes` are nearly over.
        FinishedError: `resume` is on, but the run is finished and its output exists.
    """
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise BlrcError(f"threads {threads}: must be from 1 to {MOST_THREADS:,}")
    if not minutes > 0:
        raise BlrcError(f"minutes {minutes}: must be positive")
    until = time.monotonic() + 60 * minutes
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        path = None if log is None else Path(log)
        with joined(device) as ranks, ExitStack() as held:
            # Of several processes the first one keeps the lock for all; it reads and writes the state.
            ranks.of_first(lambda: held.enter_context(run_alone(Path(output))))
            ranks.of_first(lambda: _refuse_finished(Path(output), resume))
            return _run(Path(output), data, recipe, resume, stream or sys.stderr, path, ranks, until)
    finally:
        torch.set_num_threads(before)


def _run(
    output: Path,
    data: str | Path | None,
    recipe: Recipe,
    resume: bool,
    stream: TextIO,
    log: Path | None,
    ranks: Ranks,
    until: float,
) -> Trained:
    _refuse_early(recipe, ranks)
    if ranks.first and recipe.whiten:
        tqdm.write("fitting and applying the whitening: up to a minute", file=stream)
    prepared = ranks.of_first(lambda: prepare(recipe, data))
    training, encoding = prepared.training, prepared.encoding
    ranks.check(min(recipe.batch, len(training)))
    options = {**asdict(recipe), "data": prepared.digest, **({"ranks": ranks.count} if ranks.count > 1 else {})}
    device = torch.device(ranks.device).type
    state = ranks.of_first(lambda: _state(state_file(output), options, resume, stream, device))
    if ranks.first and not resume:
        for path in (output, *([last_file(output)] if recipe.model == "lrnet" else [])):
            if path.exists():
                tqdm.write(f"{path}: is there, and will be replaced when this run ends", file=stream)
    keep_freed_memory()
    in_bf16 = ranks.first and device == "cpu" and recipe.precision == "bfloat16"
    if in_bf16 and (note := bf16.advice(bf16.slowdown())):
        tqdm.write(note, file=stream)
    with torch.random.fork_rng(devices=[]):
        stages = stages_of(recipe, training, prepared.validation, encoding, ranks.device)
        run_stages(
            stages, state, state_file(output), training, encoding, recipe.batch, recipe.seed, stream, log, ranks, until
        )
        model = networks.new(recipe)
    stage = best_stage(recipe, state.merits)
    merits = state.merits[stage]
    best = max(range(len(merits)), key=lambda epoch: (merits[epoch], epoch))
    model.load_state_dict(state.results[stage])
    model.eval()
    if ranks.first:
        if recipe.model == "fp":
            full_precision.save_real(model, output, encoding.kind)
        else:
            samples = training.images[choice(len(training), recipe.calibration, recipe.seed)]
            kept: dict[str, Any] = {
                "input": encoding,
                "calibration": samples,
                "compact": True,
                "whitening": prepared.whitening,
            }
            if (last := state.results.get(stages[-1].name + LAST)) is not None:
                latest = networks.new(recipe)
                latest.load_state_dict(last)
                saving.save(latest.eval(), path=last_file(output), **kept)
            saving.save(model, path=output, **kept)
        steps.remove(state_file(output))
        steps.sync_folder(output.parent)
    return Trained(model, state.accuracies, state.history, state.accuracies[stage][best])


def last_file(output: Path) -> Path:
    """Return the path of the checkpoint of the last epoch, where the best one is chosen by likelihood."""
    return output.with_name(f"{output.stem}{LAST}{output.suffix}")


def _refuse_early(recipe: Recipe, ranks: Ranks) -> None:
    """Refuse a recipe that cannot be trained before anything is read or written."""
    with torch.random.fork_rng(devices=[]):
        model = networks.new(recipe)
    if recipe.objective == "bound" and recipe.stochastic:
        divergence(model, recipe.prior)  # names no layer that is not there
    if recipe.compile:
        if ranks.count > 1 and recipe.model != "blrnet":
            raise BlrcError(
                f"--compile on several processes is for stochastic networks, not for {recipe.model}: leave it out"
            )
        torch_compile.check(ranks.device)


def _refuse_finished(output: Path, resume: bool) -> None:
    if resume and output.exists() and not state_file(output).exists():
        raise FinishedError(f"{output}: this run is finished; without --resume the same command trains anew")


def _state(state_path: Path, options: dict[str, Any], resume: bool, stream: TextIO, device: str) -> TrainingState:
    """Return the state to resume from, or write and return a new one."""
    if not resume and state_path.exists():
        raise BlrcError(f"{state_path}: an unfinished run; go on with --resume, or delete the file to train anew")
    if resume and state_path.exists():
        state = load_state(state_path, options)
        tqdm.write(f"going on after {len(state.history)} epochs", file=stream)
        was, now = (state.threads, state.device), (torch.get_num_threads(), device)
        if was != now:
            tqdm.write(
                "the run had {} threads on {}, now {} on {}: last bits may differ".format(*was, *now), file=stream
            )
    else:
        if resume:
            tqdm.write(f"{state_path}: no unfinished run; starting a new one", file=stream)
        state = TrainingState(options, torch.get_num_threads(), device)
        save_state(state, state_path)  # a folder that cannot be written is found now, not after an epoch
    return state
