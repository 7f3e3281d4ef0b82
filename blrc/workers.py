"""Share work among the CPUs that this process may use."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor


def usable_cpus() -> int:
    """Return how many CPUs this process may use, which can be fewer than the machine has (taskset, containers)."""
    if sys.platform != "win32" and hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_pool() -> ThreadPoolExecutor:
    """Return a pool with one thread for each CPU that this process may use."""
    return ThreadPoolExecutor(usable_cpus())
