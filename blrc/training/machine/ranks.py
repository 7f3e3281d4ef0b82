"""Coordinate the processes of a run: a single one, or those that torchrun started."""

from __future__ import annotations

import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from blrc.errors import BlrcError
from blrc.nn import join_norms
from blrc.nn.ranks import all_sum, settle
from blrc.training.seeds import derived_seed

T = TypeVar("T")
STRIDES = "Grad strides do not match bucket view strides"
SAMPLE_STREAM = 2_000  # keeps the seeds of ranks apart from all others


@dataclass(frozen=True)
class Ranks:
    """Describe this process among the processes of a run.

    Attributes:
        rank: number of this process, from 0.
        count: number of processes.
        device: device on which this process computes.
    """

    rank: int = 0
    count: int = 1
    device: torch.device | str = "cpu"

    @property
    def first(self) -> bool:
        """Return whether this is the first process, which reads, validates, writes and prints for all."""
        return self.rank == 0

    def seed(self, seed: int) -> int:
        """Return this process's own seed of noise, derived from `seed`. A single process uses `seed` itself."""
        if self.count == 1:
            return seed
        return derived_seed(seed, SAMPLE_STREAM, self.rank)

    def share(self, batch: Any) -> Any:
        """Return this process's rows of a batch: every `count`-th row, starting at row `rank`."""
        return batch[self.rank :: self.count]

    def weight(self, samples: int) -> float:
        """Return the factor on this process's mean loss that makes the mean over the processes that of the batch.

        Args:
            samples: number of samples in the whole batch.
        """
        own = len(range(self.rank, samples, self.count))
        return own * self.count / samples

    def check(self, samples: int) -> None:
        """Check that a step has at least two `samples` for each process, which norms and means need.

        Raises:
            BlrcError: there are fewer.
        """
        if samples < 2 * self.count:
            raise BlrcError(
                f"{samples} samples a step (the batch, or all that there are to train on) are too few for "
                f"{self.count} process{'es' * (self.count > 1)}, which need {2 * self.count} or more: give a larger "
                "batch, more data, or fewer processes"
            )

    def mean(self, value: float) -> float:
        """Return the mean of `value` over the processes."""
        if self.count == 1:
            return value
        return float(all_sum(torch.tensor(value, dtype=torch.float64, device=self.device))) / self.count

    def of_first(self, compute: Callable[[], T]) -> T:
        """Call `compute` in the first process only, and return its result in all of them.

        Raises:
            BlrcError: `compute` raised it. All processes raise it then.
        """
        if self.count == 1:
            return compute()
        found, error = None, None
        if self.first:
            try:
                found = compute()
            except BlrcError as refused:
                error = refused
        found, error = self._from_first((found, error))
        if error is not None:
            raise error
        return cast(T, found)

    def _from_first(self, value: Any) -> Any:
        """Return the first process's `value`, which must be picklable, in every process."""
        data = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8).to(self.device)
        size = torch.tensor(len(data), device=self.device)
        settle(dist.broadcast, size, src=0)
        if not self.first:
            data = torch.empty(int(size), dtype=torch.uint8, device=self.device)
        settle(dist.broadcast, data, src=0)
        return value if self.first else pickle.loads(data.cpu().numpy().tobytes())

    def parallel(self, model: nn.Module) -> nn.Module:
        """Return `model` for training. With several processes its gradients are averaged and its norms are joint."""
        if self.count == 1:
            return model
        join_norms(model)
        return DistributedDataParallel(model)


def _number(variable: str, default: int) -> int:
    """Return the whole number in an environment variable that torchrun sets, or `default` where it is not set."""
    text = os.environ.get(variable, "") or str(default)
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise BlrcError(f"{variable}={text!r}: expected the number that torchrun sets; unset it")
    return int(text)


@contextmanager
def joined(device: str = "cpu") -> Iterator[Ranks]:
    """Join the other processes if torchrun started this one (with gloo on CPUs, nccl on GPUs).

    Args:
        device: ``cpu``, ``cuda``, or ``auto``, which takes a GPU where there is one.

    Raises:
        BlrcError: there is no such device, or the processes cannot be joined.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise BlrcError(f"device {device!r}: 'auto', 'cpu' or 'cuda'")
    gpus = device != "cpu" and torch.cuda.is_available()
    if device == "cuda" and not gpus:
        raise BlrcError("device cuda: PyTorch finds no GPU here; take cpu")
    place = torch.device("cuda", _number("LOCAL_RANK", 0)) if gpus else torch.device("cpu")
    count = _number("WORLD_SIZE", 1)
    if count == 1:
        yield Ranks(device=place)
        return
    if gpus:
        torch.cuda.set_device(place)
    try:
        dist.init_process_group("nccl" if gpus else "gloo")
    except Exception as error:  # what torch raises depends on the variable that is missing
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BlrcError(
            f"cannot join {count} processes ({reason}); start them by torchrun, or unset WORLD_SIZE"
        ) from None
    try:
        with warnings.catch_warnings():
            # A weight with one input channel may have a gradient with another stride in that dimension. It is harmless.
            warnings.filterwarnings("ignore", rf"(?s){STRIDES}.*grad\.sizes\(\) = \[\d+, 1, ")
            yield Ranks(dist.get_rank(), count, place)
    finally:
        dist.destroy_process_group()
