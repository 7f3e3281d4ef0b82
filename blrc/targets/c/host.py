"""Runs an exported folder on the host: compiles the shipped files unchanged, feeds them samples, reads every layer."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc import program_file
from blrc.errors import BlrcError
from blrc.pack import unpack, words
from blrc.program import Value
from blrc.targets.c import answers, build, driver
from blrc.targets.c.answers import Answers
from blrc.targets.c.layout import Step, lay_out
from blrc.targets.c.symbols import name_all
from blrc.vectors import memory

RUN_TIMEOUT = 600.0
BATCH_BYTES = 64 * 2**20

SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

# POSIX's clock is declared only on request where the compiler is told -std=c99.
_DRIVER_FLAGS = ("-D_POSIX_C_SOURCE=200809L",)


class HostBuild:
    """An export, compiled in a temporary folder that lives as long as this object (or its ``with`` block).

    Args:
        folder: of the export: the C and ``<name>.program.npz``.
        name: of the model.
        flags: of the compiler, also given to the linker.
        cc: the compiler, by default `build.find_compiler`'s.
        cplusplus: compile as C++11.
        runner: a command that runs the program, such as an emulator.
        timeout: seconds that one run may take.

    Raises:
        BlrcError: no compiler, a file of the export is missing, the code does not compile, or the disk of temporary
            files is full or read-only (also later, while it runs).
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
        self.folder = folder
        self.flags = tuple(flags)
        self.name = name
        self.program = program_file.load(folder / f"{self.name}.program.npz")
        self.layout = lay_out(self.program)
        self._runner = tuple(runner)
        self._timeout = timeout
        with _temporary_files():
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
        with _temporary_files():
            (self.build_folder / "driver_core.h").write_text(driver.core(symbols), encoding="ascii")
            main.write_text(driver.host_main(), encoding="ascii")
        # The driver includes <name>.c, which is therefore not compiled by itself.
        own = [source for source in build.sources(self.folder, self.name) if source.name != f"{self.name}.c"]

        def compile_one(source: Path) -> Path:
            flags = [*self.flags, *(_DRIVER_FLAGS if source == main else ())]
            out = self.build_folder / f"{source.stem}.o"
            return build.compile_object(compiler, flags, source, out, self.folder, cplusplus)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self.objects = list(pool.map(compile_one, [*own, main]))
        self._binary = build.link(compiler, self.flags, self.objects, self.build_folder / "driver")

    def run(self, raw: NDArray[Any], member: int = 0) -> dict[str, NDArray[Any]]:
        """All values of every sample, as `blrc.reference.run` gives them, and ``label`` (int32, ``(N,)``).

        Codes that are looked up where they are read exist nowhere in the C, so they are not here either.

        Args:
            raw: input in device layout, ``(N, H, W, C)``: uint8, int8, or booleans or 0/1 for a bits input.

        Raises:
            BlrcError: the program fails, hangs, or a sanitizer reports an error.
        """
        value = self.program.input
        maps = [step.y for step in self.layout.steps]
        record = sum(y.nbytes for y in maps) + 4
        output = self._batches("run", "0", member, value, raw, record)
        columns = np.split(output, np.cumsum([y.nbytes for y in maps]), axis=1)
        result = {value.name: raw.astype(bool) if value.dtype == "bits" else raw}
        result |= {y.name: self._decode(y, c) for y, c in zip(maps, columns, strict=False)}
        result["label"] = np.ascontiguousarray(columns[-1]).view(f"{self._order}i4").astype(np.int32).reshape(-1)
        return result

    def run_op(self, op: str, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        """One step alone on a batch of its input: for a convolution with fused encoding that is the raw input.

        Args:
            op: name of the program's op.
            x: ``(N, H, W, C)``, of the type of the step's input (`step(op).x`).

        Raises:
            BlrcError: there is no such step, or the program fails.
        """
        step = self.step(op)
        output = self._batches("op", str(self.layout.steps.index(step)), member, step.x, x, step.y.nbytes)
        return self._decode(step.y, output)

    def answers(
        self, raw: NDArray[Any], members: int | None = None, stop: bool = False, confidence: int = 0
    ) -> Answers:
        """What the members say together of every sample: all, or the first alone where the gate lets it.

        Args:
            raw: as for `run`.
            members: add the first so many, whatever the gate says.
            stop: let the model decide how many members each sample needs: none after the label is settled.
            confidence: with `stop`, in Q16: none after the label's mean probability has reached it either; 0 is off.

        Raises:
            BlrcError: as for `run`; more members than there are; or `members` with `stop`, which exclude each other.
        """
        if (members is not None and stop) or (confidence and not stop):
            raise BlrcError("answers: members cannot be given with stop, and confidence only with it")
        count = len(self.program.members) if members is None else members
        if not 1 <= count <= len(self.program.members):
            raise BlrcError(f"{self.name}: {count} members asked for, there are {len(self.program.members)}")
        mode, argument = ("predict", confidence) if stop else ("add", members or 0)
        size = answers.record(self.program.classes, self._order).itemsize
        output = self._batches(mode, str(argument), 0, self.program.input, raw, size)
        return answers.read(output, self.program.classes, self._order)

    def step(self, op: str) -> Step:
        """The step that computes `op`.

        Raises:
            BlrcError: there is none; a fused encoding has none of its own.
        """
        for step in self.layout.steps:
            if step.op.name == op:
                return step
        raise BlrcError(f"{self.name}: no step {op!r} in the C; there are {[s.op.name for s in self.layout.steps]}")

    def selftest(self) -> str:
        """Compile the opt-in self-test of the export with these flags, run it on the recorded inputs: what it prints.

        Raises:
            BlrcError: it does not compile, or it finds a difference; the message has what it printed.
        """
        compiler, flags = self._compiler, self.flags
        files = [*build.sources(self.folder, self.name)]
        files += [self.folder / f"{self.name}_{part}.c" for part in ("vectors", "selftest")]
        objects = [
            build.compile_object(compiler, flags, source, self.build_folder / f"test_{source.stem}.o", self.folder)
            for source in files
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
        """Bytes of code and constants, as this compiler makes them with these flags (``size``'s text).

        Of one network without the files that only ask for its certainty (``_ensemble``, ``_blrc_head``): a firmware
        that classifies does not link them from the library.
        """
        unlinked = [f"{self.name}_{part}.c" for part in ("ensemble", "blrc_head")]
        if len(self.program.members) > 1:
            unlinked = []
        objects = [
            build.compile_object(
                self._compiler, self.flags, source, self.build_folder / f"lib_{source.stem}.o", self.folder
            )
            for source in build.sources(self.folder, self.name)
            if source.name not in unlinked
        ]
        return sum(sizes.text + sizes.data for sizes in build.measure(objects).values())

    @property
    def ram(self) -> int:
        """Bytes of the arena."""
        return self.layout.arena_bytes

    def time(self, raw: NDArray[Any], repeats: int, member: int = 0) -> tuple[dict[str, float], float]:
        """CPU nanoseconds of the first sample, means over `repeats`: by op, and of the whole without a clock inside."""
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

    def _batches(
        self, mode: str, argument: str, member: int, value: Value, x: NDArray[Any], record: int
    ) -> NDArray[np.uint8]:
        if x.shape[1:] != value.shape:
            raise BlrcError(f"{self.name}: {value.name!r} has shape {x.shape[1:]}, expected {value.shape}")
        per_batch = max(1, BATCH_BYTES // (record + value.nbytes))
        parts = [np.empty((0, record), np.uint8)]
        for start in range(0, len(x), per_batch):
            part = x[start : start + per_batch]
            output = self._execute(mode, argument, member, self._encode(value, part))
            if len(output) != record * len(part):
                raise BlrcError(f"{self.name}: {len(output)} bytes for {len(part)} samples, expected {record} each")
            parts.append(np.frombuffer(output, np.uint8).reshape(len(part), record))
        return np.concatenate(parts)

    def _execute(self, mode: str, argument: str, member: int, data: bytes) -> bytes:
        inputs, outputs = self.build_folder / "in.bin", self.build_folder / "out.bin"
        with _temporary_files():
            inputs.write_bytes(data)
        self._start([mode, argument, str(member), str(inputs), str(outputs)])
        with _temporary_files():
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
        with _temporary_files():
            one = (self.build_folder / "out.bin").read_bytes()
        if one not in (b"\1\0\0\0", b"\0\0\0\1"):
            raise BlrcError(f"{self.name}: the compiled program has an unknown byte order {one.hex()}")
        return "<" if one[0] == 1 else ">"

    def _encode(self, value: Value, maps: NDArray[Any]) -> bytes:
        array = memory(value, maps)
        wanted = np.dtype(np.uint32) if value.dtype == "bits" else np.dtype(value.dtype)
        if array.dtype != wanted:
            raise BlrcError(f"{self.name}: {value.name!r} is {array.dtype}, expected {value.dtype}")
        return array.astype(wanted.newbyteorder(self._order)).tobytes()  # type: ignore[arg-type]

    def _decode(self, value: Value, data: NDArray[np.uint8]) -> NDArray[Any]:
        height, width, channels = value.shape
        dtype = np.dtype(np.uint32) if value.dtype == "bits" else np.dtype(value.dtype)
        flat = np.ascontiguousarray(data).view(dtype.newbyteorder(self._order)).astype(dtype)  # type: ignore[arg-type]
        if value.dtype != "bits":
            return flat.reshape(len(data), *value.shape)
        packed = flat.reshape(len(data), height, width, words(channels))
        everything = unpack(packed, words(channels) * 32)
        if everything[..., channels:].any():
            raise BlrcError(f"{self.name}: an unused bit of {value.name!r} is set")
        return everything[..., :channels]


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Around what reads and writes in the temporary folder: an error of the disk is the user's to mend."""
    try:
        yield
    except OSError as error:
        path = error.filename if error.filename is not None else "temporary files"
        reason = error.strerror or error
        raise BlrcError(f"{path}: {reason}; free space there, or set TMPDIR to another folder") from None
