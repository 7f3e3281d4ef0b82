"""Time and memory budgets: export, reference, verification, start-up. Exit status 1 if one is missed.

python benchmarks/budgets.py [--data DIR]

Commands run as a user runs them, each in a process of its own. Goals are for two idle cores; seconds are of the wall
clock, and those of the CPU stand beside them (where they differ much, others were using the machine).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.datasets import idx
from blrc.net.encoding import device_layout
from blrc.nn import models
from blrc.program import program_file, reference

EXAMPLE = Path(__file__).parents[1] / "examples" / "mnist"
TARGETS = ("--target", "c", "--target", "onnx")


@dataclass(frozen=True)
class Figure:
    """What was measured, and the goal."""

    what: str
    value: float
    goal: float
    unit: str
    note: str = ""

    @property
    def met(self) -> bool:
        return self.value < self.goal

    def __str__(self) -> str:
        verdict = "met" if self.met else "MISSED"
        return f"{self.what:<46}{self.goal:>8g}{self.value:>9.2f} {self.unit:<3} {verdict:<7}{self.note}"


def command(what: str, seconds: float, *arguments: str | Path, gigabytes: float | None = None) -> list[Figure]:
    """Run ``blrc ARGUMENTS`` and measure it."""
    line = [sys.executable, "-m", "blrc", *map(str, arguments)]
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        with subprocess.Popen(line, stdout=said, stderr=said) as process:
            # wait4 tells the resources of this child alone.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        elapsed = time.perf_counter() - start
        if process.returncode != 0:
            said.seek(0)
            raise SystemExit(f"{' '.join(line)}: exit status {process.returncode}\n{said.read().decode()}")
    figures = [Figure(what, elapsed, seconds, "s", f"CPU {usage.ru_utime + usage.ru_stime:.1f} s")]
    if gigabytes is not None:
        peak = usage.ru_maxrss / 2**20 if sys.platform != "darwin" else usage.ru_maxrss / 2**30
        figures.append(Figure(f"{what}: peak memory", peak, gigabytes, "GB"))
    return figures


def random_weights(model: nn.Module) -> nn.Module:
    """Weights as uncertain as trained ones."""
    torch.manual_seed(0)
    for weights in bnn.distributions(model):
        for logits in weights.parameters():
            logits.data = 2 * torch.randn(logits.shape)
    return model


def save_mnist(path: Path, images: NDArray[np.uint8]) -> None:
    """The shipped network, or one with random weights where there is none."""
    shipped = EXAMPLE / "mnist.pt"
    if shipped.is_file():
        path.write_bytes(shipped.read_bytes())
        return
    encoding = blrc.pixels((1, 28, 28), mean=[0.1307], std=[0.3081])
    blrc.save(random_weights(models.mnist()), path=path, input=encoding, calibration=images[:2560], compact=True)


def save_cifar10(path: Path) -> None:
    """The CIFAR-10 network at full width: random weights, 1,000 random images."""
    images = np.random.default_rng(0).integers(0, 256, (1000, 3, 32, 32)).astype(np.uint8)
    encoding = blrc.pixels((3, 32, 32), mean=[0.4914, 0.4822, 0.4465], std=[0.2470, 0.2435, 0.2616])
    blrc.save(random_weights(models.cifar10()), path=path, input=encoding, calibration=images, compact=True)


def reference_of(program: Path, images: NDArray[np.uint8]) -> Figure:
    """Scores of all images by the reference."""
    loaded = program_file.load(program)
    raw = device_layout(images)
    start, cpu = time.perf_counter(), time.process_time()
    reference.scores(loaded, raw)
    note = f"CPU {time.process_time() - cpu:.1f} s"
    return Figure(f"reference, MNIST, {len(images):,} images", time.perf_counter() - start, 10, "s", note)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=EXAMPLE / "data", help="Folder with MNIST's test files.")
    data = parser.parse_args().data
    images = idx.mnist(data, train=False).images
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        mnist, cifar10 = folder / "mnist.pt", folder / "cifar10.pt"
        save_mnist(mnist, images)
        save_cifar10(cifar10)
        print(f"{'':<46}{'goal':>8}{'figure':>9}")
        figures: list[Figure] = []

        def add(*more: Figure) -> None:
            figures.extend(more)
            print(*more, sep="\n", flush=True)

        add(*command("blrc --help", 1, "--help"))
        add(*command("export, MNIST", 10, "export", mnist, *TARGETS, "-o", folder / "mnist"))
        add(reference_of(folder / "mnist" / "mnist.program.npz", images))
        name = "export, CIFAR-10 at full width"
        add(*command(name, 60, "export", cifar10, *TARGETS, "-o", folder / "cifar10", gigabytes=3))
        verify = ("verify", folder / "mnist", "--data", data, "--checkpoint", mnist)
        add(*command("verify, MNIST, 10,000 test and random images", 60, *verify))
        add(*command("verify, CIFAR-10 at full width", 300, "verify", folder / "cifar10"))
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
