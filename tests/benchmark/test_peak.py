"""The loops of the popcount peak, and which levels this CPU has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blrc.benchmark import peak
from blrc.benchmark.peak import Peak
from blrc.errors import BlrcError
from blrc.targets.c.kernels.cpus import TIERS
from blrc.targets.c.kernels.tiers import host_cpu

LEVELS = [*TIERS["x86-64"], *TIERS["aarch64"]]
FLAGS = {"popcnt": "popcnt", "avx2": "avx2", "avx512": "avx512_vpopcntdq"}  # of /proc/cpuinfo


@pytest.mark.needs("cc")
def test_levels_are_those_of_this_cpu_and_each_loop_runs() -> None:
    info = Path("/proc/cpuinfo")
    known = set(info.read_text(encoding="utf-8").split()) if info.is_file() else set()
    with Peak() as loops:
        of_host = TIERS.get(host_cpu(), ("portable",))
        assert loops.levels == of_host[: len(loops.levels)] and loops.levels[0] == "portable"
        for level, flag in FLAGS.items():
            assert level not in loops.levels or flag in known
        for level in loops.levels:
            loops.run(level)(2)
            assert loops.macs(level) > 0


def test_every_level_has_a_loop() -> None:
    source = (Path(peak.__file__).parent / "peak.c").read_text(encoding="ascii")
    for level in LEVELS:
        loop = peak.LOOPS.get(level, level)
        assert loop in peak.MACS and f"uint64_t peak_{loop}(uint64_t rounds);" in source, level


def test_macs_of_a_round_are_those_of_its_steps() -> None:
    source = (Path(peak.__file__).parent / "peak.c").read_text(encoding="ascii")
    steps = re.search(r"#define FOUR\(STEP\)((?: STEP\(\d\))+)\n#define ROUND\(STEP\)((?: FOUR\(STEP\);?)+)\n", source)
    assert steps is not None
    each = steps[1].count("STEP(") * steps[2].count("FOUR(")
    # bits of a word, of a vector of 64-byte words, and 4 bits of each of 32 bytes
    assert {level: macs // each for level, macs in peak.MACS.items()} == {
        "portable": 64,
        "popcnt": 64,
        "avx2": 128,
        "avx512": 512,
        "neon": 128,
    }


def test_no_compiler_is_said() -> None:
    with pytest.raises(BlrcError, match="'no-such-cc' not found"):
        Peak(cc="no-such-cc")
