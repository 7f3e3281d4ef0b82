"""Run an exported folder on another processor: cross-compile the shipped files, and run them in an emulator."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.targets.c.build import callgraph, driver
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiled import Compiled, temporary_files
from blrc.targets.c.kernels.tiers import tier_flags
from blrc.targets.c.machines import driver_device, wasm_objects
from blrc.targets.c.machines.emulator import Emulator
from blrc.targets.c.machines.linker import linker_script, overflow
from blrc.targets.c.machines.table import Machine, Tool
from blrc.targets.c.runtime_files import runtime_dir
from blrc.targets.c.size.fit import DoesNotFitError, NoRoomToTestError, check_fit, needed
from blrc.targets.c.text.symbols import name_all
from blrc.workers import thread_pool

RUN_TIMEOUT = 600.0
RETURNS = 64  # bytes of return addresses, which are not in every compiler's frames


def missing_tools(machine: Machine) -> list[Tool]:
    """Return the tools that have to be installed before `machine` can be used."""
    return [tool for tool in machine.tools if not tool.found]


class EmulatedBuild(Compiled):
    """Compile an export for a machine in a temporary folder, and run it in an emulator.

    The folder lives as long as this object or its ``with`` block.

    Args:
        folder: the export's folder, with the C and ``<name>.program.npz``.
        name: the model's name.
        machine: one of `blrc.targets.c.machines.table.MACHINES`, or `host`'s.
        timeout: seconds that one run may take.

    Attributes:
        need: what the model needs of the machine's memory.
        no_room: what the machine has no room for, else empty. The model itself fits, but not together with the code
            that compares its layers, or with the recorded inputs of its self-test.

    Raises:
        DoesNotFitError: the model needs more memory than the machine has.
        BlrcError: a tool or a file is missing, the code does not compile, or (later, while it runs) the program fails.
    """

    def __init__(self, folder: Path, name: str, machine: Machine, timeout: float = RUN_TIMEOUT) -> None:
        super().__init__(folder, name)
        lacking = missing_tools(machine)
        if lacking:
            raise BlrcError(f"{machine.name}: {lacking[0].program} not found; install {lacking[0].package}")
        least = needed(self.layout)
        if machine.fits is not None and least.ram > machine.fits[1]:  # what is far too large does not even compile
            check_fit(least, machine.fits, machine.title)
        self.machine = machine
        self._flags = (*machine.flags, *tier_flags(name, self.layout.cpu))
        self._order = machine.order
        with temporary_files():
            self._temporary = tempfile.TemporaryDirectory(prefix=f"blrc-{machine.name}-")
        self.build_folder = Path(self._temporary.name)
        self._harness = self.build_folder / "harness"
        self._emulator = Emulator(machine, self.build_folder, timeout)
        self._steps: tuple[Path | None, int] | None = None
        self.no_room = ""
        try:
            self._compile()
        except (DoesNotFitError, NoRoomToTestError):
            self.close()
            raise
        except BlrcError:
            self.close()
            check_fit(least, machine.fits, machine.title)
            raise
        except BaseException:
            self.close()
            raise

    def _compile(self) -> None:
        machine, name = self.machine, self.name
        symbols = name_all(self.layout, name, program_file.digest(self.program))
        texts = {
            "driver_core.h": driver.core(symbols),
            "device.c": driver_device.whole_main(),
            "device_steps.c": driver_device.steps_main(),
            "device_selftest.c": driver_device.selftest_main(name),
        }
        with temporary_files():
            self._harness.mkdir()
            for file, content in texts.items():
                (self._harness / file).write_text(content, encoding="ascii")
        library = build.sources(self.folder, name)
        around = [runtime_dir() / "machines" / file for file in machine.sources]
        tests = [self._harness / "device.c", self._harness / "device_selftest.c", self.folder / f"{name}_selftest.c"]

        def compile_one(source: Path) -> Path:
            if source not in library:
                return self._compile_test(source)
            measured = callgraph.FLAG if machine.call_graph else "-fstack-usage"
            out = self.build_folder / f"{source.stem}.o"
            return build.compile_object(machine.compiler, [*self._flags, measured], source, out, self.folder)

        with thread_pool() as pool:
            device, selftest, vectors, *objects = pool.map(compile_one, [*tests, *library, *around])
        self._library, self._around = objects[: len(library)], objects[len(library) :]
        self.need = needed(self.layout, self.flash, self.stack)
        check_fit(self.need, machine.fits, machine.title)
        self._binary = self._selftest = None
        try:
            self._selftest = self._link([selftest, vectors, *self._library], "selftest")
        except NoRoomToTestError as error:
            self.no_room = str(error)
        try:
            self._binary = self._link([device, *self._own()], "device")
        except NoRoomToTestError as error:
            self.no_room = str(error)

    def _compile_test(self, source: Path, *flags: str) -> Path:
        """Compile one file of the code around the model."""
        extra = (f"-I{runtime_dir() / 'machines'}", f"-I{self._harness}", "-fno-builtin", "-fstack-usage", *flags)
        out = self._harness / f"{source.stem}.o"
        return build.compile_object(self.machine.compiler, [*self._flags, *extra], source, out, self.folder)

    def _own(self) -> list[Path]:
        """Return the library's objects without that of <name>.c, which the driver includes."""
        return [path for path in self._library if path.stem != self.name]

    def _link(self, objects: Sequence[Path], out: str) -> Path:
        """Link a program of the machine, with room for the stacks of the model and of the test.

        Raises:
            NoRoomToTestError: it is too large.
        """
        machine, binary = self.machine, self.build_folder / f"{out}.elf"
        objects, script = [*objects, *self._around], list[str]()
        stack = 0 if machine.fits is None else self._stack_of(objects)
        if machine.memory is not None:
            file = self._harness / f"{out}.ld"
            with temporary_files():
                file.write_text(linker_script(machine.memory, stack), encoding="ascii")
            script.append(f"-T{file}")
        command = [*machine.compiler, *machine.flags, *script, *map(str, objects), *machine.link, "-o", str(binary)]
        what = f"{machine.title}: the model fits, not together with what tests it there"
        try:
            build.run_tool(command, f"{machine.name}: linking {self.name}")
        except BlrcError as error:
            if (over := overflow(str(error))) is None:
                raise
            raise NoRoomToTestError(f"{what}: {over[0]} is {over[1]:,} bytes too small", *over) from None
        if machine.memory is None and machine.fits is not None and machine.size is not None:
            size = build.measure([binary], machine.size)[binary.name]
            used = {"FLASH": size.text + size.data, "RAM": size.data + size.bss + stack}
            for (region, nbytes), there in zip(used.items(), machine.fits, strict=True):
                if nbytes > there:
                    excess = nbytes - there
                    raise NoRoomToTestError(f"{what}: {region} is {excess:,} bytes too small", region, excess)
        return binary

    def _stack_of(self, objects: Sequence[Path]) -> int:
        """Return a program's stack in bytes, at most: the model's deepest call and all frames of the code around it."""
        frames = build.stack_usage(self._harness)
        test = {path.stem for path in objects if path.parent == self._harness}
        vectors = f"{self.name}_selftest"
        around = sum(
            nbytes
            for stem in test
            for function, nbytes in frames[stem].items()
            if stem == vectors or not function.startswith(f"{self.name}_")  # the driver includes the model
        )
        return self._stack("predict") + around + RETURNS

    @property
    def runs(self) -> bool:
        """Return whether there is room for the program that compares whole inferences, layer by layer."""
        return self._binary is not None

    def step_fits(self, op: str) -> bool:
        """Return whether the machine has room to run a step alone, with all that it reads and writes."""
        step = self.step(op)
        binary, room = self._for_steps()
        return binary is not None and _maps(step.x.nbytes, step.y.nbytes) <= room

    def _for_steps(self) -> tuple[Path | None, int]:
        """Return the program that runs steps alone, and the bytes that it has for maps.

        It is made when first asked for; None stands for a program that the machine has no room for.
        """
        if self._steps is None:
            room = max(_maps(step.x.nbytes, step.y.nbytes) for step in self.layout.steps)
            self._steps = (None, 0)
            while room > 0 and self._steps[0] is None:
                steps = self._compile_test(self._harness / "device_steps.c", f"-DDRIVER_ROOM={room}")
                try:
                    self._steps = (self._link([steps, *self._own()], "steps"), room)
                except NoRoomToTestError as error:
                    room = room - error.excess - 8 if error.region == "RAM" else 0
        return self._steps

    @property
    def flash(self) -> int:
        """Return the bytes of code and data of the library, as `HostBuild.flash` does.

        WebAssembly counts whole: its objects have one section for all functions.
        """
        if self.machine.size is None:
            return sum(one.text + one.data for one in map(wasm_objects.measure, self._library))
        sizes = build.measure(self._library, self.machine.size).values()
        nm = self.machine.size.replace("size", "nm")
        unlinked = build.certainty_bytes(self._library, self.name, nm) if len(self.program.members) == 1 else 0
        return sum(one.text + one.data for one in sizes) - unlinked

    @property
    def stack(self) -> int:
        """Return a bound on the stack, in bytes, of a call of the model.

        A single network counts the deeper of ``NAME_classify`` (of values ``NAME_values``) and ``NAME_predict``, an
        ensemble ``NAME_predict``.
        Without a call graph the bound is looser (`blrc.targets.c.build.compiler.stack_bound`).
        """
        single = "values" if self.program.values else "classify"
        calls = ("predict",) if len(self.program.members) > 1 else (single, "predict")
        return max(map(self._stack, calls))

    def _stack(self, call: str) -> int:
        if self.machine.call_graph:
            return callgraph.deepest(callgraph.read_call_graph(self.build_folder), f"{self.name}_{call}", 0)
        runtime = (self.folder / f"{self.name}_blrc.c").read_text(encoding="ascii")
        return build.stack_bound(build.stack_usage(self.build_folder), self.name, runtime)

    @property
    def compiler(self) -> str:
        """Return the compiler's name and version, and the flags."""
        first = build.run_tool([*self.machine.compiler, "--version"], "compiler version").splitlines()[0]
        return f"{first} {' '.join(self._flags)}"

    def selftest(self) -> int | None:
        """Run the export's own self-test on the machine and return its result.

        The result is 0, or the number of the first step that differs. It is None where the machine has no room for the
        test.
        """
        if self._selftest is None:
            return None
        output = self._emulator.run(self._selftest, b"", f"self-test of {self.name}")
        if len(output) != 4:
            raise BlrcError(f"{self.machine.name}: the self-test of {self.name} wrote {len(output)} bytes, expected 4")
        return int(np.frombuffer(output, f"{self._order}i4")[0])

    def instructions(self, raw: NDArray[Any], member: int = 0) -> int | None:
        """Return the exact instructions of classifying the first sample, or None where the emulator cannot count."""
        if not self.machine.count:
            return None
        sample = self._encode(self.program.input, raw[:1])
        few, more = (self._count("repeat", repeats, member, sample) for repeats in (1, 2))
        return more - few

    def step_instructions(self, raw: NDArray[Any], member: int = 0) -> dict[str, int] | None:
        """Return the exact number of instructions of each step alone for the first sample, by the op's name.

        `instructions` also counts what stands between the steps: the calls, the label, and row strips.

        `raw` and errors are as for `run`. It is None where the emulator cannot count.
        """
        if not self.machine.count:
            return None
        values, steps, counts = self.run(raw[:1], member), self.layout.steps, {}
        for i, step in enumerate(steps):
            sample = self._encode(step.x, values[step.x.name])
            once, twice = (self._count("repeat_op", i + k * len(steps), member, sample) for k in (0, 1))
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

    def _program(self, mode: str) -> Path:
        binary = self._for_steps()[0] if mode in driver_device.OF_STEPS else self._binary
        if binary is None:
            raise NoRoomToTestError(self.no_room or f"{self.machine.title}: no room for steps alone")
        return binary

    def _header(self, mode: str, argument: int, member: int) -> bytes:
        return struct.pack(f"{self._order}3I", driver_device.MODES.index(mode), argument, member)

    def _execute(self, mode: str, argument: str, member: int, data: bytes) -> bytes:
        what = f"{self.name}: {mode} {argument}, member {member}"
        return self._emulator.run(self._program(mode), self._header(mode, int(argument), member) + data, what)

    def _count(self, mode: str, argument: int, member: int, data: bytes) -> int:
        return self._emulator.count(self._program(mode), self._header(mode, argument, member) + data)


def _maps(x: int, y: int) -> int:
    """Return the bytes of two maps, one after the other; the second starts at a multiple of 4."""
    return (x + 3) // 4 * 4 + y
