"""Sum tensors over the processes of a distributed run, and normalise with the statistics of the joint batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def settle(collective: Callable[..., Any], tensor: Tensor, **options: Any) -> None:
    """Run a collective operation on `tensor` and wait until the process group's threads have released it.

    A thread of gloo releases a tensor only after it has reported the operation as done, and takes Python's global lock
    for it. If Python exits meanwhile, the process aborts (SIGABRT). This happens even after `destroy_process_group`,
    because a group that DistributedDataParallel used is never freed, and neither are its threads.
    """
    collective(tensor, async_op=True, **options).wait()
    while tensor.device.type == "cpu" and tensor._use_count() > 1:  # type: ignore[attr-defined]  # one is Python's
        time.sleep(0)


def all_sum(x: Tensor) -> Tensor:
    """Return the sum of `x` over all processes, without gradient. All processes get the same bits."""
    total = x.detach().clone(memory_format=torch.contiguous_format)
    settle(dist.all_reduce, total)
    return total


class _AllSum(torch.autograd.Function):
    """Compute `all_sum` with a gradient, which is the sum of all processes' gradients with respect to the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return all_sum(x)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return all_sum(grad)


def _normalised(norm: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor) -> Tensor:
    """Compute a batch norm in training mode over the joint batch (torch's SyncBatchNorm is for GPUs only)."""
    axes = (0, *range(2, x.ndim))

    def rows(per_channel: Tensor) -> Tensor:
        return per_channel.view(1, -1, *(1,) * (x.ndim - 2))

    count = float(all_sum(torch.tensor(float(x.numel() // x.shape[1]), device=x.device)))
    mean: Tensor = _AllSum.apply(x.sum(axes)) / count  # type: ignore[no-untyped-call]
    centred = x - rows(mean)
    variance: Tensor = _AllSum.apply(centred.square().sum(axes)) / count  # type: ignore[no-untyped-call]
    with torch.no_grad():
        assert norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None
        norm.get_buffer("num_batches_tracked").add_(1)
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(variance * (count / (count - 1)), norm.momentum)
    out = centred * rows((variance + norm.eps).rsqrt())
    return out if norm.weight is None else out * rows(norm.weight) + rows(norm.bias)


class JointBatchNorm1d(nn.BatchNorm1d):
    """Apply `torch.nn.BatchNorm1d`, in training with the statistics of all processes' batches together."""

    def forward(self, x: Tensor) -> Tensor:
        return _normalised(self, x) if self.training else super().forward(x)


class JointBatchNorm2d(nn.BatchNorm2d):
    """Apply `torch.nn.BatchNorm2d`, in training with the statistics of all processes' batches together."""

    def forward(self, x: Tensor) -> Tensor:
        return _normalised(self, x) if self.training else super().forward(x)
