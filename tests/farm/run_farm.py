"""Runs the farm: network after network, by the hour. See docs/farm.md.

    PYTHONPATH=.:tests python tests/farm/run_farm.py --hours 3 --log farm.jsonl

Each network is a line of JSON in the log, so that a run that ends goes on where it stopped. ``--summary`` says what a
log holds; ``--only SEED`` runs one network again and shows what differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import re
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import farm_direct
import numpy as np
import torch
from farm_check import EMULATED_FOR, PATHS, Outcome, Variant, check, choose, usable
from farm_kernels import wanted
from farm_networks import network

from blrc.targets.c.kernels.cpus import TIERS, X86_64

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = 4  # ways in which a network is run
DIRECT = "kernels without an export"
CASES = 40  # seeds of these at a time
NETWORKS = 8  # between them


NEEDS = {
    "portable": (),
    "popcnt": ("popcnt", "ssse3", "sse4_1"),
    "avx2": ("avx2",),
    "avx512": ("avx512_vpopcntdq", "avx512_vnni"),
}
"""Flags in /proc/cpuinfo of each level of x86-64 (`blrc_tier_x86.c`), besides those of the levels below."""


def here() -> tuple[list[str], list[str]]:
    """Levels of x86-64 that this CPU has, and machines that can be emulated."""
    machines = sorted({name for names in EMULATED_FOR.values() for name in names if usable(name)})
    info = Path("/proc/cpuinfo")
    flags = set(re.findall(r"\w+", info.read_text(encoding="utf-8"))) if info.is_file() else set()
    tiers = [tier for tier in TIERS[X86_64] if flags.issuperset(NEEDS[tier])]
    return tiers if platform.machine() == "x86_64" else [], machines


def code() -> str:
    """Changes where the kernels do, or what chooses them and lays out their tables."""
    found = sha256()
    for folder in ("runtime", "blrc/targets/c"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".py") and "packages" not in path.parts:
                found.update(path.read_bytes())
    return found.hexdigest()[:12]


def grow(
    seeds: Iterable[int], variants: int = VARIANTS, emulate: float = 1.0, only: Sequence[Variant] = ()
) -> Iterator[Outcome]:
    """Outcomes of the networks of these seeds.

    Args:
        emulate: for which part of the networks emulated machines are among the choices.
    """
    tiers, machines = here()
    for seed in seeds:
        rng = np.random.default_rng([seed, 16])
        grown = network(seed)
        usable_here = machines if rng.random() < emulate else []
        chosen = list(only) or choose(rng, grown.style, variants, tiers, usable_here)
        try:
            yield check(grown, chosen)
        except Exception:
            yield Outcome(seed, grown.style, "wrong", traceback.format_exc(limit=-6))


def directly(seeds: Iterable[int], builds: Path) -> Iterator[Outcome]:
    """Outcomes of kernels without an export, `CASES` seeds of `farm_direct` for each seed, compiled in `builds`."""
    programs = []
    for path in ("", "carry-save"):
        folder = Path(tempfile.mkdtemp(dir=builds))
        farm_direct.compile_kernels(folder, PATHS.get(path, ()))
        programs.append(folder / "kernels")
    tiers, _ = here()
    for seed in seeds:
        outcome = Outcome(seed, DIRECT)
        batch = list(farm_direct.cases(range(CASES * seed, CASES * (seed + 1)), tiers))
        wrong = next(filter(None, (farm_direct.run(program, batch) for program in programs)), None)
        outcome.status, outcome.message = ("right", "") if wrong is None else ("wrong", wrong)
        for case in batch:
            values = case.step.y.shape[0] * case.step.y.shape[1] * case.step.y.shape[2] * len(case.x)
            outcome.values += len(programs) * values * (2 if case.by_rows else 1)
            outcome.kernels.add(case.step.kernel)
        outcome.variants[DIRECT] = outcome.values
        yield outcome


def summary(lines: Iterable[dict[str, Any]]) -> str:
    """What a log says, by the code that ran."""
    by_code: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_code.setdefault(line["code"], []).append(line)
    text = []
    for digest, of_code in by_code.items():
        direct = [line for line in of_code if line["style"] == DIRECT]
        status = Counter(line["status"] for line in of_code if line["style"] != DIRECT)
        reached = Counter(kernel for line in of_code for kernel in line["kernels"])
        ways = Counter(variant for line in of_code for variant in line["variants"])
        values = sum(line["values"] for line in of_code)
        hours = sum(line["cpu"] for line in of_code) / 3600
        counts = ", ".join(f"{n} {what}" for what, n in sorted(status.items()))
        never = sorted(wanted(here()[0]) - set(reached))
        text += [
            f"code {digest}: {len(of_code) - len(direct)} networks ({counts}), "
            f"{values:,} values, {hours:.2f} CPU hours, {CASES * len(direct)} seeds of kernels without an export",
            f"  reached: {', '.join(f'{kernel} {n}' for kernel, n in sorted(reached.items()))}",
            f"  never reached: {', '.join(never) or 'none'}",
            f"  ways: {', '.join(f'{way}: {n}' for way, n in sorted(ways.items()))}",
            *(f"  WRONG seed {line['seed']}: {line['message']}" for line in of_code if line["status"] == "wrong"),
        ]
    return "\n".join(text)


def read(log: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that was cut short is left out."""
    found = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.is_file() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def cpu_seconds() -> float:
    """Of this process and of all that it has waited for: compilers, programs, emulators."""
    mine, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0, help="CPU hours, those of compilers and programs included")
    parser.add_argument("--log", type=Path, default=Path("farm.jsonl"))
    parser.add_argument("--seed", type=int, default=0, help="of the first network, where the log is empty")
    parser.add_argument("--step", type=int, default=1, help="from a seed to the next: several processes share the work")
    parser.add_argument("--variants", type=int, default=VARIANTS, help="ways in which each network is run")
    parser.add_argument("--only", type=int, help="run this network alone")
    parser.add_argument("--summary", action="store_true", help="say what the log holds, and run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.summary:
        return _told(options.log)
    with tempfile.TemporaryDirectory(prefix="blrc-farm-objects-") as temporary:
        if options.only is not None:
            outcomes = list(grow([options.only], options.variants))
            print(json.dumps(outcomes[0].plain(), indent=1))  # noqa: T201
            return int(outcomes[0].status == "wrong")
        options.log.parent.mkdir(parents=True, exist_ok=True)
        before = [line["seed"] for line in read(options.log)]
        seed = max(before) + options.step if before else options.seed
        digest, spent = code(), cpu_seconds()
        begun = spent
        with options.log.open("a", encoding="utf-8") as log:
            if log.tell() and not options.log.read_bytes().endswith(b"\n"):
                log.write("\n")  # behind a line that was cut short
            seeds = itertools.count(seed, options.step)
            networks, kernels = (grow(seeds, options.variants), directly(seeds, Path(temporary)))
            for turn in itertools.count(1):
                outcome = next(kernels if turn % NETWORKS == 0 else networks, None)
                if outcome is None:
                    break
                now = cpu_seconds()
                line = {"code": digest, "cpu": round(now - spent, 2), "at": int(time.time()), **outcome.plain()}
                log.write(json.dumps(line) + "\n")
                log.flush()
                spent = now
                if now - begun > 3600 * options.hours:
                    break
    return _told(options.log)


def _told(log: Path) -> int:
    """Prints the summary; 1 where a network was wrong, with the kernels as they were then."""
    lines = read(log)
    print(summary(lines))  # noqa: T201
    return int(any(line["status"] == "wrong" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
