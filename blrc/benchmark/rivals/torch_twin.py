"""Run the float32 twin of a network (`blrc.benchmark.rivals.twins`) in PyTorch, op by op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from blrc.benchmark.clock import Run
from blrc.benchmark.rivals import twins
from blrc.benchmark.rivals.computing import computing
from blrc.program.program import Conv, Op, Pool, Program, SumPool, WeightedOp, Window

Step = Callable[[Tensor], Tensor]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute in a single thread inside this context."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def network(program: Program, ops: Sequence[Op]) -> Step:
    """Return some consecutive ops of a program as a function of a tensor.

    The tensor is ``(N, C, H, W)``, or ``(N, C)`` where the input is one pixel.
    """
    steps = [step for op in computing(ops) for step in _steps(program, op)]

    def forward(x: Tensor) -> Tensor:
        for step in steps:
            x = step(x)
        return x

    return forward


def in_torch(program: Program, ops: Sequence[Op]) -> Run:
    """Return a run of `network` on one sample, in inference mode and in as many threads as PyTorch is set to."""
    forward = network(program, ops)
    signs = np.random.default_rng(1).integers(0, 2, twins.input_shape(program, ops)).astype(np.float32) * 2 - 1
    x = torch.from_numpy(signs)

    def run(repeats: int) -> None:
        with torch.inference_mode():
            for _ in range(repeats):
                forward(x)

    return run


def _steps(program: Program, op: Op) -> list[Step]:
    _, *image = twins.image(op.x.shape)
    shape = [-1] if twins.is_product(op) else image
    return [lambda x: x.reshape(len(x), *shape), *_layer(program, op)]


def _layer(program: Program, op: Op) -> list[Step]:
    if isinstance(op, Pool):
        return [_max_pool(op.window)]
    if isinstance(op, SumPool):
        window = op.window
        return [lambda x: F.avg_pool2d(_padded(x, window), window.kernel, window.stride, _same(window))]
    assert isinstance(op, WeightedOp)
    weights = torch.from_numpy(twins.weights(program, op).astype(np.float32))
    bias = torch.zeros(len(weights))
    steps: list[Step]
    if twins.is_product(op):
        rows = weights.reshape(len(weights), -1)
        steps = [lambda x: F.linear(x, rows, bias)]
    else:
        assert isinstance(op, Conv)
        window, groups = op.window, op.groups
        steps = [
            lambda x: F.conv2d(_padded(x, window), weights, bias, window.stride, _same(window), window.dilation, groups)
        ]
    if isinstance(op, Conv):
        steps.append(torch.relu)
        if op.pool is not None:
            steps.append(_max_pool(op.pool))
    return steps


def _max_pool(window: Window) -> Step:
    def step(x: Tensor) -> Tensor:
        # Values behind a ReLU are not negative, so padding with 0 never changes a maximum.
        return F.max_pool2d(_padded(x, window), window.kernel, window.stride, _same(window), window.dilation)

    return step


def _same(window: Window) -> tuple[int, int]:
    """Return the padding that the op itself applies: all of it if opposite sides are equal, otherwise none.

    In the second case `_padded` has applied it before.
    """
    top, left, bottom, right = window.padding
    return (top, left) if (top, left) == (bottom, right) else (0, 0)


def _padded(x: Tensor, window: Window) -> Tensor:
    top, left, bottom, right = window.padding
    return x if (top, left) == (bottom, right) else F.pad(x, (left, right, top, bottom))
