"""Build the engines whose answers are compared with the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program.head import Answer
from blrc.program.program import Encode, Op, Program
from blrc.targets.c.build import compiler
from blrc.targets.c.build.answers import Answers
from blrc.targets.c.build.compiled import Compiled
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.native.library import in_library
from blrc.targets.c.native.network import Native
from blrc.targets.web import node
from blrc.verification.inputs.stimuli import random_inputs

Arrays = Mapping[str, NDArray[Any]]
OPTIMISED = ("-O2",)
PROBES = 4  # inputs that the sanitizers see before the code runs in this process
SANITIZED_INPUTS = 2_000  # of each kind: sanitizers are some ten times slower


@dataclass(frozen=True)
class Engine:
    """Describe one way to run the exported network.

    Attributes:
        name: the name in reports.
        run: takes raw inputs in device layout and a member's index, and gives that member's values by name, with
            ``label`` if it has one.
        run_op: runs one op of a member alone on a batch of its input (raw uint8 if an `Encode` is fused into the op),
            or gives None if the engine has no such op of its own.
        answer: takes raw inputs, and gives the answer of all members together and, if the engine has them, the scores
            ``(N, members, classes)`` behind it.
        fuses_encode: whether its first layer reads raw uint8 itself, so that, alone, it takes raw values instead of
            codes.
        limit: the largest number of inputs of each kind that it is given (for slow engines), or None.
        layers: whether it shows its layers; if not, it only answers, and `run` gives nothing.
        predict: takes raw inputs and a confidence in Q16, and gives what ``NAME_predict`` returns; None if there is no
            such function.
        settled: takes sums of log p ``(N, classes)`` and the numbers of members ``(N,)`` behind them, and gives what
            ``NAME_is_final`` returns; None if there is no such function.
    """

    name: str
    run: Callable[[NDArray[Any], int], Arrays]
    run_op: Callable[[Op, NDArray[Any], int], NDArray[Any] | None]
    answer: Callable[[NDArray[Any]], tuple[Answer, NDArray[np.int32] | None]]
    fuses_encode: bool = False
    limit: int | None = None
    layers: bool = True
    predict: Callable[[NDArray[Any], int], Answers] | None = None
    settled: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.bool_]] | None = None


@dataclass(frozen=True)
class CompiledC:
    """Hold the exported C, its files unchanged, compiled for speed and with sanitizers.

    Attributes:
        engines: the engines that run it.
        flash: bytes of code and tables, compiled with -Os on this machine; None if nothing here can measure it.
        ram: bytes of the arena.
        problems: what its self-test reports, if anything.
        skipped: what could not be done on this machine, and why.
    """

    engines: tuple[Engine, ...]
    flash: int | None
    ram: int
    problems: tuple[str, ...]
    skipped: tuple[str, ...] = ()


def compile_c(folder: Path, name: str, progress: Callable[[str, int, int], None], builds: ExitStack) -> CompiledC:
    """Compile the exported C with the host compiler, at -O3, with ASan and UBSan, and at -Os to measure it.

    If the sanitizers have seen the code run and found nothing, the fast build is the one of `blrc.compile`, which runs
    in this process. Otherwise it is a program of its own (at -O2), whose crash cannot end this process.

    Args:
        folder: holds the C and the program of the export, and nothing else: every C file in it is compiled and run.
        builds: closes the temporary folders of the programs that the engines run.

    Raises:
        BlrcError: there is no compiler, or it refuses the code.
    """
    progress("compiling", 0, 3)
    problems, skipped, sanitized = [], [], None
    if (reason := lacking_sanitizers()) is None:
        sanitized = builds.enter_context(HostBuild(folder, name, flags=SANITIZE))
    else:
        skipped.append(f"C, ASan+UBSan: the compiler has no sanitizers here; install libasan and libubsan ({reason})")
    progress("compiling", 1, 3)
    if sanitized is not None and runs_clean(sanitized):
        files = {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if in_library(file.name, name)}
        engines = [c_engine(builds.enter_context(Native(files, name, sanitized.program)), "C, -O3", None)]
    else:
        engines = [c_engine(builds.enter_context(HostBuild(folder, name, flags=OPTIMISED)), "C, -O2", None)]
    if sanitized is not None:
        engines.append(c_engine(sanitized, "C, ASan+UBSan", SANITIZED_INPUTS))
    progress("compiling", 2, 3)
    flash = None
    with HostBuild(folder, name, flags=("-Os",)) as small:
        try:
            flash = small.flash
        except BlrcError as error:
            skipped.append(f"flash: {error}")
        try:
            small.selftest()
        except BlrcError as error:
            problems.append(str(error))
        ram = small.ram
    progress("compiling", 3, 3)
    return CompiledC(tuple(engines), flash, ram, tuple(problems), tuple(skipped))


def runs_clean(sanitized: HostBuild) -> bool:
    """Return whether the sanitizers find nothing while the C runs some inputs.

    All members, each step alone, and the answers are run. Which memory the C reads and writes does not depend on the
    input, except for look-ups in tables of 256 entries, so a few inputs suffice.
    """
    raw = random_inputs(sanitized.program.input, PROBES, 0)
    try:
        for member in range(len(sanitized.program.members)):
            values = sanitized.run(raw, member)
            for step in sanitized.layout.steps:
                sanitized.run_op(step.op.name, values[step.x.name], member)
        sanitized.answers(raw)
        sanitized.answers(raw, stop=True)
    except BlrcError:
        return False  # the comparison will come upon it again, and report it
    return True


def lacking_sanitizers() -> str | None:
    """Return why the host's compiler cannot link a program with sanitizers, or None if it can.

    A package may be missing, for example.
    """
    with TemporaryDirectory(prefix="blrc-probe-") as folder:
        source = Path(folder) / "probe.c"
        source.write_text("int main(void) { return 0; }\n", encoding="ascii")
        try:
            compiler.run_tool(
                [*compiler.find_compiler(), *SANITIZE, str(source), "-o", str(source.with_suffix(""))], "probing"
            )
        except BlrcError as error:
            return str(error).splitlines()[-1]
    return None


def c_engine(
    built: Compiled | Native, label: str, limit: int | None, has_room: Callable[[str], bool] = lambda op: True
) -> Engine:
    """Return the engine that runs the compiled C, on whatever machine it was compiled for.

    Args:
        has_room: whether the machine has room to run the op of this name alone.
    """

    def alone(op: Op, x: NDArray[Any], member: int) -> NDArray[Any] | None:
        return None if isinstance(op, Encode) or not has_room(op.name) else built.run_op(op.name, x, member)

    def answer(raw: NDArray[Any]) -> tuple[Answer, None]:
        found = built.answers(raw)
        return Answer(found.label, found.log_p, found.mean, found.variance, found.members), None

    def predict(raw: NDArray[Any], confidence: int) -> Answers:
        return built.answers(raw, stop=True, confidence=confidence)

    settled = built.settled if isinstance(built, Compiled) else None
    return Engine(label, built.run, alone, answer, fuses_encode=True, limit=limit, predict=predict, settled=settled)


def onnx_engine(model: bytes, program: Program) -> Engine:
    """Return the engine of the exported ONNX file.

    An instrumented copy gives every layer; the unchanged bytes give the answer and the scores.
    """
    from blrc.targets.onnx.session import OnnxRun, run_op  # optional packages

    runtime = OnnxRun(model, program)

    def run(raw: NDArray[Any], member: int) -> Arrays:
        return runtime.run(raw, member)

    def alone(op: Op, x: NDArray[Any], member: int) -> NDArray[Any]:
        return run_op(program, op, x, member=member, form=runtime.form)

    return Engine("onnxruntime", run, alone, runtime.classify)


def page_engine(folder: Path, program: Program) -> Engine:
    """Return the engine that runs the exported page's own scripts and module in Node."""

    def answer(raw: NDArray[Any]) -> tuple[Answer, None]:
        return node.answers(folder, program, raw), None

    return Engine("page, in Node", lambda raw, member: {}, lambda op, x, member: None, answer, layers=False)
