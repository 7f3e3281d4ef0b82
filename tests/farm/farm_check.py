"""One network of the farm: exported, compiled in several ways, and compared value by value with the evaluator."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import farm_evaluator as evaluator
import numpy as np
from farm_harness import NAME, ExactBuild
from farm_networks import Network
from numpy.typing import NDArray

import blrc
from blrc.errors import BlrcError
from blrc.net.encoding import device_layout
from blrc.program.program import Program
from blrc.targets.c.build.compiled import Compiled
from blrc.targets.c.kernels.cpus import AARCH64, CORTEX_M55, PORTABLE, TIERS, X86_64
from blrc.targets.c.kernels.tiers import limited
from blrc.targets.c.machines.emulated import EmulatedBuild, missing_tools
from blrc.targets.c.machines.table import MACHINES
from blrc.targets.c.size.fit import DoesNotFitError, NoRoomToTestError

HOST = "host"
EMULATED_FOR = {
    PORTABLE: ("cortex-m0", "cortex-m4", "rv32imc", "rv64gcv", "aarch64", "armv7", "s390x", "wasm", "wasm_simd", "avr"),
    CORTEX_M55: ("cortex-m55",),
    AARCH64: ("aarch64",),
}
"""Machines of `blrc.targets.c.machines.table` by what the C is made for."""
PATHS = {
    "carry-save": ("UNIT_BITS=32", "HAS_POPCOUNT=0"),
    "popcount": ("UNIT_BITS=64", "HAS_POPCOUNT=1"),
    "popcount-32": ("UNIT_BITS=32", "HAS_POPCOUNT=1"),
}
"""Ways of counting bits that other CPUs take in portable C, by what the compiler is told of this one."""
SAMPLES = 6
FEW = 3  # samples of an emulated machine
MOST_LEVELS = 24 * 2**16  # of a log-probability in Q16
NEAR = 16  # units of 2^-16 that an integer logarithm may be off


class WrongError(Exception):
    """The C gives another value than the evaluator, or a sanitizer stopped it."""


@dataclass(frozen=True)
class Variant:
    """One way to export and run a network: ``--cpu``, ``--optimize``, where it runs, and the highest level there.

    In portable C on this machine `tier` is one of `PATHS`, or empty.
    """

    cpu: str = PORTABLE
    optimize: str = "size"
    where: str = HOST
    tier: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.cpu, self.optimize, self.where, self.tier)))


@dataclass
class Outcome:
    """What became of a network, ``right``, ``refused`` (by the layer's name) or ``wrong``; what was compared."""

    seed: int
    style: str
    status: str = "right"
    message: str = ""
    values: int = 0
    variants: dict[str, int] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)
    no_room: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def plain(self) -> dict[str, Any]:
        return {**self.__dict__, "kernels": sorted(self.kernels), "seconds": round(self.seconds, 2)}


def check(network: Network, variants: Sequence[Variant], say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Export a network in each of these ways, run it there, and compare all values of all layers and members."""
    outcome = Outcome(network.seed, network.style)
    begun = time.process_time()
    with tempfile.TemporaryDirectory(prefix="blrc-farm-") as folder:
        try:
            _check(network, variants, Path(folder), outcome, say)
        except WrongError as error:
            outcome.status, outcome.message = "wrong", str(error)
        except BlrcError as error:
            outcome.status, outcome.message = "refused", str(error)
            if not re.search(r"layer '|^[A-Za-z]+2d[: ]|^[A-Za-z]+Linear[: ]|(Conv2d|Pool2d|Linear)", str(error)):
                outcome.status = "wrong"
                outcome.message = f"refused without the layer's name: {error}"
    outcome.seconds = time.process_time() - begun
    return outcome


def _check(
    network: Network, variants: Sequence[Variant], folder: Path, outcome: Outcome, say: Callable[[str], None]
) -> None:
    path = folder / "model.pt"
    blrc.save(network.model, path=path, input=network.encoding, calibration=network.calibration)
    exports: dict[tuple[str, str], Path] = {}
    expected: list[evaluator.Evaluated] = []
    raw = device_layout(network.inputs(SAMPLES))
    for variant in variants:
        say(str(variant))
        key = (variant.cpu, variant.optimize)
        if key not in exports:
            made = folder / f"export{len(exports)}"
            exported = blrc.export(
                path, folder=made, targets="c", name=NAME, optimize=variant.optimize, cpu=variant.cpu, **network.options
            )
            exports[key] = made
            program = exported.program
        if not expected:
            expected = [evaluator.evaluate(program, raw, member) for member in range(len(program.members))]
        try:
            compared, found = _run(exports[key], variant, program, raw, expected)
        except (DoesNotFitError, NoRoomToTestError):
            outcome.no_room.append(str(variant))
            continue
        except WrongError as error:
            raise WrongError(f"{variant}: {error}") from error
        outcome.variants[str(variant)] = compared
        outcome.values += compared
        outcome.kernels |= found


def _run(
    folder: Path, variant: Variant, program: Program, raw: NDArray[Any], expected: Sequence[evaluator.Evaluated]
) -> tuple[int, set[str]]:
    """Values that were compared, and the kernels that gave them."""
    with limited("" if variant.tier in PATHS else variant.tier):
        try:
            if variant.where == HOST:
                told = [f"-D{NAME.upper()}_BLRC_{macro}" for macro in PATHS.get(variant.tier, ())]
                built: Compiled = ExactBuild(folder, told)
            else:
                built = EmulatedBuild(folder, NAME, MACHINES[variant.where])
                raw = raw[:FEW]
        except (DoesNotFitError, NoRoomToTestError):
            raise
        except BlrcError as error:
            raise WrongError(f"it does not compile: {error}") from error
    with built:  # type: ignore[attr-defined]
        if isinstance(built, EmulatedBuild) and not built.runs:
            raise NoRoomToTestError(built.no_room, "", 0)
        try:
            compared = _compare(built, program, raw, expected, variant.where == HOST)
        except BlrcError as error:
            raise WrongError(f"it does not run: {error}") from error
        names = {step.kernel for step in built.layout.steps}
    if variant.tier:
        names |= {f"{kernel}@{variant.tier}" for kernel in names}
    elif variant.where != HOST:
        names |= {f"{kernel}@{variant.where}" for kernel in names}
    return compared, names


def _compare(
    built: Compiled, program: Program, raw: NDArray[Any], expected: Sequence[evaluator.Evaluated], alone: bool
) -> int:
    compared = 0
    steps = built.layout.steps
    for member, values in enumerate(expected):
        found = built.run(raw, member)
        for step in steps:
            wrong = evaluator.first_difference(program, step.op, member, _first(values, len(raw)), found[step.y.name])
            if wrong is not None:
                raise WrongError(f"{wrong}; kernel {step.kernel}")
            compared += found[step.y.name].size
        if found["label"].tolist() != evaluator.labels(found[program.output.name]):
            raise WrongError(f"member {member}: labels {found['label'].tolist()}")
        if not alone or member > 0:
            continue
        for step in steps:  # in memory of their own
            given = built.run_op(step.op.name, values.values[step.x.name][: len(raw)], member)
            wrong = evaluator.first_difference(program, step.op, member, _first(values, len(raw)), given)
            if wrong is not None:
                raise WrongError(f"alone: {wrong}; kernel {step.kernel}")
            compared += given.size
    return compared + _compare_answers(built, program, raw, expected)


def _first(values: evaluator.Evaluated, count: int) -> evaluator.Evaluated:
    return evaluator.Evaluated(
        {name: value[:count] for name, value in values.values.items()},
        {name: value[:count] for name, value in values.sums.items()},
    )


def _compare_answers(
    built: Compiled, program: Program, raw: NDArray[Any], expected: Sequence[evaluator.Evaluated]
) -> int:
    """Compare sums of log-probabilities, within what `blrc.program.head` promises, and the label that they give."""
    answers = built.answers(raw, members=len(expected))
    exact = np.zeros(answers.log_p.shape)
    for values in expected:
        real = values.values[program.output.name][: len(raw)].reshape(len(raw), -1) * program.score_scale
        real = real - real.max(axis=1, keepdims=True)
        logs = (real - np.log(np.exp(real).sum(axis=1, keepdims=True))) / np.log(2.0) * 2**16
        exact += np.maximum(logs, -MOST_LEVELS)
    off = np.abs(answers.log_p - exact).max(initial=0.0)
    if off > NEAR * len(expected):
        raise WrongError(f"log-probabilities of all members are off by {off:.1f} units of 2^-16")
    if answers.label.tolist() != evaluator.labels(answers.log_p):
        raise WrongError(f"labels of all members {answers.label.tolist()}")
    built.answers(raw, stop=True)
    return int(answers.log_p.size)


def usable(machine: str) -> bool:
    """Whether the machine can be emulated here."""
    return not missing_tools(MACHINES[machine])


def reaching(network: Network, kernels: Collection[str], tiers: Sequence[str]) -> list[Variant]:
    """Return the ways on this machine in which a network's export has one of these kernels. Nothing is compiled."""
    found: list[Variant] = []
    with tempfile.TemporaryDirectory(prefix="blrc-farm-") as folder:
        path = Path(folder) / "model.pt"
        try:
            blrc.save(network.model, path=path, input=network.encoding, calibration=network.calibration)
            for variant in [*_plain(), *(Variant(X86_64, "size", HOST, tier) for tier in tiers[-1:])]:
                made = Path(folder) / f"{variant.cpu}-{variant.optimize}"
                options = {"optimize": variant.optimize, "cpu": variant.cpu, **network.options}
                blrc.export(path, folder=made, targets="c", name=NAME, **options)
                if not set(kernels).isdisjoint(step.kernel for step in Compiled(made, NAME).layout.steps):
                    found.append(variant)
        except BlrcError:
            return []  # a refusal is for `check` to judge
    return found


def _plain() -> list[Variant]:
    """Return what runs on every machine: C for small CPUs, for each of which this one's compiler stands in."""
    return [Variant(cpu, optimize) for cpu in (PORTABLE, CORTEX_M55) for optimize in ("size", "speed", "ram")]


def choose(
    rng: np.random.Generator, style: str, count: int, tiers: Sequence[str], machines: Sequence[str]
) -> list[Variant]:
    """So many ways to run a network of that style: those that reach its rare kernels first."""
    favoured = {
        "columns": [Variant(PORTABLE, "ram"), Variant(PORTABLE, "size")],
        "same": [
            Variant(CORTEX_M55, "speed"),
            Variant(PORTABLE, "speed"),
            *(Variant(X86_64, "size", HOST, t) for t in tiers),
        ],
        "eights": [Variant(CORTEX_M55, "speed")],
        "dense": [
            Variant(CORTEX_M55, "speed"),
            Variant(PORTABLE, "speed"),
            *(Variant(X86_64, "size", HOST, t) for t in tiers),
        ],
        "taps": [Variant(PORTABLE, "size"), Variant(CORTEX_M55, "size"), Variant(PORTABLE, "ram")],
        "rows": [Variant(PORTABLE, "ram"), Variant(PORTABLE, "size")],
    }.get(style, [])
    every = _plain() + [Variant(X86_64, "size", HOST, tier) for tier in tiers]
    every += [Variant(PORTABLE, str(rng.choice(["size", "ram"])), HOST, path) for path in PATHS]
    for machine in machines:
        cpus = [cpu for cpu, names in EMULATED_FOR.items() if machine in names]
        for cpu in cpus:
            levels = TIERS[AARCH64] if cpu == AARCH64 else ("",)
            optimize = "size" if cpu == AARCH64 else str(rng.choice(["size", "speed", "ram"]))
            every += [Variant(cpu, optimize, machine, tier) for tier in levels]
    chosen: list[Variant] = []
    for pool in (favoured, every):
        order = [pool[i] for i in rng.permutation(len(pool))]
        wanted = min(count, 1 + count // 3) if pool is favoured else count
        chosen += [variant for variant in order if variant not in chosen][: max(0, wanted - len(chosen))]
    return chosen
