"""Run a machine's program here: give it what it reads, return what it writes, and count its instructions."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blrc.errors import BlrcError
from blrc.targets.c.build import compiler
from blrc.targets.c.build.compiled import temporary_files
from blrc.targets.c.machines.simavr import build_runner
from blrc.targets.c.machines.table import Machine
from blrc.targets.c.runtime_files import runtime_dir


class TimedOutError(BlrcError):
    """Report that a program did not end in the time that it was given."""


class Emulator:
    """Run a machine's programs, each in a folder of its own below `folder`, where the emulator's helpers lie, too.

    Args:
        machine: the machine that the programs are compiled for.
        folder: holds the folders of all runs, and the helpers that the emulator needs.
        timeout: seconds that one run may take.
    """

    def __init__(self, machine: Machine, folder: Path, timeout: float) -> None:
        self.machine = machine
        self._folder = folder
        self._timeout = timeout
        self._places: dict[str, str] = {}

    def run(self, binary: Path, data: bytes, what: str) -> bytes:
        """Return what the program writes when it reads `data`; `what` says in messages what it does there.

        Raises:
            TimedOutError: the program does not end.
            BlrcError: the program fails.
        """
        return self._run(binary, data, what, self.machine.run, "")

    def count(self, binary: Path, data: bytes) -> int:
        """Return the number of instructions that the program executes when it reads `data`.

        Raises:
            TimedOutError, BlrcError: as for `run`; or the emulator cannot count (QEMU without plugins).
        """
        with temporary_files(), tempfile.NamedTemporaryFile("r", dir=self._folder, suffix=".count") as count:
            self._run(binary, data, "counting instructions", self.machine.count, count.name)
            counted = count.read().strip()
        if not counted.isdigit():
            raise BlrcError(f"{self.machine.name}: the emulator counted no instructions")
        return int(counted)

    def _run(self, binary: Path, data: bytes, what: str, words: tuple[str, ...], count: str) -> bytes:
        what = f"{self.machine.name}: running {binary.stem} ({what})"
        places = {**self._helpers(words), "{binary}": str(binary), "{count}": count}
        command = [_filled(word, places) for word in words]
        with temporary_files(), tempfile.TemporaryDirectory(dir=self._folder) as temporary:
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
                    raise TimedOutError(f"{what} did not finish in {self._timeout:.0f} s") from None
            if done.returncode != 0:
                report = compiler.first_lines(done.stderr.decode(errors="replace"))
                raise BlrcError(f"{what} failed (status {done.returncode}): {report or 'no message'}")
            return (folder / "out.bin").read_bytes()

    def _helpers(self, words: tuple[str, ...]) -> Mapping[str, str]:
        """Return the paths of the emulator's helpers, by their placeholders in a command.

        Helpers run on the host beside the emulator, or are loaded by it. They are compiled when first asked for.
        """
        text = " ".join(words)
        if "{plugin}" in text and "{plugin}" not in self._places:
            source, plugin = runtime_dir() / "machines" / "count_instructions.c", self._folder / "count.so"
            flags = ("-std=c99", "-O2", "-shared", "-fPIC")
            compiler.run_tool(
                [*compiler.find_compiler(), *flags, str(source), "-o", str(plugin)], f"compiling {source.name}"
            )
            self._places["{plugin}"] = str(plugin)
        if "{runner}" in text and "{runner}" not in self._places:
            self._places["{runner}"] = str(build_runner(self._folder))
        return self._places


def _filled(word: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        word = word.replace(key, value)
    return word
