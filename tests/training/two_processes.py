"""Run by test_ranks.py, alone or by torchrun.

two_processes.py steps OUT         one step of each network on each of BATCHES; what came of it goes to
                                   OUT.<flavour>.<samples>, each process's own noise to OUT.noise.<rank>
two_processes.py run DATA OUT EPOCHS BATCH
                                   a whole run on MNIST files, its history to OUT.csv
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import torch
from small_mnist import small_mnist

from blrc.datasets.idx import Dataset
from blrc.net import encoding
from blrc.nn import GaussianSample, StochasticMaxPool2d, StochasticSign, models
from blrc.nn.fast.fused import NormPoolSign, fused
from blrc.training.machine.ranks import Ranks, joined
from blrc.training.recipe import Recipe
from blrc.training.run import run
from blrc.training.stages import registry, stage

ENCODING = encoding.pixels((1, 8, 8), mean=(0.5,), std=(0.25,))
BATCHES = (7, 3)  # shares of 4 and 3, 2 and 1
FLAVOURS = ("blrnet", "lrnet", "bnn", "fp", "fused")


def data(samples: int) -> Dataset:
    rng = np.random.default_rng(samples)
    images = rng.integers(0, 256, (samples, 1, 8, 8), dtype=np.uint8)
    return Dataset(images, rng.integers(0, 10, samples, dtype=np.uint8))


class Fixed:
    """Noise that a sample has in whichever process it is: drawn for the joint batch, then shared out like it."""

    def __init__(self, ranks: Ranks, layer: torch.nn.Module, samples: int) -> None:
        self.ranks, self.draw, self.samples = ranks, layer.noise.draw, samples

    def like(self, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(1)
        joint = self.draw(torch.empty(self.samples * x[0].numel(), dtype=x.dtype)).view(self.samples, *x.shape[1:])
        return self.ranks.share(joint).contiguous()

    def forget(self) -> None:
        pass


def step(flavour: Any, samples: int, ranks: Ranks) -> dict[str, torch.Tensor]:
    """Gradients, parameters and buffers after one step of the recipe's own loop, in float64."""
    torch.manual_seed(0)
    together, flavour = flavour == "fused", "blrnet" if flavour == "fused" else flavour
    levels = flavour == "lrnet"  # which want a pretrained network, whose stage does not run here
    recipe = Recipe(model=flavour, bits=2 if levels else None, pretrain_epochs=int(levels), epochs=1, distillation=0.0)
    training = data(samples)
    plan = registry.stages_of(recipe, training, training, ENCODING)[-1]
    model = models._network(flavour, channels=1, size=8, blocks=((6,), (8,)), dense=(12,), norm=True).double()
    for module in model.modules():
        if isinstance(module, StochasticSign | StochasticMaxPool2d | GaussianSample):
            module.noise = Fixed(ranks, module, samples)
    adam, loss_of = stage.optimiser(plan, model), plan.losses({})
    parallel = ranks.parallel(fused(model.to(memory_format=torch.channels_last)) if together else model)

    def double(network: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return loss_of(network, inputs.double(), labels)

    loss = stage.run_epoch(
        plan, 1, parallel, double, adam, training, ENCODING, samples, 0, lambda *_: None, ranks=ranks
    )
    blocks = [module for module in parallel.modules() if isinstance(module, NormPoolSign) and module.pool]
    assert len(blocks) == (2 if together else 0) and all(
        block.batch == len(range(samples)[ranks.rank :: ranks.count]) for block in blocks
    )
    found = {f"grad.{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": torch.tensor(loss), **found, **model.state_dict()}


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1] == "run":
        models.mnist = small_mnist
        epochs, batch = map(int, sys.argv[4:6])
        recipe = Recipe(epochs=epochs, pretrain_epochs=epochs // 2, batch=batch, validation=40, calibration=16)
        run(sys.argv[3], sys.argv[2], recipe, log=f"{sys.argv[3]}.csv")
        return
    steps_of_every_network(sys.argv[2])


def steps_of_every_network(out: str) -> None:
    with joined() as ranks:
        torch.manual_seed(ranks.seed(5))
        torch.save(torch.rand(100), f"{out}.noise.{ranks.rank}")
        for flavour, samples in itertools.product(FLAVOURS, BATCHES):
            found = step(flavour, samples, ranks)
            if ranks.first:
                torch.save(found, f"{out}.{flavour}.{samples}")


if __name__ == "__main__":
    main()
