"""The processes of a run: one, or those that torchrun started."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from blrc.errors import BlrcError
from blrc.nn import join_norms

T = TypeVar("T")
SAMPLE_STREAM = 2_000  # sets seeds of ranks apart from all others


@dataclass(frozen=True)
class Ranks:
    """This process among those of a run.

    Attributes:
        rank, count: its number from 0, and how many there are.
        device: where it computes.
    """

    rank: int = 0
    count: int = 1
    device: torch.device | str = "cpu"

    @property
    def first(self) -> bool:
        """Whether this is the one that reads, validates, writes and speaks for all."""
        return self.rank == 0

    def seed(self, seed: int) -> int:
        """A process's own seed of noise; a single process has `seed` itself."""
        if self.count == 1:
            return seed
        state = np.random.SeedSequence((seed, SAMPLE_STREAM, self.rank)).generate_state(1, np.uint64)
        return int(state[0] >> 1)

    def share(self, batch: Any) -> Any:
        """This process's rows of a batch: every `count`-th from the `rank`-th."""
        return batch[self.rank :: self.count]

    def weight(self, samples: int) -> float:
        """Factor on this process's mean loss of a batch of `samples`: the processes' mean is then the batch's."""
        own = len(range(self.rank, samples, self.count))
        return own * self.count / samples

    def mean(self, value: float) -> float:
        """Mean over the processes."""
        if self.count == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return float(total) / self.count

    def of_first(self, compute: Callable[[], T]) -> T:
        """What `compute` gives in the first process, in all of them; the others do not call it."""
        if self.count == 1:
            return compute()
        held: list[Any] = [compute() if self.first else None]
        dist.broadcast_object_list(held, device=torch.device(self.device))
        result: T = held[0]
        return result

    def parallel(self, model: nn.Module) -> nn.Module:
        """`model` for training: with more than one process its gradients are averaged, and its norms are joint."""
        if self.count == 1:
            return model
        join_norms(model)
        return DistributedDataParallel(model)


@contextmanager
def joined(device: str = "cpu") -> Iterator[Ranks]:
    """Join the other processes, where torchrun started this one (gloo on CPUs, nccl on GPUs).

    Args:
        device: ``cpu``, ``cuda``, or ``auto``: a GPU where there is one.

    Raises:
        BlrcError: no such device.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise BlrcError(f"device {device!r}: 'auto', 'cpu' or 'cuda'")
    gpus = device != "cpu" and torch.cuda.is_available()
    if device == "cuda" and not gpus:
        raise BlrcError("device cuda: PyTorch finds no GPU here; take cpu")
    place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpus else torch.device("cpu")
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Ranks(device=place)
        return
    if gpus:
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if gpus else "gloo")
    try:
        yield Ranks(dist.get_rank(), count, place)
    finally:
        dist.destroy_process_group()
