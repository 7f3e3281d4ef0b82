"""Describe a stage of training as plain data, and run one epoch of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from blrc.datasets.idx import Dataset
from blrc.net.encoding import InputEncoding
from blrc.training.machine.ranks import Ranks
from blrc.training.stages.augment import Augment

Tensors = Mapping[str, Tensor]
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
EVALUATION_BATCH = 500
ONE = Ranks()
LAST = "-last"
LIKELIHOOD = "log_likelihood"


@dataclass(frozen=True)
class Stage:
    """Describe the training of one network for some epochs.

    Attributes:
        name: name in log lines and in the training state.
        epochs: number of epochs.
        build: returns the network to start from, given the results (best tensors) of earlier stages by name.
        groups: returns the optimiser's parameter groups, whose ``lr`` is the peak rate.
        schedule: returns the share of the peak rate, given the share of the stage's steps that are done.
        losses: returns the loss of a batch (a function of network, inputs, labels), given the earlier results.
        validate: returns the accuracy in [0, 1].
        augment: alters a batch of raw training images at random (`blrc.training.stages.augment`).
        decay: returns a further factor on an epoch's rates, given the validation accuracies of the epochs before.
        decoupled: decouple weight decay from the gradient (AdamW) instead of using L2 (Adam).
        also: further figures to measure after every epoch, by name.
        merit: the figure that is highest at the epoch which is the stage's result: ``validation`` or one of `also`.
        keep_last: keep the last epoch as well, under the stage's name with `LAST` behind it.
        prepare: called before every step with the network and the share of the stage's steps that are done.
        finish: called after every step of the optimiser with the network.
        compile: run steps through torch.compile.
    """

    name: str
    epochs: int
    build: Callable[[Mapping[str, Tensors]], nn.Module]
    groups: Callable[[nn.Module], list[dict[str, Any]]]
    schedule: Callable[[float], float]
    losses: Callable[[Mapping[str, Tensors]], Loss]
    validate: Callable[[nn.Module], float]
    augment: Augment = lambda images, rng: images
    decay: Callable[[Sequence[float]], float] = lambda accuracies: 1.0
    decoupled: bool = False
    also: Mapping[str, Callable[[nn.Module], float]] = field(default_factory=dict)
    merit: str = "validation"
    keep_last: bool = False
    prepare: Callable[[nn.Module, float], None] = lambda model, progress: None
    finish: Callable[[nn.Module], None] = lambda model: None
    compile: bool = False


def optimiser(stage: Stage, model: nn.Module) -> torch.optim.Optimizer:
    """Return Adam, or AdamW, over the stage's parameter groups. Each group keeps its peak rate as ``peak``."""
    groups = [{**group, "peak": group["lr"]} for group in stage.groups(model)]
    return (torch.optim.AdamW if stage.decoupled else torch.optim.Adam)(groups, fused=True)


def run_epoch(
    stage: Stage,
    epoch: int,
    model: nn.Module,
    loss_of: Loss,
    adam: torch.optim.Optimizer,
    data: Dataset,
    encoding: InputEncoding,
    batch: int,
    seed: int,
    report: Callable[[int, float], None],
    decay: float = 1.0,
    ranks: Ranks = ONE,
) -> float:
    """Train one epoch (numbered from 1) with rates multiplied by `decay`, and return the mean loss.

    All randomness comes from `seed`, so that an epoch can be repeated without the ones before it. Each process takes
    its share (`ranks`) of every batch. Order and augmentation are those of a single process, while each process has
    its own noise.
    """
    torch.manual_seed(ranks.seed(seed))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data))
    steps = -(-len(data) // batch)
    if 0 < len(data) % batch < max(2, ranks.count):  # a last batch of one sample has no batch statistics
        steps -= 1
    model.train()
    total = 0.0
    for step in range(steps):
        progress = (epoch - 1 + step / steps) / stage.epochs
        stage.prepare(model, progress)
        rate = stage.schedule(progress) * decay
        for group in adam.param_groups:
            group["lr"] = group["peak"] * rate
        chosen = order[step * batch : (step + 1) * batch]
        images = ranks.share(stage.augment(data.images[chosen], rng))
        inputs = torch.from_numpy(encoding.real(images)).to(ranks.device)
        labels = torch.from_numpy(ranks.share(data.labels[chosen]).astype(np.int64)).to(ranks.device)
        adam.zero_grad(set_to_none=True)
        loss = loss_of(model, inputs, labels)
        if ranks.count > 1:
            loss = loss * ranks.weight(len(chosen))
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        adam.step()
        stage.finish(model)
        total += float(loss.detach())
        report(step + 1, total / (step + 1))
    return ranks.mean(total / steps)


@torch.no_grad()
def log_likelihood(network: nn.Module, data: Dataset, encoding: InputEncoding) -> float:
    """Return the mean logarithm of the labels' probabilities in nats. The network keeps its current mode."""
    return -sum(
        float(F.cross_entropy(scores, labels, reduction="sum")) for scores, labels in _scored(network, data, encoding)
    ) / len(data)


@torch.no_grad()
def accuracy(network: nn.Module, data: Dataset, encoding: InputEncoding) -> float:
    """Return the share of samples whose highest score is that of their label. The network keeps its current mode."""
    correct = sum(int((scores.argmax(1) == labels).sum()) for scores, labels in _scored(network, data, encoding))
    return correct / len(data)


def _scored(network: nn.Module, data: Dataset, encoding: InputEncoding) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield scores and labels, on the CPU, of one part of the data after the other."""
    device = next((tensor.device for tensor in network.parameters()), torch.device("cpu"))
    for start in range(0, len(data), EVALUATION_BATCH):
        part = data[start : start + EVALUATION_BATCH]
        scores: Tensor = network(torch.from_numpy(encoding.real(part.images)).to(device))
        yield scores.cpu(), torch.from_numpy(part.labels.astype(np.int64))
