"""Inputs by the thousand that nobody should write; `BLRC_FUZZ_INPUTS=100000` in the environment makes it more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz_cases import KINDS
from fuzz_worker import MEGABYTES, SECONDS, failure

from blrc.errors import BlrcError

WORKER = Path(__file__).parent / "fuzz_worker.py"
INPUTS = int(os.environ.get("BLRC_FUZZ_INPUTS", "3600"))


@pytest.mark.slow("each of many kinds of input has a process")
@pytest.mark.parametrize("inputs", [INPUTS // 10, pytest.param(INPUTS, marks=pytest.mark.nightly)])
def test_every_input_ends_in_an_answer_or_a_refusal(inputs: int) -> None:
    whole = sum(share for share, _ in KINDS.values())
    wanted = [f"{kind}:0:{-(-share * inputs // whole)}" for kind, (share, _) in KINDS.items()]
    done = subprocess.run(
        [sys.executable, str(WORKER), *wanted],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=500 + inputs * SECONDS / 10,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    failures = [
        f"{report['end']}\n    python tests/fuzz/fuzz_worker.py {report['kind']}:{report['seed']}"
        for report in reports
        if "seed" in report
    ]
    assert not failures, "\n".join(failures)
    finished = [report["kind"] for report in reports if "done" in report]
    assert (done.returncode, finished) == (0, [kind.split(":")[0] for kind in wanted]), done.stderr[-3000:]


@pytest.mark.nightly
def test_memory_of_each_input_is_seen_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The peak of the process only grows, so that after one large input the others seemed to take nothing."""
    taken = iter((MEGABYTES + 100, 1, MEGABYTES + 100))

    def case(rng: object, good: Path, place: Path) -> Callable[[], None]:
        def take() -> None:
            held = b"x" * (next(taken) << 20)
            raise BlrcError(f"a refusal of {len(held)} bytes")

        return take

    monkeypatch.setitem(KINDS, "memory", (0, case))
    assert [failure("memory", seed, tmp_path) is None for seed in range(3)] == [False, True, False]
