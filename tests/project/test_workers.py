"""Thread pools have as many threads as this process may use CPUs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import blrc
from blrc.workers import thread_pool, usable_cpus

PACKAGE = Path(blrc.__file__).parent


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot bind a process to CPUs")
def test_a_process_that_is_bound_to_one_cpu_counts_one() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from blrc.workers import thread_pool, usable_cpus; print(usable_cpus(), thread_pool()._max_workers)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert said.stdout.split() == ["1", "1"]


def test_a_pool_has_a_thread_for_each_usable_cpu() -> None:
    with thread_pool() as pool:
        assert pool._max_workers == usable_cpus() >= 1


def test_cpus_are_counted_in_one_place_only() -> None:
    counting = re.compile(r"cpu_count\(|sched_getaffinity\(")
    found = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if counting.search(path.read_text())}
    assert found == {Path("workers.py")}
