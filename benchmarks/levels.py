"""What activations of a few bits cost on a Cortex-M4: instructions, flash and RAM of the paper's MNIST network.

python benchmarks/levels.py [--bits 2 4 8] [--on cortex-m4,cortex-m55] [--json FILE]

The first row is the network with signs. Weights are drawn at random, norms are measured on test images, and each step
is the one that rounds the activations of a network with ReLUs, real weights and the same norms with the least error, so
that codes are as sparse as in a trained network.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import blrc
from blrc import nn as bnn
from blrc.benchmark.run import bench
from blrc.datasets import idx
from blrc.nn import models
from blrc.store.atomic import write_atomically

IMAGES = 500
DATA = Path(__file__).parents[1] / "examples" / "mnist" / "data"
BITS = (2, 3, 4, 8)
MACHINES = "cortex-m4"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", nargs="*", type=int, default=BITS, help="of the activations, each from 1 to 8")
    parser.add_argument("--on", default=MACHINES, help="machines")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    arguments = parser.parse_args()
    found = measure(arguments.bits, arguments.on)
    for row in found:
        print(f"{row['machine']}, {row['name']}: {row['instructions']:,} instructions, {row['flash']:,} bytes of flash")
    if arguments.json is not None:
        write_atomically(arguments.json, (json.dumps(found, indent=1) + "\n").encode())


def measure(bits: Sequence[int] = BITS, on: str = MACHINES) -> list[dict[str, Any]]:
    """Count the network with signs and those with activations of so many bits on each machine."""
    found = []
    for number in (None, *bits):
        name = "signs" if number is None else f"{number} bits"
        with tempfile.TemporaryDirectory(prefix="blrc-levels-") as temporary:
            print(name, file=sys.stderr, flush=True)
            for device in bench(exported(Path(temporary), number), on=on, others=False)["devices"]:
                choice = device["choices"][0]
                found.append(
                    {
                        "name": name,
                        "machine": device["name"],
                        "steps": {step["what"]: step["instructions"] for step in device["steps"]},
                        **{key: choice[key] for key in ("instructions", "flash", "ram")},
                    }
                )
    return found


def exported(folder: Path, bits: int | None) -> Path:
    """Export the network, with random weights and with signs or codes of so many bits, and return its folder."""
    torch.manual_seed(0)
    images = idx.mnist(DATA, train=False).images[:IMAGES]
    encoding = blrc.pixels((1, 28, 28), mean=[0.1307], std=[0.3081])
    real = models.mnist("fp")
    model = models.mnist("blrnet") if bits is None else models.mnist("lrnet", bits=bits)
    x = torch.from_numpy(encoding.real(images))
    for module in real.modules():
        if isinstance(module, torch.nn.BatchNorm1d | torch.nn.BatchNorm2d):
            module.momentum = None  # the statistics of these images
    with torch.no_grad():
        real(x)
    bnn.transfer_(model, real)
    if bits is not None:
        bnn.choose_steps_(model, real.eval(), x)
    blrc.save(model, path=folder / "model.pt", input=encoding, calibration=images)
    blrc.export(folder / "model.pt", folder=folder / "out", targets=["c"])
    return folder / "out"


if __name__ == "__main__":
    main()
