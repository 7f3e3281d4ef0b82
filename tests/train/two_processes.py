"""Run by test_ranks.py, alone or by torchrun.

two_processes.py steps OUT         one step of each network; what came of it goes to OUT.<flavour>, each process's own
                                   noise to OUT.noise.<rank>
two_processes.py run DATA OUT      a whole run on MNIST files, its history to OUT.csv
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from blrc import encode, models
from blrc.datasets import Dataset
from blrc.nn import StochasticMaxPool2d, StochasticSign
from blrc.train import Recipe, run, stage, stages
from blrc.train.ranks import Ranks, joined

ENCODING = encode.pixels((1, 8, 8), (0.5,), (0.25,))
BATCH = 7  # shares of 4 and 3


def data() -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(rng.integers(0, 256, (BATCH, 1, 8, 8), dtype=np.uint8), rng.integers(0, 10, BATCH, dtype=np.uint8))


class Fixed:
    """Noise that a sample has in whichever process it is: drawn for the joint batch, then shared out like it."""

    def __init__(self, ranks: Ranks, layer: torch.nn.Module) -> None:
        self.ranks, self.draw = ranks, layer.noise.draw

    def like(self, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(1)
        joint = self.draw(torch.empty(BATCH * x[0].numel(), dtype=x.dtype)).view(BATCH, *x.shape[1:])
        return self.ranks.share(joint).contiguous()

    def forget(self) -> None:
        pass


def step(flavour: Any, ranks: Ranks) -> dict[str, torch.Tensor]:
    """Gradients, parameters and buffers after one step of the recipe's own loop, in float64."""
    torch.manual_seed(0)
    recipe = Recipe(model=flavour, pretrain_epochs=0, epochs=1, distillation=0.0)
    training = data()
    plan = stages.stages_of(recipe, training, training, ENCODING)[-1]
    model = models._network(flavour, channels=1, size=8, blocks=((6,), (8,)), dense=(12,), norm=True).double()
    for module in model.modules():
        if isinstance(module, StochasticSign | StochasticMaxPool2d):
            module.noise = Fixed(ranks, module)
    adam, loss_of = stage.optimiser(plan, model), plan.losses({})
    parallel = ranks.parallel(model)

    def double(network: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return loss_of(network, inputs.double(), labels)

    loss = stage.run_epoch(plan, 1, parallel, double, adam, training, ENCODING, BATCH, 0, lambda *_: None, ranks=ranks)
    found = {f"grad.{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": torch.tensor(loss), **found, **model.state_dict()}


def small_mnist(flavour: models.Flavour = "blrnet", norm: bool = True) -> torch.nn.Sequential:
    return models._network(flavour, channels=1, size=28, blocks=((6,), (8,)), dense=(32,), norm=norm)


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1] == "run":
        models.mnist = small_mnist
        recipe = Recipe(epochs=8, pretrain_epochs=4, batch=16, validation=40, calibration=16)
        run(sys.argv[3], sys.argv[2], recipe, log=f"{sys.argv[3]}.csv")
        return
    out = sys.argv[2]
    with joined() as ranks:
        torch.manual_seed(ranks.seed(5))
        torch.save(torch.rand(100), f"{out}.noise.{ranks.rank}")
        for flavour in ("blrnet", "bnn", "fp"):
            found = step(flavour, ranks)
            if ranks.first:
                torch.save(found, f"{out}.{flavour}")


if __name__ == "__main__":
    main()
