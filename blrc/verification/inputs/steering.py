"""Steer inputs: change them until the largest of the sums that they are weighted for is a goal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

STEPS = 120
"""Changes that are made before a goal is given up."""


def steer_bits(
    matrix: NDArray[np.int64], x: NDArray[np.int8], goal: int, side: int, rng: np.random.Generator, whole: bool
) -> tuple[NDArray[np.int8], bool]:
    """Flip inputs until the largest sum is the goal, or one beyond it where its parity forbids the goal.

    Where weights are `whole` numbers, pairs of inputs are sought that together bring it there.

    Returns:
        the inputs, and whether the goal was reached.
    """
    accepted = {goal, goal - 1} if side < 0 else {goal, goal + 1}
    x = x.copy()
    z = matrix @ x
    for _ in range(STEPS):
        distance = int(z.max()) - goal
        if int(z.max()) in accepted:
            return x, True
        peak = matrix[int(np.argmax(z))]
        changes = -2 * peak * x
        pair = _pair(np.flatnonzero(peak), changes, [at - int(z.max()) for at in accepted], rng) if whole else None
        if pair is not None:
            x[pair] = -x[pair]
            z = matrix @ x
            continue
        candidates = np.flatnonzero(changes * (-1 if distance > 0 else 1) > 0)
        if not len(candidates):
            break
        size = 1 if whole else abs(distance) // (2 if len(z) == 1 else 4)
        if size > 1:
            chosen = rng.choice(candidates, min(size, len(candidates)), replace=False)
        else:
            if len(candidates) > 64:
                candidates = rng.choice(candidates, 64, replace=False)
            peaks = (z[:, None] - 2 * matrix[:, candidates] * x[candidates]).max(axis=0)
            misses = np.abs(peaks - goal)
            best = np.flatnonzero(misses == misses.min())
            chosen = candidates[[int(rng.choice(best))]]
        x[chosen] = -x[chosen]
        z = matrix @ x
    return x, int(z.max()) in accepted


def steer_codes(
    matrix: NDArray[np.int64],
    picked: NDArray[np.int64],
    choices: NDArray[np.int64],
    goal: int,
    rng: np.random.Generator,
    whole: bool,
) -> tuple[NDArray[np.int64], bool]:
    """Change inputs, each to one of its choices, until the largest sum is the goal.

    Where weights are `whole` numbers, pairs of changes are sought that together bring it there.

    Returns:
        the index of each input's choice, and whether the goal was reached.
    """
    picked = picked.copy()
    x = choices[np.arange(len(picked)), picked]
    z = matrix @ x
    for _ in range(STEPS):
        if int(z.max()) == goal:
            return picked, True
        some = rng.choice(len(x), min(len(x), 8), replace=False)
        change = choices[some] - x[some, None]
        if whole:
            changes = matrix[int(np.argmax(z))][some, None] * change
            pair = _pair(np.arange(changes.size), changes.ravel(), [goal - int(z.max())], rng, changes.shape[1])
            if pair is not None:
                rows, values = np.divmod(pair, changes.shape[1])
                picked[some[rows]], x[some[rows]] = values, choices[some[rows], values]
                z = matrix @ x
                continue
        peaks = (z[:, None, None] + matrix[:, some, None] * change).max(axis=0)
        misses = np.abs(peaks - goal)
        best = np.flatnonzero(misses == misses.min())
        i, value = divmod(int(rng.choice(best)), choices.shape[1])
        picked[some[i]] = value
        x[some[i]] = choices[some[i], value]
        z = matrix @ x
    return picked, int(z.max()) == goal


def _pair(
    among: NDArray[np.intp], changes: NDArray[np.int64], goals: Sequence[int], rng: np.random.Generator, each: int = 1
) -> NDArray[np.intp] | None:
    """Return two places whose changes add up to one of the goals, or None; `each` that follow are of one input."""
    order = among[np.argsort(changes[among], kind="stable")]
    held = changes[order]
    for goal in goals:
        first = rng.permutation(len(order))
        at = np.searchsorted(held, goal - held[first]).clip(0, len(held) - 1)
        fits = (held[at] + held[first] == goal) & (order[at] // each != order[first] // each)
        if fits.any():
            found = int(np.argmax(fits))
            return np.array([order[first[found]], order[at[found]]])
    return None
