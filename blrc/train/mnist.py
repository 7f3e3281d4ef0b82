"""The whole recipe on MNIST: full-precision pretraining, weight transfer, binary network, restart, checkpoint."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from blrc import checkpoint, datasets, encode
from blrc.datasets import Dataset
from blrc.encode import InputEncoding
from blrc.errors import BlrcError
from blrc.nn import clip_, deterministic, reestimate, reuse_noise, transfer_, xavier_
from blrc.train import networks
from blrc.train.augment import augmentation
from blrc.train.loop import derived_seed, run_stages
from blrc.train.losses import cross_entropy, squared_hinge_loss, stochastic_losses
from blrc.train.memory import keep_freed_memory
from blrc.train.recipe import Recipe, cosine, one_cycle, warm_cosine
from blrc.train.stage import Stage, Tensors, accuracy
from blrc.train.state import TrainingState, load_state, save_state, state_file

ENCODING = encode.pixels((1, 28, 28), mean=(0.1307,), std=(0.3081,))
REESTIMATION = 1_280  # samples of the norm statistics in validation: ten batches, of which five would do
CALIBRATION_STREAM = 1_000  # "stage" numbers of seeds that no stage uses


@dataclass(frozen=True)
class Trained:
    """What came out of a run.

    Attributes:
        model: the best epoch of the network.
        accuracies: validation accuracy in [0, 1] of every epoch, by stage; a stochastic network's are those of its MAP
            network.
        history: a row an epoch (`blrc.train.state.TrainingState`).
    """

    model: nn.Sequential
    accuracies: Mapping[str, list[float]]
    history: Sequence[Mapping[str, Any]]


def train_mnist(
    output: str | Path,
    data: str | Path | None = None,
    recipe: Recipe | None = None,
    resume: bool = False,
    stream: TextIO | None = None,
    threads: int | None = None,
    log: str | Path | None = None,
) -> Trained:
    """Train the paper's MNIST network, or a baseline, and write its checkpoint.

    The network is trained on the device's own input codes. After every epoch the run's state goes to
    ``<output>.training``; a run that was killed goes on from there with `resume`, and ends with the same bytes as an
    uninterrupted one at the same number of threads. The file is removed when the checkpoint is written. A
    full-precision network cannot be compiled; its file is for `blrc.checkpoint.load_real`.

    Args:
        output: the checkpoint's path.
        data: folder of IDX files; by default the cache, downloaded when absent.
        recipe: options.
        resume: go on from the state that is there; without one a new run begins, and a line says so.
        stream: for progress (stderr); a bar on a terminal, else a line an epoch.
        threads: torch's threads during the run; by default as many as it has now.
        log: a CSV file with a line an epoch, written after each.

    Raises:
        BlrcError: bad options or data; a state is there, but `resume` is off or the options differ from its own.
    """
    if threads is not None and threads < 1:
        raise BlrcError(f"threads {threads}: must be at least 1")
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        path = None if log is None else Path(log)
        return _train(Path(output), data, recipe or Recipe(), resume, stream or sys.stderr, path)
    finally:
        torch.set_num_threads(before)


def _train(
    output: Path, data: str | Path | None, recipe: Recipe, resume: bool, stream: TextIO, log: Path | None
) -> Trained:
    state_path = state_file(output)
    training, validation = datasets.split(datasets.mnist(data), recipe.validation)
    if recipe.calibration > len(training):
        raise BlrcError(f"calibration {recipe.calibration}: there are only {len(training)} training samples")
    options = {**asdict(recipe), "data": _digest(training, validation)}
    if not resume and state_path.exists():
        raise BlrcError(f"{state_path}: an unfinished run; go on with --resume, or delete the file to train anew")
    if resume and state_path.exists():
        state = load_state(state_path, options)
        tqdm.write(f"going on after {len(state.history)} epochs", file=stream)
        if state.threads != torch.get_num_threads():
            tqdm.write(f"the run had {state.threads} threads, now {torch.get_num_threads()}: last bits may differ",
                       file=stream)  # fmt: skip
    else:
        if resume:
            tqdm.write(f"{state_path}: no unfinished run; starting a new one", file=stream)
        state = TrainingState(options, torch.get_num_threads())
        save_state(state, state_path)  # a folder that cannot be written is found now, not after an epoch
    keep_freed_memory()
    with torch.random.fork_rng(devices=[]):
        stages = mnist_stages(recipe, training, validation, ENCODING)
        run_stages(stages, state, state_path, training, ENCODING, recipe.batch, recipe.seed, stream, log)
        model = networks.new(recipe)
    model.load_state_dict(state.results[best_stage(recipe, state.accuracies)])
    model.eval()
    if recipe.model == "fp":
        checkpoint.save_real(model, output)
    else:
        rows = _choice(len(training), recipe.calibration, recipe.seed)
        checkpoint.save(model, output, input=ENCODING, calibration=training.images[rows], compact=True)
    state_path.unlink()
    return Trained(model, state.accuracies, state.history)


def best_stage(recipe: Recipe, accuracies: Mapping[str, Sequence[float]]) -> str:
    """The stage whose best epoch on the validation set is the run's result; the later one where they are equal."""
    candidates = [recipe.model, *(["restart"] if "restart" in accuracies else [])]
    return max(reversed(candidates), key=lambda name: max(accuracies[name]))


def mnist_stages(recipe: Recipe, training: Dataset, validation: Dataset, encoding: InputEncoding) -> list[Stage]:
    """The stages of a recipe: ``fp``; ``bnn``; or ``fp`` (where it pretrains), ``blrnet``, ``restart`` (if any)."""
    augment = augmentation(recipe.shifts, recipe.rotation, recipe.zoom)
    subset = training.images[_choice(len(training), min(REESTIMATION, len(training)), recipe.seed)]
    statistics = torch.from_numpy(encoding.real(subset))

    def validate_real(model: nn.Module) -> float:
        return accuracy(model.eval(), validation, encoding)

    def validate_map(model: nn.Module) -> float:
        return accuracy(reestimate(deterministic(model.eval()), statistics), validation, encoding)

    def build_stochastic(results: Mapping[str, Tensors]) -> nn.Module:
        model = networks.stochastic(recipe)
        if recipe.init == "xavier":
            xavier_(model)
        elif "fp" in results:
            transfer_(model, networks.pretrained(recipe, results))
        reuse_noise(model)
        return _channels_last(model)

    def build_restart(results: Mapping[str, Tensors]) -> nn.Module:
        model = networks.stochastic(recipe)
        model.load_state_dict(results["blrnet"])
        reuse_noise(model)
        return _channels_last(model)

    pretraining = Stage(
        "fp",
        recipe.epochs if recipe.model == "fp" else recipe.pretrain_epochs,
        lambda _: _channels_last(networks.real(recipe)),
        lambda model: [
            {"params": list(model.parameters()), "lr": recipe.pretrain_lr, "weight_decay": recipe.pretrain_decay}
        ],
        one_cycle,
        lambda _: cross_entropy,
        validate_real,
        augment,
        decoupled=True,
    )
    if recipe.model == "fp":
        return [pretraining]
    if recipe.model == "bnn":
        return [
            Stage(
                "bnn",
                recipe.epochs,
                lambda _: _channels_last(networks.new(recipe)),
                lambda model: networks.straight_through_groups(model, recipe.lr),
                cosine,
                lambda _: squared_hinge_loss,
                validate_map,
                augment,
                finish=clip_,
            )
        ]
    binary = Stage(
        "blrnet",
        recipe.epochs,
        build_stochastic,
        lambda model: networks.binary_groups(model, recipe.weight_lr, recipe.lr, recipe.weight_decay),
        cosine,
        lambda results: stochastic_losses(recipe, results, len(training)),
        validate_map,
        augment,
        also={"stochastic": validate_real},
    )
    restart = replace(
        binary,
        name="restart",
        epochs=recipe.restart_epochs,
        build=build_restart,
        groups=lambda model: networks.binary_groups(
            model, recipe.restart_weight_lr, recipe.restart_lr, recipe.weight_decay
        ),
        schedule=warm_cosine,
        prepare=lambda model, progress: networks.restrain_at(model, recipe, progress),
    )
    return [*([pretraining] if recipe.pretrains else []), binary, *([restart] if recipe.restart_epochs else [])]


def _channels_last(model: nn.Module) -> nn.Module:
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return, unused-ignore]


def _choice(samples: int, count: int, seed: int) -> Any:
    """Sorted indices of `count` samples, the same for the same seed."""
    generator = np.random.default_rng(derived_seed(seed, CALIBRATION_STREAM, 0))
    return np.sort(generator.choice(samples, count, replace=False))


def _digest(*parts: Dataset) -> str:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.images.tobytes())
        sha.update(part.labels.tobytes())
    return sha.hexdigest()
