"""Run the stages of a training one after the other, so that it can be resumed after any epoch."""

from __future__ import annotations

import csv
import io
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import nn
from tqdm import tqdm

from blrc.datasets.idx import Dataset
from blrc.errors import BlrcError
from blrc.net.encoding import InputEncoding
from blrc.store.places import write_atomically
from blrc.training.machine.ranks import Ranks
from blrc.training.machine.torch_compile import compiled, reported
from blrc.training.seeds import derived_seed
from blrc.training.stages.stage import LAST, ONE, Stage, Tensors, optimiser, run_epoch
from blrc.training.state import TrainingState, comparable, save_state

REPORT_EVERY = 20
# How long the next epoch may take, as a multiple of the last one's time: in the same stage, and in the next one, whose
# steps may take twice as long (`python benchmarks/train_epoch.py`) and may also run a teacher.
SAME_STAGE, NEXT_STAGE = 1.5, 4.0


class OutOfTimeError(BlrcError):
    """Report that a run has stopped by itself after an epoch because its time was over, and can be resumed."""


def run_stages(
    stages: Sequence[Stage],
    state: TrainingState,
    path: Path,
    data: Dataset,
    encoding: InputEncoding,
    batch: int,
    seed: int,
    stream: TextIO = sys.stderr,
    log: Path | None = None,
    ranks: Ranks = ONE,
    until: float = math.inf,
) -> None:
    """Train every stage that `state` has not finished, and save the state to `path` after each epoch.

    Afterwards ``state.results`` holds the best tensors of each stage. `log` is a CSV file of ``state.history``. In a
    run of several processes (`ranks`) only the first one validates and writes to `path`, `stream` and `log`.

    Raises:
        BlrcError: the saved state does not fit the network.
        OutOfTimeError: `until`, on the monotonic clock, might come before the end of another epoch (see `late`).
    """
    for index in range(state.stage, len(stages)):
        stage = stages[index]
        torch.manual_seed(derived_seed(seed, index, 0))
        model = stage.build(state.results).to(ranks.device)
        parallel = ranks.parallel(compiled(model) if stage.compile else model)
        adam, loss_of = optimiser(stage, model), stage.losses(state.results)
        if state.epoch:
            try:
                model.load_state_dict(state.model)
                adam.load_state_dict(state.adam)
            except Exception as error:  # what torch raises depends on what does not fit
                raise BlrcError(f"{path}: does not fit this network: delete it and train anew") from error
        for epoch in range(state.epoch + 1, stage.epochs + 1):
            start, cpu = time.monotonic(), time.process_time()
            title = f"{stage.name} epoch {epoch}/{stage.epochs}"
            # Progress is a bar on a terminal, and one line per epoch elsewhere.
            total = -(-len(data) // batch)
            with tqdm(
                total=total, desc=title, file=stream, leave=False, disable=not (ranks.first and stream.isatty())
            ) as bar:
                bar.set_postfix_str(_best(state))

                def report(step: int, loss: float, bar: tqdm = bar) -> None:  # type: ignore[type-arg, unused-ignore]
                    bar.update(1)
                    if step % REPORT_EVERY == 0:
                        bar.set_postfix_str(f"loss {loss:.4f}{_best(state)}")

                decay = stage.decay([row["validation"] for row in state.history if row["stage"] == stage.name])
                with reported(stage.compile):
                    loss = run_epoch(
                        stage, epoch, parallel, loss_of, adam, data, encoding, batch, derived_seed(seed, index, epoch),
                        report, decay=decay, ranks=ranks,
                    )  # fmt: skip
            accuracy, also = ranks.of_first(lambda stage=stage, model=model: _measured(stage, model))  # type: ignore[misc]
            state.stage, state.epoch = index, epoch
            state.model, state.adam = model.state_dict(), adam.state_dict()
            state.history.append({"stage": stage.name, "epoch": epoch, "loss": loss, "validation": accuracy, **also,
                                  "cpu_seconds": round(time.process_time() - cpu, 1)})  # fmt: skip
            merit = comparable(state.history[-1][stage.merit])
            if merit >= state.best_merit:
                state.best, state.best_merit = _copy(state.model), merit
                state.best_accuracy, state.best_epoch = accuracy, epoch
            if epoch == stage.epochs:
                state.results[stage.name] = state.best
                if stage.keep_last:
                    state.results[stage.name + LAST] = _copy(state.model)
            line = f"{title}: loss {loss:.4f}, validation {100 * accuracy:.2f} %{_best(state)}"
            took = time.monotonic() - start
            left = f", {stage.name} {_duration(took * (stage.epochs - epoch))} left" if epoch < stage.epochs else ""
            if ranks.first:
                tqdm.write(f"{line}, {took:.0f} s{left}", file=stream)
            if epoch == stage.epochs:
                state.stage, state.epoch, state.model, state.adam, state.best = index + 1, 0, {}, {}, {}
                state.best_merit, state.best_accuracy, state.best_epoch = -math.inf, -1.0, 0
            if ranks.first:
                save_state(state, path)
                if log is not None:
                    write_atomically(log, to_csv(state.history).encode())
            same = state.stage == index
            out = ranks.of_first(lambda start=start, same=same: late(start, time.monotonic(), until, same))  # type: ignore[misc]
            if out and state.stage < len(stages):
                raise OutOfTimeError(f"{path}: out of time; the same command with --resume goes on from there")


def late(start: float, now: float, until: float, same_stage: bool) -> bool:
    """Return whether `until` might come before the end of an epoch that begins now.

    The estimate is a multiple of the last epoch's time: `SAME_STAGE` or `NEXT_STAGE` times as long.

    Args:
        start: when the last epoch began.
        now: when the last epoch ended.
        until: when the run has to stop.
        same_stage: whether the coming epoch belongs to the same stage as the last one.
    """
    return now + (SAME_STAGE if same_stage else NEXT_STAGE) * (now - start) > until


def _measured(stage: Stage, model: nn.Module) -> tuple[float, dict[str, float]]:
    return stage.validate(model), {name: measure(model) for name, measure in stage.also.items()}


def to_csv(history: Sequence[Mapping[str, Any]]) -> str:
    """Return the history as CSV with one line per epoch. Figures that a stage does not measure stay empty."""
    columns = list(dict.fromkeys(name for row in history for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()


def _duration(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


def _best(state: TrainingState) -> str:
    return f", best {100 * state.best_accuracy:.2f} % at {state.best_epoch}" if state.best_epoch else ""


def _copy(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
