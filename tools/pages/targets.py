"""The exported C on every machine: docs/targets.md.

python tools/pages/targets.py [--data DIR] [--no-page]

Exports the shipped MNIST network (its likeliest weights, and five members) and the small networks that
examples/own_network and examples/levels train, runs `blrc verify --on ... --strict` on each, and writes the page from
what that reports. Ends with status 1 unless every machine did what is expected of it: it is equal, on enough test
images, or the model is known not to fit it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from template import fill

from blrc.store.places import write_atomically
from blrc.verification.devices import parse_machines

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "targets.md"
MNIST = ROOT / "examples" / "mnist"


@dataclass(frozen=True)
class Subject:
    """A network that is verified.

    Attributes:
        title: of its table.
        make: the command that exports it.
        folder: of the export, in the work folder.
        data: its test set; relative to the work folder, or MNIST's.
        on: machines.
        too_large_for: those of them whose memory does not hold it; all others have to be equal.
    """

    title: str
    make: tuple[str, ...]
    folder: str
    data: str | None
    on: str
    too_large_for: tuple[str, ...] = ()

    @property
    def verify(self) -> tuple[str, ...]:
        """The command that verifies it, DATA standing for its test set."""
        return ("blrc", "verify", f"WORK/{self.folder}", "--data", "DATA", "--on", self.on, *OPTIONS)


OPTIONS = ("--random", "1000", "--strict")
TEST_IMAGES = 200  # that every machine has to be compared on
SLOW = {"avr": 20}

SUBJECTS = (
    Subject(
        "MNIST, the likeliest weights",
        ("blrc", "export", "examples/mnist/mnist.pt", "--target", "c", "-o", "WORK/map"),
        "map",
        None,
        "all",
    ),
    Subject(
        "MNIST, the likeliest weights, --optimize speed",
        ("blrc", "export", "examples/mnist/mnist.pt", "--optimize", "speed", "--target", "c", "-o", "WORK/speed"),
        "speed",
        None,
        "cortex-m0,cortex-m4,cortex-m55,rv32imc,rv32imc_zbb,aarch64,armv7,s390x,wasm",
    ),
    Subject(
        "MNIST, the likeliest weights, --cpu aarch64",
        ("blrc", "export", "examples/mnist/mnist.pt", "--cpu", "aarch64", "--target", "c", "-o", "WORK/host"),
        "host",
        None,
        "aarch64,armv7,s390x",
    ),
    Subject(
        "MNIST, five members",
        ("blrc", "export", "examples/mnist/mnist.pt", "--members", "5", "--target", "c", "-o", "WORK/five"),
        "five",
        None,
        "cortex-m0,cortex-m4,cortex-m55,rv32imc,aarch64,s390x,wasm",
        ("cortex-m0",),
    ),
    Subject(
        "A small network (examples/own_network)",
        ("python", "examples/own_network/own_network.py", "WORK/own"),
        "own/out",
        "own/test.npz",
        "cortex-m0,avr",
    ),
    Subject(
        "Activations of two bits (examples/levels)",
        ("python", "examples/levels/levels.py", "WORK/levels"),
        "levels/out",
        "levels/test.npz",
        "all",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=MNIST / "data", help="folder of MNIST's test set")
    parser.add_argument("--no-page", action="store_true", help="verify only")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="blrc-targets-") as work:
        for subject in SUBJECTS:
            print(f"== {subject.title}", file=sys.stderr, flush=True)
            run(subject.make, work)
            data = options.data if subject.data is None else Path(work) / subject.data
            command = (str(data) if word == "DATA" else word for word in subject.verify)
            text, ok = run((*command, "--json"), work, check=False)
            report = json.loads(text)
            for target in report["targets"]:
                print(target["name"], target["status"], target["detail"], flush=True)
            if wrong := complaints(subject, report, ok):
                sys.exit(f"{subject.title}: " + "; ".join(wrong))
            found.append((subject, report))
    if not options.no_page:
        write_atomically(PAGE, page(found).encode())
        print(f"wrote {PAGE.relative_to(ROOT)}")


def complaints(subject: Subject, report: Mapping[str, Any], ok: bool) -> list[str]:
    """What is not as expected in `blrc verify`'s report; `ok` is whether it ended with status 0."""
    wrong = [str(report["difference"] or report["problems"] or report["unchecked"])] if not ok else []
    targets = {target["name"]: target for target in report["targets"]}
    for name in parse_machines(subject.on):
        expected = "does not fit" if name in subject.too_large_for else "equal"
        target = targets.get(name)
        if target is None:
            wrong.append(f"{name}: nothing was reported, expected {expected}")
            continue
        if target["status"] != expected:
            wrong.append(f"{name}: {target['status']}, expected {expected} {target['detail']}".rstrip())
        images, least = target["sets"].get("test set", 0), SLOW.get(name, TEST_IMAGES)
        if expected == "equal" and images < least:
            wrong.append(f"{name}: compared on {images} test images, expected {least} or more")
    return wrong


def run(command: Sequence[str], work: str, check: bool = True) -> tuple[str, bool]:
    """Standard output of a command with our interpreter, and whether it ended well."""
    programs = {"blrc": [sys.executable, "-m", "blrc"], "python": [sys.executable]}
    words = [*programs[command[0]], *(word.replace("WORK", work) for word in command[1:])]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=check)
    return done.stdout, done.returncode == 0


def page(found: Sequence[tuple[Subject, Mapping[str, Any]]]) -> str:
    """Return the whole page. This machine's own row is left out: it differs from machine to machine."""
    everywhere = [target for _, report in found for target in report["targets"] if target["name"] != "host"]
    compilers = sorted({target["compiler"] for target in everywhere} - {None})
    return fill("targets.md.j2", TEST_IMAGES=TEST_IMAGES, SLOW=SLOW, found=found, shown=shown, compilers=compilers)


def shown(subject: Subject, command: Sequence[str]) -> str:
    """Return a command as the page shows it."""
    data = "examples/mnist/data" if subject.data is None else f"out/{subject.data}"
    return " ".join(command).replace("WORK", "out").replace("DATA", data)


if __name__ == "__main__":
    main()
