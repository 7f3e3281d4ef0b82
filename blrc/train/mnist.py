"""The whole recipe on MNIST: full-precision pretraining, weight transfer, binary network, checkpoint."""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from blrc import checkpoint, datasets, encode, models
from blrc.datasets import Dataset
from blrc.encode import InputEncoding
from blrc.errors import BlrcError
from blrc.nn import (
    SoftmaxLinear,
    StochasticSign,
    WeightDistribution,
    deterministic,
    entropy,
    reestimate,
    reuse_noise,
    transfer_,
    variance_regulariser,
)
from blrc.train.loop import derived_seed, run_stages
from blrc.train.memory import keep_freed_memory
from blrc.train.recipe import Recipe, cosine, one_cycle
from blrc.train.stage import Loss, Stage, Tensors, accuracy
from blrc.train.state import TrainingState, load_state, save_state, state_file

ENCODING = encode.pixels((1, 28, 28), mean=(0.1307,), std=(0.3081,))
REESTIMATION = 1_280  # samples of the norm statistics in validation: ten batches, of which five would do
CALIBRATION_STREAM = 1_000  # "stage" numbers of seeds that no stage uses


@dataclass(frozen=True)
class Trained:
    """What came out of a run.

    Attributes:
        model: the best epoch of the binary network.
        accuracies: validation accuracy in [0, 1] of every epoch, by stage; ``blrnet``'s are those of its MAP network.
    """

    model: nn.Sequential
    accuracies: Mapping[str, list[float]]


def train_mnist(
    output: str | Path,
    data: str | Path | None = None,
    recipe: Recipe | None = None,
    resume: bool = False,
    stream: TextIO | None = None,
    threads: int | None = None,
) -> Trained:
    """Train the paper's MNIST network and write its checkpoint.

    The network is trained on the device's own input codes. After every epoch the run's state goes to
    ``<output>.training``; a run that was killed goes on from there with `resume`, and ends with the same bytes as an
    uninterrupted one at the same number of threads. The file is removed when the checkpoint is written.

    Args:
        output: the checkpoint's path.
        data: folder of IDX files; by default the cache, downloaded when absent.
        recipe: options.
        resume: go on from the state that is there, if any.
        stream: for progress (stderr); a bar on a terminal, else a line an epoch.
        threads: torch's threads during the run; by default as many as it has now.

    Raises:
        BlrcError: bad options or data; a state is there, but `resume` is off or the options differ from its own.
    """
    if threads is not None and threads < 1:
        raise BlrcError(f"threads {threads}: must be at least 1")
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        return _train(Path(output), data, recipe or Recipe(), resume, stream or sys.stderr)
    finally:
        torch.set_num_threads(before)


def _train(output: Path, data: str | Path | None, recipe: Recipe, resume: bool, stream: TextIO) -> Trained:
    state_path = state_file(output)
    training, validation = datasets.split(datasets.mnist(data), recipe.validation)
    if recipe.calibration > len(training):
        raise BlrcError(f"calibration {recipe.calibration}: there are only {len(training)} training samples")
    options = {**asdict(recipe), "data": _digest(training, validation)}
    if not resume and state_path.exists():
        raise BlrcError(f"{state_path}: an unfinished run; go on with --resume, or delete the file to train anew")
    if resume and state_path.exists():
        state = load_state(state_path, options)
        tqdm.write(f"going on after {sum(map(len, state.accuracies.values()))} epochs", file=stream)
        if state.threads != torch.get_num_threads():
            tqdm.write(f"the run had {state.threads} threads, now {torch.get_num_threads()}: last bits may differ",
                       file=stream)  # fmt: skip
    else:
        state = TrainingState(options, torch.get_num_threads())
        save_state(state, state_path)  # a folder that cannot be written is found now, not after an epoch
    keep_freed_memory()
    with torch.random.fork_rng(devices=[]):
        stages = mnist_stages(recipe, training, validation, ENCODING)
        run_stages(stages, state, state_path, training, ENCODING, recipe.batch, recipe.seed, stream)
        model = _network(recipe)
    model.load_state_dict(state.results["blrnet"])
    model.eval()
    rows = _choice(len(training), recipe.calibration, recipe.seed)
    checkpoint.save(model, output, input=ENCODING, calibration=training.images[rows], compact=True)
    state_path.unlink()
    return Trained(model, state.accuracies)


def mnist_stages(recipe: Recipe, training: Dataset, validation: Dataset, encoding: InputEncoding) -> list[Stage]:
    """Full-precision pretraining (unless 0 epochs) and the binary network."""
    subset = training.images[_choice(len(training), min(REESTIMATION, len(training)), recipe.seed)]
    statistics = torch.from_numpy(encoding.real(subset))

    def pretrain_loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(model(inputs), labels)

    def binary_losses(results: Mapping[str, Tensors]) -> Loss:
        fit = _distillation(recipe, _pretrained(results)) if recipe.distillation else pretrain_loss

        def binary_loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
            loss = fit(model, inputs, labels)
            if recipe.objective == "bound":
                return loss - entropy(model) / len(training)
            return loss + recipe.variance_penalty * variance_regulariser(model)

        return binary_loss

    def validate_real(model: nn.Module) -> float:
        return accuracy(model.eval(), validation, encoding)

    def validate_map(model: nn.Module) -> float:
        return accuracy(reestimate(deterministic(model.eval()), statistics), validation, encoding)

    def build_real(_: Mapping[str, Tensors]) -> nn.Module:
        return _with_dropout(models.mnist("fp"), recipe.dropout).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return, unused-ignore]

    def build_binary(results: Mapping[str, Tensors]) -> nn.Module:
        model = _network(recipe)
        if "fp" in results:
            transfer_(model, _pretrained(results))
        reuse_noise(model)
        return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return, unused-ignore]

    def real_groups(model: nn.Module) -> list[dict[str, Any]]:
        return [{"params": list(model.parameters()), "lr": recipe.pretrain_lr, "weight_decay": recipe.pretrain_decay}]

    pretraining = Stage(
        "fp",
        recipe.pretrain_epochs,
        build_real,
        real_groups,
        one_cycle,
        lambda _: pretrain_loss,
        validate_real,
        recipe.shifts,
        decoupled=True,
    )
    binary = Stage(
        "blrnet",
        recipe.epochs,
        build_binary,
        lambda model: binary_groups(model, recipe),
        cosine,
        binary_losses,
        validate_map,
        recipe.shifts,
    )
    return [pretraining, binary] if recipe.pretrain_epochs else [binary]


def binary_groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Parameter groups of a binary network: logits of weights, softmax layers (with weight decay), the rest."""
    logits = [p for m in model.modules() if isinstance(m, WeightDistribution) for p in m.parameters()]
    softmax = [p for m in model.modules() if isinstance(m, SoftmaxLinear) for p in m.parameters()]
    taken = set(map(id, logits + softmax))
    rest = [p for p in model.parameters() if id(p) not in taken]
    return [
        {"params": logits, "lr": recipe.weight_lr},
        {"params": softmax, "lr": recipe.lr, "weight_decay": recipe.weight_decay},
        {"params": rest, "lr": recipe.lr},
    ]


def _network(recipe: Recipe) -> nn.Sequential:
    model = models.mnist("blrnet")
    for name, module in model.named_children():
        if isinstance(module, StochasticSign):
            setattr(model, name, StochasticSign(recipe.tau, recipe.hard))
    return model


def _with_dropout(model: nn.Sequential, share: float) -> nn.Sequential:
    """Drop inputs of the dense layers. The tensors keep their names."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name, module in model.named_children():
        if isinstance(module, nn.Linear) and share:
            layers[f"dropout_{name}"] = nn.Dropout(share)
        layers[name] = module
    return nn.Sequential(layers)


def _pretrained(results: Mapping[str, Tensors]) -> nn.Module:
    model = models.mnist("fp")
    model.load_state_dict(results["fp"])
    return model.eval().requires_grad_(False)


def _distillation(recipe: Recipe, teacher: nn.Module) -> Loss:
    """(1 - d) cross entropy + d T^2 KL(teacher || network), both softened by the temperature T."""
    share, temperature = recipe.distillation, recipe.temperature

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        logits = model(inputs)
        with torch.no_grad():
            soft = F.log_softmax(teacher(inputs) / temperature, 1)
        divergence = F.kl_div(F.log_softmax(logits / temperature, 1), soft, reduction="batchmean", log_target=True)
        return (1 - share) * F.cross_entropy(logits, labels) + share * temperature**2 * divergence

    return loss


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
