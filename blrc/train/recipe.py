"""The options of a training run (paper, section 5.1; values where the paper has none, or slow ones, are measured)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from blrc.errors import BlrcError


@dataclass(frozen=True)
class Recipe:
    """Everything that a run's result depends on, besides the data and the number of threads.

    Attributes:
        seed: of initialisation, order of samples, noise, and the choice of calibration samples.
        epochs: of the binary network.
        pretrain_epochs: of the full-precision network whose weights it starts from; 0 starts from random ones.
        batch: samples a step.
        pretrain_lr: peak learning rate of pretraining (Adam, one cycle).
        weight_lr: peak learning rate of the weights' logits (Adam, cosine to 0). The paper's 0.01 is slow on them.
        lr: the same of everything else.
        weight_decay: L2 factor on the softmax layer.
        objective: ``penalty`` adds `variance_penalty` times ||sigmoid(W) (1 - sigmoid(W))||_1 to the cross entropy;
            ``bound`` is the variational bound, cross entropy minus H[p(B)] / N.
        hard, tau: of the activations (`blrc.nn.StochasticSign`).
        validation: how many of the last training samples choose the best epoch.
        calibration: how many training samples go into the checkpoint.
    """

    seed: int = 0
    epochs: int = 13
    pretrain_epochs: int = 3
    batch: int = 128
    pretrain_lr: float = 3e-3
    weight_lr: float = 0.06
    lr: float = 0.01
    weight_decay: float = 1e-4
    objective: Literal["penalty", "bound"] = "penalty"
    variance_penalty: float = 1e-6
    hard: bool = True
    tau: float = 1.0
    validation: int = 5_000
    calibration: int = 2_560

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("epochs", 1), ("pretrain_epochs", 0), ("batch", 2), ("validation", 1),
                            ("calibration", 2)):  # fmt: skip
            if getattr(self, name) < least:
                raise BlrcError(f"{name} {getattr(self, name)}: must be at least {least}")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise BlrcError(f"{field.name} {value}: must be finite and not negative")
        if self.tau == 0:
            raise BlrcError("tau 0.0: must be positive")
        if self.objective not in ("penalty", "bound"):
            raise BlrcError(f"objective {self.objective!r}: 'penalty' or 'bound'")


def one_cycle(progress: float) -> float:
    """Share of the peak rate after `progress` in [0, 1]: from 1/25 up over the first 30 %, then down to 0."""
    if progress < 0.3:
        return 1.0 / 25.0 + (1.0 - 1.0 / 25.0) * (1.0 - cosine(progress / 0.3))
    return cosine((progress - 0.3) / 0.7)


def cosine(progress: float) -> float:
    """Share of the peak rate after `progress` in [0, 1]: (1 + cos(pi progress)) / 2."""
    return 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
