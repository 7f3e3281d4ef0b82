"""The training runs behind docs/results.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """One training run.

    Attributes:
        task: ``mnist`` or ``cifar10``.
        name: of its files; those of CIFAR-10 lie in a folder of their own.
        group: runs of a group compete on the validation set, by which the best is taken.
        options: of ``blrc train``.
    """

    task: str
    name: str
    group: str
    options: tuple[str, ...]

    @property
    def short(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def command(self) -> str:
        return " ".join(("blrc train", self.task, "-o", f"{self.short}.pt", *self.options))

    @property
    def is_real(self) -> bool:
        return "fp" in self.options


def _run(name: str, group: str, options: str) -> Run:
    return Run("mnist", name, group, tuple(options.split()))


def _quarter(name: str, group: str, options: str) -> Run:
    return Run("cifar10", f"cifar10/{name}", group, ("--width", "0.25", *options.split()))


# Baselines get as many epochs as the plain runs with a restart: pretraining, binary network and restart together.
# Those of 16 epochs came first, and are kept for the record.
MNIST = (
    _run("plain-0", "plain", "--recipe plain --seed 0"),
    _run("plain-1", "plain", "--recipe plain --seed 1"),
    _run("restart-0", "plain", "--recipe plain --seed 0 --restart-epochs 8"),
    _run("restart-1", "plain", "--recipe plain --seed 1 --restart-epochs 8"),
    _run("plain-fast", "plain", "--recipe plain --seed 0 --weight-lr 0.06"),
    _run("paper-0", "plain", "--recipe paper --seed 0"),
    _run("distilled-0", "distilled", "--recipe distilled --seed 0 --rotation 0 --zoom 0 --pretrain-epochs 9"),
    _run("distorted-0", "distilled", "--recipe distilled --seed 0 --rotation 10 --zoom 0.1 --pretrain-epochs 12"),
    _run("distorted-1", "distilled", "--recipe distilled --seed 1 --epochs 32 --restart-epochs 12"),
    _run("bnn-low", "bnn", "--model bnn --epochs 24 --lr 0.001"),
    _run("bnn-mid", "bnn", "--model bnn --epochs 24 --lr 0.003"),
    _run("bnn-high", "bnn", "--model bnn --epochs 24 --lr 0.01"),
    _run("fp", "fp", "--model fp --epochs 24"),
    _run("bnn-low-16", "shorter", "--model bnn --epochs 16 --lr 0.001"),
    _run("bnn-mid-16", "shorter", "--model bnn --epochs 16 --lr 0.003"),
    _run("bnn-high-16", "shorter", "--model bnn --epochs 16 --lr 0.01"),
    _run("fp-16", "shorter", "--model fp --epochs 16"),
    _run("no-norm", "ablation", "--recipe plain --no-norm"),
    _run("xavier", "ablation", "--recipe plain --init xavier"),
    _run("lrnet-k2", "lrnet", "--model lrnet --bits 2 --epochs 5"),
)

# At a quarter of the width. Baselines get as many epochs as pretraining and binary network have together.
CIFAR10 = (
    _quarter("plain-0", "cifar10", "--precision bfloat16"),
    _quarter("bnn-0", "cifar10-bnn", "--model bnn --precision bfloat16 --epochs 25"),
    _quarter("fp-0", "cifar10-fp", "--model fp --epochs 25"),
    _quarter("white-0", "cifar10-white", "--precision bfloat16 --whiten --epochs 10"),
    _quarter("no-norm-0", "cifar10-ablation", "--precision bfloat16 --no-norm --epochs 10"),
    _quarter("xavier-0", "cifar10-ablation", "--precision bfloat16 --init xavier --epochs 10"),
)
RUNS = {"mnist": MNIST, "cifar10": CIFAR10}
