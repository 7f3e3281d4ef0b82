"""Kernels without an export, at the edges of every geometry: one program, compiled once with sanitizers.

Many seeds by day, as a case costs little beside the compilation; the night takes twice as many, and BLRC_FARM_HOURS
asks for as many CPU hours (docs/farm.md).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import farm_direct
import numpy as np
import pytest
import run_farm
from by_night import night
from farm_kernels import FROM_NO_CHECKPOINT

from blrc.targets.c.kernels.registry import KERNELS

HOURS = float(os.environ.get("BLRC_FARM_HOURS") or 0)
BATCH = 120  # seeds

pytestmark = [pytest.mark.needs("clang"), pytest.mark.slow("compiles every kernel twice, under sanitizers")]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return farm_direct.compile_kernels(tmp_path_factory.mktemp("kernels"))


def batches() -> Iterator[range]:
    return (range(start, start + BATCH) for start in itertools.count(0, BATCH))


@pytest.mark.timeout(3600 * 24 * 7 if HOURS else 600)
@pytest.mark.parametrize("most", [BATCH, *night(2 * BATCH)])
def test_every_kernel_at_the_edges_of_its_memory(program: Path, most: int) -> None:
    """Each runs whole, and those that can in row strips, from copies of just the rows that a strip may read."""
    begun = run_farm.cpu_seconds()
    tiers, _ = run_farm.here()
    reached: set[str] = set()
    for seeds in batches():
        batch = list(farm_direct.cases(seeds, tiers))
        reached |= {case.step.kernel for case in batch}
        assert farm_direct.run(program, batch) is None, f"seeds {seeds}"
        if seeds.stop >= most and run_farm.cpu_seconds() - begun >= 3600 * HOURS:
            break
    hosts = set() if tiers else {name for name, kernel in KERNELS.items() if kernel.inner}
    assert reached >= KERNELS.keys() - FROM_NO_CHECKPOINT - {"scores_binary"} - hosts


def test_a_scratch_buffer_that_is_too_small_is_found(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One word less than the layout says."""
    of_scratch = [case for case in farm_direct.cases(range(16), []) if case.step.kernel == "conv_slices"]
    encode = farm_direct.encoded

    def smaller(case: farm_direct.Case) -> bytes:
        head = np.frombuffer(encode(case)[: 4 * 8], np.int32).copy()
        head[6] -= 4
        return head.tobytes() + encode(case)[4 * 8 :]

    monkeypatch.setattr(farm_direct, "encoded", smaller)
    wrong = farm_direct.run(program, of_scratch[:1])
    assert wrong is not None and "heap-buffer-overflow" in wrong


def test_a_wrong_bit_is_found(program: Path) -> None:
    """All weights turned round."""
    case = next(case for case in farm_direct.cases(range(40), []) if case.step.kernel == "conv_gather")
    weights, thresholds = case.step.tables
    turned = replace(weights, arrays=(~weights.arrays[0],))
    case = replace(case, step=replace(case.step, tables=(turned, thresholds)))
    wrong = farm_direct.run(program, [case])
    assert wrong is not None and "threshold" in wrong
