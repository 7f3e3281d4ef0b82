"""CPU seconds that an MNIST epoch costs, as the recipe trains it, and where they go.

    python benchmarks/train_epoch.py [--threads N] [--steps N]

Times `--steps` steps of 128 random images (the arithmetic does not depend on what is in them) after a few that warm
up, scales to the 430 steps of 55,000 images, and prints CPU time, wall time and page faults; then each layer's share of
the forward pass. Several threads on a busy machine measure how they wait for each other.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from blrc.datasets import Dataset
from blrc.nn import reuse_noise
from blrc.train.memory import keep_freed_memory
from blrc.train.mnist import ENCODING
from blrc.train.recipe import Recipe
from blrc.train.stage import optimiser, run_epoch
from blrc.train.stages import stages_of

BATCH, STEPS = 128, 430


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    kept = keep_freed_memory()
    rng = np.random.default_rng(0)
    count = options.steps * BATCH
    data = Dataset(rng.integers(0, 256, (count, 1, 28, 28), np.uint8), rng.integers(0, 10, count, np.uint8))
    print(f"{options.threads} threads, {options.steps} steps of {BATCH}, freed memory kept: {kept}")
    stages = {stage.name: stage for stage in stages_of(Recipe(), data, data, ENCODING)}
    for name, stage in stages.items():
        torch.manual_seed(0)
        model = stage.build({})
        adam, loss_of = optimiser(stage, model), stage.losses({})

        def epoch(part: Dataset, settings: Any = (stage, 1, model, loss_of, adam)) -> None:
            run_epoch(*settings, part, ENCODING, BATCH, 0, lambda *_: None)

        epoch(data[: 5 * BATCH])
        cpu, wall, faults = measured(lambda: epoch(data))
        scale = STEPS / options.steps
        print(
            f"{name:8} {scale * cpu:6.1f} CPU s  {scale * wall:6.1f} s  an epoch; "
            f"{faults / options.steps:.0f} page faults a step"
        )
    breakdown(model, torch.from_numpy(ENCODING.real(data.images[:BATCH])))


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


def breakdown(model: torch.nn.Sequential, x: Any, repeats: int = 20) -> None:
    """CPU seconds an epoch of each layer's forward pass, with gradients recorded."""
    reuse_noise(model)
    print("forward pass, CPU s an epoch:")
    for name, layer in model.named_children():
        layer(x)
        cpu, _, _ = measured(lambda layer=layer, x=x: [layer(x) for _ in range(repeats)])
        print(f"  {name:8} {STEPS * cpu / repeats:6.2f}")
        x = layer(x)


if __name__ == "__main__":
    main()
