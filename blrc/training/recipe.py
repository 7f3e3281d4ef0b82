"""Define the options of a training run (paper, section 5.1).

Where the paper gives no value, or one that trains slowly, the default was chosen by measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from blrc.errors import BlrcError
from blrc.frontend.weights.prior import EVEN, Prior, parse_prior
from blrc.net.choices import level_bits

PLATEAU_PATIENCE, PLATEAU_FACTOR = 3, 0.1
MODELS = ("blrnet", "lrnet", "bnn", "fp")
WEIGHTS = ("binary", "ternary")
_PRETRAINING = ("pretrain_lr", "pretrain_decay", "dropout")
_RESTART = ("restart_weight_lr", "restart_lr", "restart_spread")
_SIGNS = ("hard", "tau", "precision", "compile")
_STOCHASTIC = (
    *("weights", "init", "pretrain_epochs", "weight_lr", "weight_decay", "objective", "prior", "variance_penalty"),
    *("hard", "tau", "temperature", *_RESTART),
)


@dataclass(frozen=True)
class Recipe:
    """Hold everything that a run's result depends on, besides the data and the number of threads.

    Attributes:
        task: ``mnist`` or ``cifar10``, which selects one of the paper's networks (`blrc.nn.models`). The defaults here
            are those for MNIST.
        width: factor on the channels of the CIFAR-10 network.
        whiten: whiten the CIFAR-10 images (`blrc.datasets.whitening`) and train the network on the whitened codes.
        model: ``blrnet`` (stochastic), ``lrnet`` (LR-net: stochastic weights, activations of a few bits), ``bnn``
            (Binarized NN) or ``fp`` (full precision). The latter two are baselines.
        bits: number of bits of an LR-net's activations, from 1 to 8; None for other models.
        weights: ``binary``, -1 and +1, or ``ternary``, 0 as well: of the models with random weights.
        norm: put norms behind the binary layers; False is the paper's ablation.
        init: initialisation of the stochastic network: ``transfer`` from a pretrained one, or ``xavier`` (ablation).
        seed: random seed of initialisation, order of samples, noise, and the choice of calibration samples.
        epochs: number of epochs of the binary network, or of the full-precision one where `model` is ``fp``.
        pretrain_epochs: number of epochs of the full-precision network from which the stochastic one is initialised;
            0 initialises it at random.
        batch: number of samples per step.
        pretrain_lr: peak learning rate of the full-precision network (AdamW, one cycle).
        pretrain_decay: weight decay of the full-precision network.
        dropout: share of the inputs of each of its dense layers that are dropped.
        weight_lr: peak learning rate of the weights' logits (Adam). The paper's 0.01 trains them slowly.
        lr: peak learning rate of everything else.
        schedule: schedule of the binary networks' learning rates. ``cosine`` falls to 0. ``plateau`` is constant, but
            multiplied by `PLATEAU_FACTOR` after every `PLATEAU_PATIENCE` epochs in a row without a better validation
            accuracy.
        weight_decay: L2 factor on the softmax layer.
        objective: ``penalty`` adds `variance_penalty` times ||sigmoid(W) (1 - sigmoid(W))||_1 to the cross entropy;
            ``bound`` is the variational bound, cross entropy plus KL(p(B) || prior) / N.
        prior: probability of +1 that the bound expects of a weight, for all binary layers or by their names.
        variance_penalty: factor of ``penalty``.
        hard, tau: options of the activations (`blrc.nn.StochasticSign`).
        precision: ``float32``, or ``bfloat16`` to multiply +-1 inputs in it (`blrc.nn.multiply_signs_in`).
        compile: run steps through torch.compile (`blrc.training.machine.torch_compile`), except in pretraining.
        shifts: move training images at random by (dy, dx) with |dy| + |dx| at most this many pixels.
        translate: move training images at random by up to this many pixels in height and in width. The mean fills the
            edges, whereas `shifts` fills them with 0.
        flip: mirror half of the training images left to right.
        rotation: turn training images at random by up to this many degrees.
        zoom: stretch training images at random by up to this share of their size.
        distillation: share of the cross entropy that is replaced by the divergence from the pretrained network's soft
            labels, T^2 KL(pretrained || binary) at `temperature` T (Hinton et al. 2015).
        temperature: T of the distillation.
        validation: number of samples at the end of the training set that are kept to choose the best epoch.
        calibration: number of training samples that are written to the checkpoint.
        restart_epochs: number of further epochs in which the best network is trained with new learning rates, while
            V[B] is multiplied by a factor that falls to `restart_spread`
            (`blrc.training.stages.networks.restrain_at`); 0 is no restart.
        restart_weight_lr, restart_lr: peak learning rates of the restart, with a warm-up over the first tenth and then
            a cosine.
        restart_spread: final factor on V[B] in the restart.
    """

    task: Literal["mnist", "cifar10"] = "mnist"
    width: float = 1.0
    whiten: bool = False
    model: Literal["blrnet", "lrnet", "bnn", "fp"] = "blrnet"
    bits: int | None = None
    weights: Literal["binary", "ternary"] = "binary"
    norm: bool = True
    init: Literal["transfer", "xavier"] = "transfer"
    seed: int = 0
    epochs: int = 13
    pretrain_epochs: int = 3
    batch: int = 128
    pretrain_lr: float = 3e-3
    pretrain_decay: float = 0.0
    dropout: float = 0.0
    weight_lr: float = 0.04
    lr: float = 0.01
    schedule: Literal["cosine", "plateau"] = "cosine"
    weight_decay: float = 1e-4
    objective: Literal["penalty", "bound"] = "penalty"
    prior: Prior = EVEN
    variance_penalty: float = 1e-6
    hard: bool = True
    tau: float = 1.0
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    shifts: int = 0
    translate: int = 0
    flip: bool = False
    rotation: float = 0.0
    zoom: float = 0.0
    distillation: float = 0.0
    temperature: float = 3.0
    validation: int = 5_000
    calibration: int = 2_560
    restart_epochs: int = 0
    restart_weight_lr: float = 0.03
    restart_lr: float = 0.003
    restart_spread: float = 0.25

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("epochs", 1), ("pretrain_epochs", 0), ("batch", 2), ("validation", 1),
                            ("calibration", 2), ("shifts", 0), ("translate", 0), ("restart_epochs", 0)):  # fmt: skip
            if getattr(self, name) < least:
                raise BlrcError(f"{name} {getattr(self, name)}: must be at least {least}")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise BlrcError(f"{field.name} {value}: must be finite and not negative")
        for name in ("tau", "temperature"):
            if getattr(self, name) == 0:
                raise BlrcError(f"{name} 0.0: must be positive")
        if self.distillation > 1:
            raise BlrcError(f"distillation {self.distillation}: a share, at most 1")
        if self.zoom >= 1:
            raise BlrcError(f"zoom {self.zoom}: a share of the image's size, below 1")
        if self.dropout >= 1:
            raise BlrcError(f"dropout {self.dropout}: a share, below 1")
        object.__setattr__(self, "prior", parse_prior(self.prior))
        self._check_model()
        if self.distillation > 0 and self.pretrain_epochs == 0:
            raise BlrcError(f"distillation {self.distillation}: needs a pretrained network; give pretrain_epochs")
        for name, known in (("objective", ("penalty", "bound")), ("init", ("transfer", "xavier")),
                            ("task", ("mnist", "cifar10")), ("schedule", ("cosine", "plateau")),
                            ("precision", ("float32", "bfloat16")), ("weights", WEIGHTS)):  # fmt: skip
            if getattr(self, name) not in known:
                raise BlrcError(f"{name} {getattr(self, name)!r}: {' or '.join(map(repr, known))}")
        if self.task == "mnist" and (self.width != 1 or self.whiten):
            raise BlrcError("width and whiten are CIFAR-10's (blrc train cifar10)")
        if self.whiten and (self.rotation or self.zoom):
            raise BlrcError("rotation and zoom take pixels, not whitened images; leave them out")
        if not 0 < self.restart_spread <= 1:
            raise BlrcError(f"restart_spread {self.restart_spread}: must be above 0 and at most 1")

    def _check_model(self) -> None:
        """Refuse a model that is unknown, or that does not go with other options."""
        if self.model not in MODELS:
            raise BlrcError(f"model {self.model!r}: {' or '.join(map(repr, MODELS))}")
        if self.model != "lrnet":
            if self.bits is not None:
                raise BlrcError(f"bits {self.bits}: only activations of model lrnet have bits; model is {self.model}")
        elif self.bits is None:
            raise BlrcError("model lrnet: give the bits of its activations, from 1 to 8")
        else:
            level_bits("model lrnet", self.bits)
            if not self.norm or not self.pretrains:
                wrong = (
                    "--no-norm"
                    if not self.norm
                    else "--init xavier"
                    if self.init == "xavier"
                    else "--pretrain-epochs 0"
                )
                raise BlrcError(
                    "model lrnet: takes the steps of its levels from a pretrained network with norms; leave out "
                    + wrong
                )
        if not self.stochastic and (self.distillation or self.restart_epochs):
            raise BlrcError(
                f"model {self.model!r}: distillation and restart are for blrnet; take recipe plain, no restart epochs"
            )

    @property
    def stochastic(self) -> bool:
        """Return whether the model has random weights."""
        return self.model in ("blrnet", "lrnet")

    @property
    def idle(self) -> Mapping[str, str]:
        """Return the fields that have no effect because of another field, each with the name of that field."""
        if not self.stochastic:
            own = _PRETRAINING if self.model == "bnn" else ("lr", "schedule", "precision", "calibration")
            return dict.fromkeys((*_STOCHASTIC, *own), "model")
        found: dict[str, str] = dict.fromkeys(_SIGNS, "model") if self.model == "lrnet" else {}
        if not self.pretrains:
            found |= dict.fromkeys(_PRETRAINING, "init" if self.init == "xavier" else "pretrain_epochs")
            found |= {"pretrain_epochs": "init"} if self.init == "xavier" else {}
        found |= {} if self.distillation else {"temperature": "distillation"}
        found |= {} if self.restart_epochs else dict.fromkeys(_RESTART, "restart_epochs")
        return found | {"variance_penalty" if self.objective == "bound" else "prior": "objective"}

    @property
    def pretrains(self) -> bool:
        """Return whether a full-precision network is trained first."""
        wanted = self.init == "transfer" or self.distillation > 0
        return self.stochastic and self.pretrain_epochs > 0 and wanted


PAPER: Mapping[str, Any] = {"lr": 0.01, "weight_lr": 0.01, "schedule": "plateau", "hard": False}
DISTILLED: Mapping[str, Any] = {
    "epochs": 20,
    "pretrain_epochs": 12,
    "pretrain_decay": 1e-2,
    "dropout": 0.2,
    "shifts": 2,
    "rotation": 10.0,
    "zoom": 0.1,
    "weight_lr": 0.06,
    "distillation": 0.7,
    "restart_epochs": 8,
}
CIFAR10: Mapping[str, Any] = {"task": "cifar10", "translate": 4, "flip": True, "epochs": 20, "pretrain_epochs": 5}
CIFAR10_DISTILLED: Mapping[str, Any] = {
    "epochs": 40,
    "pretrain_epochs": 25,
    "pretrain_decay": 1e-2,
    "dropout": 0.2,
    "distillation": 0.7,
    "restart_epochs": 12,
}
RECIPES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "mnist": {"plain": {}, "paper": PAPER, "distilled": DISTILLED},
    "cifar10": {
        "plain": CIFAR10,
        "paper": {**CIFAR10, **PAPER, "epochs": 40},
        "distilled": {**CIFAR10, **CIFAR10_DISTILLED},
    },
}
"""What differs from `Recipe`'s defaults, by task and name. ``plain`` learns from the images alone; ``paper`` too, with
the paper's rates, schedule and soft samples."""


def plateau(accuracies: Sequence[float]) -> float:
    """Return the share of the peak rate in the epoch that follows epochs of these accuracies.

    The share is multiplied by `PLATEAU_FACTOR` for every `PLATEAU_PATIENCE` epochs in a row without a new best.
    """
    share, best, waited = 1.0, -math.inf, 0
    for accuracy in accuracies:
        waited = 0 if accuracy > best else waited + 1
        best = max(best, accuracy)
        if waited == PLATEAU_PATIENCE:
            share, waited = share * PLATEAU_FACTOR, 0
    return share


def constant(_: float) -> float:
    """Return the share of the peak rate for a constant rate, which is 1."""
    return 1.0


def one_cycle(progress: float) -> float:
    """Return the share of the peak rate after `progress` in [0, 1]: up from 1/25 in the first 30 %, then down to 0."""
    if progress < 0.3:
        return 1.0 / 25.0 + (1.0 - 1.0 / 25.0) * (1.0 - cosine(progress / 0.3))
    return cosine((progress - 0.3) / 0.7)


def warm_cosine(progress: float) -> float:
    """Return the share of the peak rate after `progress` in [0, 1]: linear from 0 for a tenth, then cosine to 0."""
    return progress / 0.1 if progress < 0.1 else cosine((progress - 0.1) / 0.9)


def cosine(progress: float) -> float:
    """Return the share of the peak rate after `progress` in [0, 1], (1 + cos(pi progress)) / 2."""
    return 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
