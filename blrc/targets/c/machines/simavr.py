"""Run firmware on a simulated AVR, with a small program around libsimavr."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from blrc.errors import BlrcError
from blrc.targets.c.build import compiler as build
from blrc.targets.c.runtime_files import runtime_dir

PACKAGES = "libsimavr-dev and libelf-dev"


@dataclass(frozen=True)
class SimAvr:
    """Run firmware on a microcontroller in simavr.

    Attributes:
        runner: the program that `build_runner` made.
        mcu: the microcontroller's name in simavr and avr-gcc.
    """

    runner: Path
    mcu: str = "atmega2560"

    def command(self, firmware: Path, source: Path, out: Path, count: Path | None = None) -> list[str]:
        """Return the command that runs `firmware` (ELF), which reads `source` and writes `out`.

        The file `count`, if given, receives the number of executed instructions, in decimal.
        """
        return [
            str(self.runner),
            self.mcu,
            *map(str, [firmware, source, out]),
            *([] if count is None else [str(count)]),
        ]

    def run(self, firmware: Path, data: bytes, folder: Path, timeout: float = 600.0) -> tuple[bytes, int]:
        """Return what the firmware writes when it reads `data`, and the number of instructions that it executed.

        Temporary files lie in `folder`.

        Raises:
            BlrcError: the firmware crashes, hangs, or ends with a status other than 0.
        """
        source, out, count = (folder / f"avr_{name}.bin" for name in ("in", "out", "count"))
        source.write_bytes(data)
        command = self.command(firmware, source, out, count)
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise BlrcError(f"{firmware.name} on {self.mcu}: did not finish in {timeout:.0f} s") from None
        if done.returncode != 0:
            said = build.first_lines(done.stderr.decode(errors="replace")) or "no message"
            raise BlrcError(f"{firmware.name} on {self.mcu}: status {done.returncode}: {said}")
        return out.read_bytes(), int(count.read_text(encoding="ascii"))


def build_runner(folder: Path, compiler: Sequence[str] | None = None) -> Path:
    """Compile the runner into `folder` with the host's C compiler, and return its path.

    Raises:
        BlrcError: there is no compiler, or no libsimavr.
    """
    compiler = compiler or build.find_compiler()
    source, out = runtime_dir() / "machines" / "avr_runner.c", folder / "avr_runner"
    try:
        build.run_tool([*compiler, "-O2", str(source), "-o", str(out), "-lsimavr", "-lelf"], "compiling avr_runner.c")
    except BlrcError as error:
        raise BlrcError(f"no simulated AVR: install {PACKAGES} ({error})") from None
    return out
