"""CPU seconds that an epoch of training costs, as the recipes train it, and where they go.

    python benchmarks/train_epoch.py [mnist|cifar10] [--width 0.25] [--precision float32|bfloat16] [--compile]
                                     [--steps 60]

Times steps of 128 random images (the arithmetic does not depend on what is in them), with their augmentation, on one
thread, and scales them to an epoch (55,000 images of MNIST, 45,000 of CIFAR-10). All networks take turns in one run, a
few steps each, so that a busy machine slows them alike; medians. Prints CPU and wall time, page faults, and the ratio
to a plain full-precision epoch; then where the stochastic network's step goes: data, forward and backward pass of each
layer, loss and regulariser, optimiser; with --compile also where the compiled one's goes, in which a norm stands for
the pool and the sign behind it, too. Validation after each epoch comes on top.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from blrc.datasets.idx import Dataset
from blrc.nn import Gaussian, shared_moments, variance_regulariser
from blrc.training.data import CIFAR10, MNIST
from blrc.training.machine.memory import keep_freed_memory
from blrc.training.machine.torch_compile import compiled
from blrc.training.recipe import RECIPES, Recipe
from blrc.training.stages.augment import augmentation
from blrc.training.stages.registry import stages_of
from blrc.training.stages.stage import optimiser, run_epoch

BATCH = 128
EPOCH = {"mnist": 55_000 // BATCH, "cifar10": 45_000 // BATCH}  # steps
ENCODINGS = {"mnist": MNIST, "cifar10": CIFAR10}
TURN = 10  # steps of a network until the next one's turn


@dataclass(frozen=True)
class Trainee:
    """A network with what trains it."""

    recipe: Recipe
    stage: Any
    model: Any
    adam: Any
    loss: Any
    trained: Any

    def epoch(self, data: Dataset) -> None:
        encoding = ENCODINGS[self.recipe.task]
        run_epoch(self.stage, 1, self.trained, self.loss, self.adam, data, encoding, BATCH, 0, lambda *_: None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", nargs="?", choices=tuple(EPOCH), default="mnist")
    parser.add_argument("--width", type=float, default=0.25, help="of CIFAR-10's network")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--compile", action="store_true", help="Time steps by torch.compile too.")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = keep_freed_memory()
    width = {"width": options.width} if options.task == "cifar10" else {}
    common = {**RECIPES[options.task]["plain"], **width}
    lower = {"precision": options.precision}
    rng = np.random.default_rng(0)
    shape = ENCODINGS[options.task].shape
    count = (TURN + 1) * BATCH
    data = Dataset(rng.integers(0, 256, (count, *shape), np.uint8), rng.integers(0, 10, count, np.uint8))
    trainees = {
        "fp": trainee(Recipe(**{**common, "model": "fp"}), data),
        "bnn": trainee(Recipe(**{**common, **lower, "model": "bnn"}), data),
        "blrnet": trainee(Recipe(**{**common, **lower, "pretrain_epochs": 0}), data),
    }
    if options.compile:
        for name in ("fp", "blrnet"):
            trainees[f"{name} compiled"] = trainee(replace(trainees[name].recipe, compile=True), data)
    print(f"{options.task} {width or ''} {options.precision}, steps of {BATCH}, one thread, freed memory kept: {kept}")
    for each in trainees.values():
        each.epoch(data)
    taken = defaultdict(list)
    for _ in range(max(1, options.steps // TURN)):
        for name, each in trainees.items():
            taken[name].append(step(each, data))
    scale = EPOCH[options.task]
    plain = statistics.median(cpu for cpu, _, _ in taken["fp"])
    for name, turns in taken.items():
        cpu, wall, faults = (statistics.median(values) for values in zip(*turns, strict=True))
        print(f"{name:15} {scale * cpu:6.1f} CPU s {scale * wall:7.1f} s an epoch, "
              f"{cpu / plain:4.2f} of full precision, {faults:.0f} page faults a step")  # fmt: skip
    for name in trainees:
        if name.startswith("blrnet"):
            print(f"{name}:")
            breakdown(trainees[name], data, min(options.steps, 20))


def trainee(recipe: Recipe, data: Dataset) -> Trainee:
    torch.manual_seed(0)
    stage = stages_of(recipe, data, data, ENCODINGS[recipe.task])[-1]
    model = stage.build({})
    trained = compiled(model) if stage.compile else model
    return Trainee(recipe, stage, model, optimiser(stage, model), stage.losses({}), trained)


def step(each: Trainee, data: Dataset) -> tuple[float, ...]:
    """CPU seconds, wall seconds and page faults of a step of training: an epoch of `data` less one of its first step,
    which draws the noise that the others use again."""
    first = measured(lambda: each.epoch(data[:BATCH]))
    whole = measured(lambda: each.epoch(data))
    return tuple((w - f) / (len(data) // BATCH - 1) for w, f in zip(whole, first, strict=True))


def measured(work: Callable[[], object]) -> tuple[float, float, int]:
    """CPU seconds, wall seconds and page faults of `work`."""
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (
        time.process_time() - cpu,
        time.perf_counter() - wall,
        resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults,
    )


def breakdown(each: Trainee, data: Dataset, steps: int) -> None:
    """CPU seconds an epoch of each part of a step, medians. A layer's backward pass is taken by itself: its input is
    cut off from what is before it."""
    encoding, augment = ENCODINGS[each.recipe.task], augmentation(each.recipe, ENCODINGS[each.recipe.task])
    rng = np.random.default_rng(0)
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    labels = torch.from_numpy(data.labels[:BATCH].astype(np.int64))
    each.trained.train()

    def part(name: str, column: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        taken[name, column].append(time.process_time() - start)
        return result

    for _ in range(steps):
        with shared_moments(each.model):
            images = part("augment", "forward", lambda: augment(data.images[:BATCH], rng))
            x: Any = part("encode", "forward", lambda images=images: torch.from_numpy(encoding.real(images)))
            each.adam.zero_grad(set_to_none=True)
            inputs, outputs = [], []
            for name, layer in each.trained.named_children():
                cut = tuple(t.detach().requires_grad_(bool(inputs)) for t in tensors(x))
                inputs.append(cut)
                x = part(
                    name, "forward", lambda layer=layer, cut=cut, x=x: layer(Gaussian(*cut) if len(cut) > 1 else cut[0])
                )
                outputs.append((name, tensors(x)))
            scores = x.detach().requires_grad_()
            loss = part("loss", "forward", lambda scores=scores: torch.nn.functional.cross_entropy(scores, labels))
            part("loss", "backward", loss.backward)
            penalty = part("regulariser", "forward", lambda: 1e-6 * variance_regulariser(each.model))
            part("regulariser", "backward", penalty.backward)
            grads: tuple[Any, ...] = (scores.grad,)
            for (name, out), cut in zip(reversed(outputs), reversed(inputs), strict=True):
                wanted = [(t, g) for t, g in zip(out, grads, strict=True) if g is not None and t.requires_grad]
                part(name, "backward", lambda wanted=wanted: torch.autograd.backward(*zip(*wanted, strict=True)))
                grads = tuple(t.grad for t in cut)
        part("optimiser", "forward", each.adam.step)
    scale = EPOCH[each.recipe.task]
    names = list(dict.fromkeys(name for name, _ in taken))
    print(f"{'CPU s an epoch':14} forward backward")
    total = 0.0
    for name in names:
        seconds = [scale * statistics.median(taken.get((name, column), [0.0])) for column in ("forward", "backward")]
        total += sum(seconds)
        print(f"  {name:12} {seconds[0]:7.2f} {seconds[1]:8.2f}")
    print(f"  {'sum':12} {total:16.2f}")


def tensors(x: Any) -> tuple[torch.Tensor, ...]:
    return tuple(x) if isinstance(x, Gaussian) else (x,)


if __name__ == "__main__":
    main()
