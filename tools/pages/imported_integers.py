"""Networks whose weights and thresholds are given as integers, for docs/imported.md: BNN-PYNQ's."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import blrc

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "imported"))

import pynq  # noqa: E402

URL = "https://github.com/Xilinx/BNN-PYNQ"
AT_ONCE = 100
"""Images that the accelerator's arithmetic takes at once, which bounds the memory of its windows."""


@dataclass(frozen=True)
class Given:
    """A network of bnn/params.

    Attributes:
        folder: below bnn/params.
        data: which test images there are for it: ``mnist``, ``cifar10`` or none.
        published: its accuracy and who states it, if anybody does.
    """

    folder: str
    title: str
    data: str
    published: str

    @property
    def name(self) -> str:
        return self.folder.replace("/", "_").replace("-", "_").lower()


GIVEN = (
    Given("mnist/lfcW1A1", "LFC, MNIST", "mnist", "98.35 % (bnn/src/training/README.md)"),
    Given(
        "cifar10/cnvW1A1",
        "CNV, CIFAR-10",
        "cifar10",
        "79.22 % (notebooks/CNV-QNN_Cifar10_Testset.ipynb), on the original images",
    ),
    Given("chars_merged/lfcW1A1", "LFC, NIST's characters", "", ""),
    Given("streetview/cnvW1A1", "CNV, street view house numbers", "", ""),
    Given("road-signs/cnvW1A1", "CNV, German road signs", "", "96.63 % (bnn/src/training/README.md)"),
)


def integer_rows(files: Path, data: dict[str, Path], work: Path, machine: str, random: int) -> list[dict[str, Any]]:
    """Compare each network of which the images can be had, or that needs none, with the accelerator's arithmetic."""
    clone = files / "BNN-PYNQ"
    if not clone.exists():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", URL, clone], check=True)
    return [
        _row(given, clone / "bnn" / "params" / given.folder, data, work, machine, random)
        for given in GIVEN
        if not given.data or given.data in data
    ]


def _row(given: Given, folder: Path, data: dict[str, Path], work: Path, machine: str, random: int) -> dict[str, Any]:
    layers = pynq.read(folder)
    model, encoding = pynq.build(layers)
    checkpoint, out = work / f"{given.name}.pt", work / given.name
    blrc.save(model, path=checkpoint, input=encoding)
    blrc.export(checkpoint, folder=out, name=given.name)
    report = blrc.verify(out, random=random, on=machine)
    print(report, flush=True)
    shape = (encoding.shape[0], 32, 32) if layers[0].shape.kernel else (1, 28, 28)
    images = np.random.default_rng(0).integers(0, 256, (random, *shape), dtype=np.uint8)
    accuracy = None
    with blrc.compile(out) as net:
        labels = np.zeros(0, dtype=np.int64)
        if given.data:
            read = blrc.datasets.mnist if given.data == "mnist" else blrc.datasets.cifar10
            test = read(data[given.data], train=False)
            images, labels = np.concatenate([test.images, images]), test.labels
        ours = net(images.reshape(len(images), *encoding.shape), order="NCHW")
    theirs = np.concatenate(
        [pynq.accelerator(layers, images[i : i + AT_ONCE]).argmax(1) for i in range(0, len(images), AT_ONCE)]
    )
    if given.data:
        accuracy = [100 * float(np.mean(each[: len(labels)] == labels)) for each in (theirs, ours)]
    device = report.devices[0]
    differ = int(np.count_nonzero(theirs != ours))
    print(f"{given.title}: {differ} of {len(images)} labels differ; accuracy {accuracy}", flush=True)
    return {
        "title": given.title,
        "folder": given.folder,
        "name": given.name,
        "published": given.published,
        "accuracy": accuracy,
        "labels": differ,
        "compared": len(images),
        "weights": sum(layer.bits.size for layer in layers),
        "flash": device.flash,
        "ram": device.ram,
        "stack": device.stack,
        "instructions": device.instructions,
        "passed": report.verdict == "yes" and not differ,
    }
