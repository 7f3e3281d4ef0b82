"""Seeds that are derived from other seeds."""

from __future__ import annotations

import numpy as np


def derived_seed(*key: int) -> int:
    """Return a seed of 63 bits for `key`, non-negative integers: other keys give other, independent seeds.

    A generator that is seeded anew in this way at each step needs no state that would have to be kept.
    """
    word = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return int(word) >> 1  # as a Python integer: NumPy 1 knows no type for uint64 >> 1
