"""Run an exported folder on the host: compile the shipped files unchanged, feed them samples, read every layer."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build import driver
from blrc.targets.c.build.compiled import Compiled, temporary_files
from blrc.targets.c.kernels.tiers import tier_flags
from blrc.targets.c.text.symbols import name_all
from blrc.workers import thread_pool

RUN_TIMEOUT = 600.0

SANITIZE = ("-Og", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
"""Compile with the checks of sanitizers, whose messages then name lines. GCC 12 takes a third of the time of -O1 -g,
and what it makes runs a tenth longer."""

# POSIX's clock is declared only on request where the compiler is told -std=c99.
_DRIVER_FLAGS = ("-D_POSIX_C_SOURCE=200809L",)


class HostBuild(Compiled):
    """Compile an export for the host in a temporary folder, and run it there.

    The folder lives as long as this object or its ``with`` block.

    Args:
        folder: the export's folder, with the C and ``<name>.program.npz``.
        name: the model's name.
        flags: flags for the compiler, also given to the linker.
        cc: the compiler; by default the one that `blrc.targets.c.build.compiler.find_compiler` finds.
        cplusplus: compile as C++11.
        runner: a command that runs the program, such as an emulator.
        timeout: seconds that one run may take.

    Raises:
        BlrcError: there is no compiler, a file of the export is missing, the code does not compile, or the disk of
            temporary files is full or read-only (also later, while it runs).
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        flags: Sequence[str] = ("-O2",),
        cc: str | None = None,
        cplusplus: bool = False,
        runner: Sequence[str] = (),
        timeout: float = RUN_TIMEOUT,
    ) -> None:
        super().__init__(folder, name)
        self.flags = (*flags, *tier_flags(name, self.layout.cpu))
        self._runner = tuple(runner)
        self._timeout = timeout
        with temporary_files():
            self._temporary = tempfile.TemporaryDirectory(prefix="blrc-build-")
        self.build_folder = Path(self._temporary.name)
        try:
            self._compiler = build.find_compiler(cc)
            self._compile(self._compiler, cplusplus)
            self._order = self._byte_order()
        except BaseException:
            self.close()
            raise

    def _compile(self, compiler: tuple[str, ...], cplusplus: bool) -> None:
        symbols = name_all(self.layout, self.name, program_file.digest(self.program))
        main = self.build_folder / "driver.c"
        with temporary_files():
            (self.build_folder / "driver_core.h").write_text(driver.core(symbols), encoding="ascii")
            main.write_text(driver.host_main(), encoding="ascii")
        # The driver includes <name>.c, which is therefore not compiled by itself.
        own = [source for source in build.sources(self.folder, self.name) if source.name != f"{self.name}.c"]

        def compile_one(source: Path) -> Path:
            flags = [*self.flags, *(_DRIVER_FLAGS if source == main else ())]
            out = self.build_folder / f"{source.stem}.o"
            return build.compile_object(compiler, flags, source, out, self.folder, cplusplus)

        with thread_pool() as pool:
            self.objects = list(pool.map(compile_one, [*own, main]))
        self._binary = build.link(compiler, self.flags, self.objects, self.build_folder / "driver")

    def selftest(self) -> str:
        """Compile the export's self-test with these flags, run it on the recorded inputs, and return what it prints.

        Raises:
            BlrcError: it does not compile, or it finds a difference; the message holds what it printed.
        """
        compiler, flags = self._compiler, self.flags
        test = self.folder / f"{self.name}_selftest.c"
        main = (f"-D{self.name.upper()}_SELFTEST_MAIN",)
        objects = [
            build.compile_object(
                compiler,
                (*flags, *(main if source == test else ())),
                source,
                self.build_folder / f"test_{source.stem}.o",
                self.folder,
            )
            for source in [*build.sources(self.folder, self.name), test]
        ]
        binary = build.link(compiler, flags, objects, self.build_folder / "selftest")
        done = self._run([*self._runner, str(binary)], f"{self.name}_selftest")
        printed = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise BlrcError(
                f"{self.name}_selftest: {build.first_lines(printed + done.stderr.decode(errors='replace'))}"
            )
        return printed.strip()

    @property
    def flash(self) -> int:
        """Return the bytes of code and data (``size``'s text and data) that this compiler makes with these flags.

        A single network counts without the functions that say how certain it is.
        """
        objects = [
            build.compile_object(
                self._compiler, self.flags, source, self.build_folder / f"lib_{source.stem}.o", self.folder
            )
            for source in build.sources(self.folder, self.name)
        ]
        unlinked = build.certainty_bytes(objects, self.name) if len(self.program.members) == 1 else 0
        return sum(sizes.text + sizes.data for sizes in build.measure(objects).values()) - unlinked

    def time(self, raw: NDArray[Any], repeats: int, member: int = 0) -> tuple[dict[str, float], float]:
        """Return the mean CPU nanoseconds of the first sample over `repeats` runs: by op, and of the whole.

        The whole is timed in separate runs without a clock between the ops.
        """
        sample = self._encode(self.program.input, raw[:1])
        output = self._execute("time", str(repeats), member, sample)
        spent = np.frombuffer(output, dtype=f"{self._order}u8").astype(float) / repeats
        by_op = {step.op.name: float(ns) for step, ns in zip(self.layout.steps, spent, strict=False)}
        return by_op, float(spent[-1])

    def close(self) -> None:
        """Remove the temporary folder."""
        self._temporary.cleanup()

    def __enter__(self) -> HostBuild:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _execute(self, mode: str, argument: str, member: int, data: bytes) -> bytes:
        inputs, outputs = self.build_folder / "in.bin", self.build_folder / "out.bin"
        with temporary_files():
            inputs.write_bytes(data)
        self._start([mode, argument, str(member), str(inputs), str(outputs)])
        with temporary_files():
            return outputs.read_bytes()

    def _start(self, arguments: Sequence[str]) -> None:
        command = [*self._runner, str(self._binary), *arguments]
        what = f"{self.name}: running the C ({' '.join(self.flags)})"
        done = self._run(command, what)
        if done.returncode != 0:
            report = build.first_lines(done.stderr.decode(errors="replace"))
            raise BlrcError(f"{what} failed (status {done.returncode}): {report or 'no message'}")

    def _run(self, command: Sequence[str], what: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(command, capture_output=True, timeout=self._timeout, check=False)
        except subprocess.TimeoutExpired:
            raise BlrcError(f"{what} did not finish in {self._timeout:.0f} s") from None
        except OSError as error:
            raise BlrcError(f"{what}: cannot start {command[0]}: {error.strerror}") from None

    def _byte_order(self) -> str:
        self._start(["order", str(self.build_folder / "out.bin")])
        with temporary_files():
            one = (self.build_folder / "out.bin").read_bytes()
        if one not in (b"\1\0\0\0", b"\0\0\0\1"):
            raise BlrcError(f"{self.name}: the compiled program has an unknown byte order {one.hex()}")
        return "<" if one[0] == 1 else ">"
