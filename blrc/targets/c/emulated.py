"""An exported folder on another processor: cross-compiled from the shipped files, run in an emulator."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc import program_file
from blrc.errors import BlrcError
from blrc.runtime_files import runtime_dir
from blrc.targets.c import build, callgraph, driver, driver_device, wasm_objects
from blrc.targets.c.compiled import Compiled, temporary_files
from blrc.targets.c.linker import linker_script
from blrc.targets.c.machines import Machine, Tool
from blrc.targets.c.simavr import build_runner
from blrc.targets.c.symbols import name_all

RUN_TIMEOUT = 600.0


class DoesNotFitError(BlrcError):
    """The model is larger than the machine's memory; the message has the numbers."""


def missing_tools(machine: Machine) -> list[Tool]:
    """What has to be installed before `machine` can be used."""
    return [tool for tool in machine.tools if not tool.found]


class EmulatedBuild(Compiled):
    """An export, compiled for a machine, in a temporary folder that lives as long as this object or its ``with`` block.

    Args:
        folder: of the export: the C and ``<name>.program.npz``.
        name: of the model.
        machine: one of `machines.MACHINES`.
        timeout: seconds that one run may take.

    Raises:
        DoesNotFitError: the model needs more memory than the machine has.
        BlrcError: a tool or a file is missing, the code does not compile, or (later, while it runs) the program fails.
    """

    def __init__(self, folder: Path, name: str, machine: Machine, timeout: float = RUN_TIMEOUT) -> None:
        super().__init__(folder, name)
        lacking = missing_tools(machine)
        if lacking:
            raise BlrcError(f"{machine.name}: {lacking[0].program} not found; install {lacking[0].package}")
        self.machine = machine
        self._order = machine.order
        self._timeout = timeout
        with temporary_files():
            self._temporary = tempfile.TemporaryDirectory(prefix=f"blrc-{machine.name}-")
        self.build_folder = Path(self._temporary.name)
        try:
            self._compile()
        except DoesNotFitError:
            self.close()
            raise
        except BlrcError:  # arrays of an AVR have 32,767 bytes at most: what is far too large does not compile
            self.close()
            self._check_size(sum(step.flash for step in self.layout.steps))
            raise
        except BaseException:
            self.close()
            raise

    def _compile(self) -> None:
        machine, name = self.machine, self.name
        symbols = name_all(self.layout, name, program_file.digest(self.program))
        main, selftest = self.build_folder / "device.c", self.build_folder / "device_selftest.c"
        with temporary_files():
            (self.build_folder / "driver_core.h").write_text(driver.core(symbols), encoding="ascii")
            main.write_text(driver_device.device_main(), encoding="ascii")
            selftest.write_text(driver_device.selftest_main(name), encoding="ascii")
            if machine.memory is not None:
                script = linker_script(machine.memory)
                (self.build_folder / "machine.ld").write_text(script, encoding="ascii")
        machines = runtime_dir() / "machines"
        library = build.sources(self.folder, name)
        others = [main, selftest, self.folder / f"{name}_vectors.c", *(machines / file for file in machine.sources)]

        def compile_one(source: Path) -> Path:
            measured = (callgraph.FLAG,) if machine.call_graph else ("-fstack-usage",)
            extra = measured if source in library else (f"-I{machines}", "-fno-builtin")
            out = self.build_folder / f"{source.stem}.o"
            return build.compile_object(machine.compiler, [*machine.flags, *extra], source, out, self.folder)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            *objects, device, test, vectors = pool.map(compile_one, [*library, *others[3:], *others[:3]])
        self._library, runtime = objects[: len(library)], objects[len(library) :]
        self._helpers = self._compile_helpers()
        self._check_size(self.flash)
        # The driver includes <name>.c, which is therefore not linked by itself.
        own = [path for path in self._library if path.stem != name]
        self._binary = self._link([device, *own, *runtime], "device.elf")
        self._selftest = self._link([test, vectors, *self._library, *runtime], "selftest.elf")

    def _compile_helpers(self) -> dict[str, str]:
        """What runs on the host beside the emulator, by its placeholder in the machine's commands."""
        words = " ".join((*self.machine.run, *self.machine.count))
        helpers = {}
        if "{plugin}" in words:
            source, plugin = runtime_dir() / "machines" / "count_instructions.c", self.build_folder / "count.so"
            flags = ("-std=c99", "-O2", "-shared", "-fPIC")
            build.run_tool([*build.find_compiler(), *flags, str(source), "-o", str(plugin)], f"compiling {source.name}")
            helpers["{plugin}"] = str(plugin)
        if "{runner}" in words:
            helpers["{runner}"] = str(build_runner(self.build_folder))
        return helpers

    def _check_size(self, flash: int) -> None:
        fits = self.machine.fits
        if fits is not None and (flash > fits[0] or self.ram > fits[1]):
            raise DoesNotFitError(
                f"{self.machine.title}: needs {flash:,} bytes of flash and {self.ram:,} of RAM beside the input; "
                f"there are {fits[0]:,} and {fits[1]:,}"
            )

    def _link(self, objects: Sequence[Path], out: str) -> Path:
        machine = self.machine
        script = () if machine.memory is None else (f"-T{self.build_folder / 'machine.ld'}",)
        binary = self.build_folder / out
        command = [*machine.compiler, *machine.flags, *script, *map(str, objects), *machine.link, "-o", str(binary)]
        try:
            build.run_tool(command, f"{machine.name}: linking {self.name}")
        except BlrcError as error:
            if re.search(r"overflowed by|will not fit in region|is not within region", str(error)):
                raise DoesNotFitError(f"{machine.title}: not with the test's own code and data ({error})") from None
            raise
        return binary

    @property
    def flash(self) -> int:
        """Bytes of code and constants of the library, `HostBuild.flash`."""
        unlinked = {f"{self.name}_{part}" for part in ("ensemble", "blrc_head")}
        if len(self.program.members) > 1:
            unlinked = set()
        objects = [path for path in self._library if path.stem not in unlinked]
        if self.machine.size is None:
            sizes = [wasm_objects.measure(path) for path in objects]
        else:
            sizes = list(build.measure(objects, self.machine.size).values())
        return sum(one.text + one.data for one in sizes)

    @property
    def stack(self) -> int:
        """A bound on the stack, in bytes, of ``NAME_classify``, or with several members of ``NAME_predict``.

        Without a call graph it is looser (`build.stack_bound`).
        """
        if self.machine.call_graph:
            graph = callgraph.read_call_graph(self.build_folder)
            call = "predict" if len(self.program.members) > 1 else "classify"
            return callgraph.deepest(graph, f"{self.name}_{call}", 0)
        return build.stack_bound(build.stack_usage(self.build_folder), self.name)

    @property
    def compiler(self) -> str:
        """The compiler and its version, in words."""
        first = build.run_tool([*self.machine.compiler, "--version"], "compiler version").splitlines()[0]
        return f"{first} {' '.join(self.machine.flags)}"

    def selftest(self) -> int:
        """What the export's own self-test returns on the machine: 0, or the number of the first step that differs."""
        output = self._emulate(self._selftest, b"", "self-test")
        if len(output) != 4:
            raise BlrcError(f"{self.machine.name}: the self-test of {self.name} wrote {len(output)} bytes, expected 4")
        return int(np.frombuffer(output, f"{self._order}i4")[0])

    def instructions(self, raw: NDArray[Any], member: int = 0) -> int | None:
        """Instructions of one classification of the first sample, exactly; None where the emulator cannot count."""
        if not self.machine.count:
            return None
        sample = self._encode(self.program.input, raw[:1])
        few, more = (self._count(self._header("repeat", repeats, member) + sample) for repeats in (1, 2))
        return more - few

    def step_instructions(self, raw: NDArray[Any], member: int = 0) -> dict[str, int] | None:
        """Instructions of each step alone on what it reads for the first sample, exactly, by the op's name.

        What `instructions` counts besides is what stands between them: the calls, the label, and row strips.

        Args:
            raw: as for `run`.

        Returns:
            None where the emulator cannot count.

        Raises:
            BlrcError: as for `run`.
        """
        if not self.machine.count:
            return None
        values, steps, counts = self.run(raw[:1], member), self.layout.steps, {}
        for i, step in enumerate(steps):
            sample = self._encode(step.x, values[step.x.name])
            once, twice = (self._count(self._header("repeat_op", i + k * len(steps), member) + sample) for k in (0, 1))
            counts[step.op.name] = twice - once
        return counts

    def close(self) -> None:
        """Remove the temporary folder."""
        self._temporary.cleanup()

    def __enter__(self) -> EmulatedBuild:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _header(self, mode: str, argument: int, member: int) -> bytes:
        return struct.pack(f"{self._order}3I", driver_device.MODES.index(mode), argument, member)

    def _execute(self, mode: str, argument: str, member: int, data: bytes) -> bytes:
        what = f"{mode} {argument}, member {member}"
        return self._emulate(self._binary, self._header(mode, int(argument), member) + data, what)

    def _count(self, data: bytes) -> int:
        with temporary_files(), tempfile.NamedTemporaryFile("r", dir=self.build_folder, suffix=".count") as count:
            self._emulate(self._binary, data, "counting instructions", count.name)
            return int(count.read())

    def _emulate(self, binary: Path, data: bytes, what: str, count: str = "") -> bytes:
        """Run `binary` on `data`: what it writes. `count` is a file for the number of instructions, if wanted."""
        what = f"{self.machine.name}: running {self.name} ({what})"
        places = {**self._helpers, "{binary}": str(binary), "{count}": count}
        command = [_filled(word, places) for word in (self.machine.count if count else self.machine.run)]
        with temporary_files(), tempfile.TemporaryDirectory(dir=self.build_folder) as temporary:
            folder = Path(temporary)
            (folder / "in.bin").write_bytes(data)
            with (folder / "in.bin").open("rb") as stdin, (folder / "out.bin").open("wb") as stdout:
                streams: tuple[Any, Any] = (subprocess.DEVNULL, subprocess.DEVNULL)
                if not self.machine.files:
                    streams = (stdin, stdout)
                try:
                    done = subprocess.run(
                        command,
                        cwd=folder,
                        stdin=streams[0],
                        stdout=streams[1],
                        stderr=subprocess.PIPE,
                        timeout=self._timeout,
                        check=False,
                    )
                except subprocess.TimeoutExpired:
                    raise BlrcError(f"{what} did not finish in {self._timeout:.0f} s") from None
            if done.returncode != 0:
                report = build.first_lines(done.stderr.decode(errors="replace"))
                raise BlrcError(f"{what} failed (status {done.returncode}): {report or 'no message'}")
            return (folder / "out.bin").read_bytes()


def _filled(word: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        word = word.replace(key, value)
    return word
