"""A copy of `examples/firmware` that tests build and run, and what `NAME_predict` gives by the reference."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blrc.program import head, program_file, reference
from blrc.program.program import Program

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = EXAMPLES / "firmware"
SHIPPED = EXAMPLES / "mnist" / "mnist.pt"
NUMBER = 92  # of the recorded digit in the test set
MEMORY = {  # start and bytes of flash and RAM, as the chips' manuals have them
    "stm32f405": ((0x08000000, 1 << 20), (0x20000000, 128 << 10)),
    "microbit": ((0, 256 << 10), (0x20000000, 16 << 10)),
    "mps2-an386": ((0, 4 << 20), (0x20000000, 4 << 20)),
    "stm32h743": ((0x08000000, 2 << 20), (0x20000000, 128 << 10)),
    "nrf52840": ((0, 1 << 20), (0x20000000, 256 << 10)),
}
EMULATED = ("stm32f405", "microbit", "mps2-an386")


@dataclass(frozen=True)
class Project:
    """A copy of the example. Paths in its build folder are as its Makefile says."""

    folder: Path
    blrc: str = f"{sys.executable} -m blrc"

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        given = any(argument.startswith("NETWORK=") for argument in arguments)
        network = [] if given else [f"NETWORK={SHIPPED}"]
        command = ["make", *arguments, f"BLRC={self.blrc}", *network]
        return subprocess.run(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
        )

    def program(self, members: str) -> Program:
        return program_file.load(self.folder / "build" / f"model-{members}" / "mnist.program.npz")

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))


def copied(folder: Path) -> Project:
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("build"))
    return Project(folder)


def predicted(program: Program, image: NDArray[np.generic]) -> tuple[head.Sums, head.Answer]:
    """What NAME_predict does: members, until the rest cannot change the label."""
    count = len(program.members)
    sums = head.Sums.start(1, program.classes)
    while sums.members < count and not (sums.members and sums.settled(count - sums.members)[0]):
        scores = reference.run(program, image, sums.members)[program.output.name][:, 0, 0, :]
        sums = sums.add(scores, head.scale_of(program.score_scale))
    return sums, sums.answer()
