"""CIFAR-10 at full width on the device path: export, fit, verify. Writes docs/results/cifar10/full-width.json.

python benchmarks/full_width.py [--model FILE.pt]

Without a model its 13 million weights are random (they need no training to show that every integer agrees). Norms are
re-estimated on real images, and verification runs 200 other real images, both of examples/cifar10/test-1000.npz,
through the compiled C and the ONNX file. Then an ensemble of 5 likewise, with 50 images. Exit status 1 if anything
differs or could not be compared, or if the MAP network does not fit 2 MB of flash.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from budgets import random_weights
from numpy.typing import NDArray

import blrc
from blrc.datasets import jpeg
from blrc.nn import models
from blrc.reading import npz
from blrc.store.places import write_atomically
from blrc.training.data import CIFAR10
from blrc.version import VERSION

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "examples" / "cifar10" / "test-1000.npz"
RECORD = ROOT / "docs" / "results" / "cifar10" / "full-width.json"
FLASH = "2M"
VERIFIED = {"map": 200, "5": 50}
RANDOM = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a trained checkpoint")
    given = parser.parse_args().model
    arrays = npz.from_bytes(IMAGES.read_bytes())
    images, labels = jpeg.decode(arrays["jpeg"], arrays["offsets"]), arrays["labels"]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = given or folder / "random.pt"
        if given is None:
            save_random(model, images[max(VERIFIED.values()) :])
        for members, count in VERIFIED.items():
            options = {"flash": FLASH} if members == "map" else {}
            np.savez(folder / "test.npz", images=images[:count], labels=labels[:count])
            exported = blrc.export(model, folder=folder / members, members=members, name="cifar10", **options)
            report = blrc.verify(exported.folder, data=folder / "test.npz", random=RANDOM, progress=tell)
            found[members] = {
                "equal": report.equal,
                "images": count,
                "layers": len(report.layers),
                "values": report.values_compared,
                "difference": report.difference,
                "skipped": list(report.skipped),
                "flash": report.flash,
                "arena": report.ram,
                "onnx": (exported.folder / "cifar10.onnx").stat().st_size,
            }
            print(members, json.dumps(found[members]), flush=True)
            write(found, given)  # what is known, as the ensemble takes long
    fits = found["map"]["flash"] is not None and found["map"]["flash"] <= 2 * 1024 * 1024
    return 0 if fits and all(row["equal"] and not row["skipped"] for row in found.values()) else 1


def write(found: Mapping[str, Any], given: Path | None) -> None:
    content = {
        "command": "python benchmarks/full_width.py" + (f" --model {given.name}" if given else ""),
        "date": datetime.date.today().isoformat(),
        "weights": "trained" if given else "random",
        "versions": {"blrc": VERSION, "torch": torch.__version__},
        "members": found,
    }
    write_atomically(RECORD, (json.dumps(content, indent=1) + "\n").encode())


def save_random(path: Path, images: NDArray[np.uint8]) -> None:
    blrc.save(random_weights(models.cifar10()), path=path, input=CIFAR10, calibration=images, compact=True)


def tell(what: str, done: int, total: int) -> None:
    if done == total:
        print(f"{what}: {total}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
