"""Derive seeds from other seeds."""

from __future__ import annotations

import numpy as np


def derived_seed(*key: int) -> int:
    """Return a seed of 63 bits for a key of non-negative integers. Different keys give independent seeds.

    A generator that gets such a seed at each step has no state that would have to be saved.
    """
    word = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return int(word) >> 1  # as a Python integer, since NumPy 1 has no type for uint64 >> 1
