"""Two small models as packages, and what their examples must print."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from random_networks import checkpoint_of
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import Exported
from blrc.net.encoding import device_layout
from blrc.program import head, reference

ALL = ("cmake", "arduino", "platformio", "zephyr", "esp-idf")


@dataclass(frozen=True, eq=False)
class Package:
    """An exported model, and the label that it gives its recorded image."""

    exported: Exported
    image: np.ndarray

    @property
    def name(self) -> str:
        return self.exported.manifest.name

    def folder(self, package: str) -> Path:
        return self.exported.folder / package / self.name

    def answer(self) -> head.Answer:
        """What predict says of the recorded image, by the reference and the head's sums."""
        program = self.exported.program
        count = len(program.members)
        sums = head.Sums.start(1, program.classes)
        while sums.members < count and not (sums.members and sums.settled(count - sums.members)[0]):
            scores = reference.run(program, self.image, sums.members)[program.output.name][:, 0, 0, :]
            sums = sums.add(scores, head.scale_of(program.score_scale))
        return sums.answer()

    def expected(self) -> list[str]:
        """The first two lines of every example: label and certainty."""
        answer, count = self.answer(), len(self.exported.program.members)
        hundredths = int(Fraction(int(answer.mean[0]), 65536) * 10000 + Fraction(1, 2))
        millionths = int(Fraction(int(answer.variance[0]), 2**32) * 10**6)
        return [
            f"label: {answer.label[0]} (as recorded)",
            f"certainty: {hundredths // 100}.{hundredths % 100:02} %, variance 0.{millionths:06}, "
            f"members asked: {answer.members[0]} of {count}",
        ]


def export_package(
    folder: Path, name: str, kind: str = "uint8", members: str = "map", classes: int = 5, seed: int = 0
) -> Package:
    """A random network of one convolution on 12 x 12 inputs as every package."""
    model = nn.Sequential(
        bnn.BinaryConv2d(1, 8, 3, padding="same"),
        bnn.StochasticBatchNorm2d(8),
        bnn.StochasticMaxPool2d(3),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(8 * 4 * 4, classes),
    )
    checkpoint = checkpoint_of(model, kind, (1, 12, 12), seed)
    assert checkpoint.calibration is not None
    exported = blrc.export(checkpoint, folder=folder, targets="c", members=members, seed=seed, name=name, packages=ALL)
    image = device_layout(checkpoint.calibration[:1])
    return Package(exported, image.astype(bool) if kind == "bits" else image)


def check_lines(printed: str, package: Package) -> None:
    """An example printed label, certainty and a time, and they are the reference's."""
    lines = printed.splitlines()
    assert lines[:2] == package.expected()
    label, number, unit = lines[2].split()
    assert (label, unit) == ("time:", "us")
    assert number.isdecimal()


def run(command: Sequence[str | Path], where: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """What a program prints; where it fails, the test does, with all that it said."""
    done = subprocess.run(list(map(str, command)), cwd=where, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def read_yaml(packagers: Path, path: Path) -> Any:
    """A YAML file, read by a reader that the packagers' environment has, as of YAML 1.1, where `no` is a boolean."""
    script = (
        "import json, sys; from ruamel.yaml import YAML; yaml = YAML(typ='safe'); yaml.version = (1, 1)\n"
        "print(json.dumps(yaml.load(sys.stdin)))"
    )
    done = subprocess.run(
        [packagers / "python", "-c", script], input=path.read_text(), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files(folder)}


def files(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
