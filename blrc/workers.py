"""Share work among the CPUs that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from blrc.errors import BlrcError

_limits: list[int] = []
"""Of each `at_most` that is entered, the most CPUs. It decides how long something takes, never what comes out."""


def usable_cpus() -> int:
    """Return how many CPUs this process may use, which can be fewer than the machine has (taskset, containers)."""
    if sys.platform != "win32" and hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count() or 1
    return min([usable, *_limits])


@contextmanager
def at_most(jobs: int | None) -> Iterator[None]:
    """Limit the CPUs among which this block shares work to `jobs`; None sets no limit.

    Raises:
        BlrcError: `jobs` is less than 1.
    """
    if jobs is None:
        yield
        return
    if jobs < 1:
        raise BlrcError(f"jobs {jobs}: must be at least 1")
    _limits.append(jobs)
    try:
        yield
    finally:
        _limits.remove(jobs)


def thread_pool() -> ThreadPoolExecutor:
    """Return a pool with one thread for each CPU that this process may use."""
    return ThreadPoolExecutor(usable_cpus())
