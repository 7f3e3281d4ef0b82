"""Measure whether bfloat16 is faster than float32 on this CPU."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F

SLOW = 1.2  # ratio to the time in float32 from which on the user gets a note
TURNS = 3


def slowdown() -> float:
    """Return the time of a convolution of +-1 in bfloat16 divided by its time in float32.

    Each time is the shortest of a few measurements.
    """
    best = {torch.float32: float("inf"), torch.bfloat16: float("inf")}
    with torch.no_grad():
        for _ in range(1 + TURNS):  # the first turn is a warm-up
            for dtype in best:
                inputs, weights = (
                    torch.ones(shape, dtype=dtype).to(memory_format=torch.channels_last)
                    for shape in ((32, 32, 14, 14), (64, 32, 3, 3))
                )
                start = time.perf_counter()
                F.conv2d(inputs, weights, padding=1)
                best[dtype] = min(best[dtype], time.perf_counter() - start)
    return best[torch.bfloat16] / best[torch.float32]


def advice(ratio: float) -> str | None:
    """Return a note for a user whose CPU takes `ratio` times as long in bfloat16, or None if none is needed.

    Example:
        >>> print(advice(8.3))
        note: convolutions take 8.3 times as long in bfloat16 as in float32 on this CPU: leave out --precision bfloat16
        >>> advice(0.6)
    """
    if ratio < SLOW:
        return None
    return (
        f"note: convolutions take {ratio:.1f} times as long in bfloat16 as in float32 on this CPU: leave out "
        "--precision bfloat16"
    )
