"""Write docs/networks.md: which public architectures compile, and what they take (a few minutes of one core).

    python tools/pages/networks.py

Each network of `architectures.py` is built with random weights, saved, and inspected as `blrc inspect` does. A test
builds them again and compares the page.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from architectures import ARCHITECTURES, Architecture

import blrc
from blrc.errors import BlrcError
from blrc.store.places import write_atomically

PAGE = Path(__file__).resolve().parents[2] / "docs" / "networks.md"
SAMPLES = 4  # for the norms, whose values change no size

HEAD = """\
# Which networks compile

<!-- Made by tools/pages/networks.py; a test compares. Edit tools/pages/architectures.py and run it again. -->

These are well-known architectures after their papers, at full size, built in plain PyTorch or in `blrc.nn` with random
weights ([the definitions](../tools/pages/architectures.py)). The page says whether `blrc.save` and `blrc inspect` take
them, and what they need on a Cortex-M4; no accuracy is stated. Networks that were trained by others, with their
accuracies, are on [another page](imported.md). To try a network of your own, see
[training and saving](guide/train.md) and [importing](import.md).
"""

COMPILED = """\
## They compile

| network | weights and activations | weights | flash (bytes) | arena (bytes) | kernels |
|---|---|---:|---:|---:|---|
"""

REFUSED = """\
## They do not, yet

Each is refused before anything is written, with the name of a layer and the reason. The reason below is the first one
that is met; a network may have others.

| network | weights and activations | what `blrc.save` says |
|---|---|---|
"""


def saved(architecture: Architecture, folder: Path, width: float = 1.0) -> Path:
    """Save the network with random weights, and return the checkpoint's path.

    Raises:
        BlrcError: the network has no binary form that blrc knows.
    """
    torch.manual_seed(0)
    channels = architecture.shape[0]
    encoding = blrc.pixels(architecture.shape, mean=[0.5] * channels, std=[0.25] * channels)
    samples = np.random.default_rng(0).integers(0, 256, (SAMPLES, *architecture.shape)).astype(np.uint8)
    path = folder / "network.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a first layer with padding rounds its pixels
        blrc.save(architecture.make(width).eval(), path=path, input=encoding, calibration=samples)
    return path


def row(architecture: Architecture, width: float = 1.0) -> tuple[bool, str]:
    """Return whether a network compiles, and its row in the page."""
    name = f"{architecture.title} ({architecture.source})"
    with tempfile.TemporaryDirectory(prefix="blrc-networks-") as folder:
        try:
            found = blrc.inspect(saved(architecture, Path(folder), width))
        except BlrcError as error:
            return False, f"| {name} | {architecture.kind} | {said(error)} |"
    kernels = ", ".join(f"`{kernel}`" for kernel in sorted({layer.kernel for layer in found.layers if layer.kernel}))
    sizes = f"{found.weights:,} | {found.flash_total:,} | {found.arena:,}"
    return True, f"| {name} | {architecture.kind} | {sizes} | {kernels} |"


def said(error: BlrcError) -> str:
    """Return a refusal without its advice and without lines of files, which change with them."""
    return re.sub(r" \(\w+\.py line \d+\)", "", str(error)).partition(";")[0].replace("|", "\\|")


def page(rows: Iterable[tuple[bool, str]]) -> str:
    """Return the page's text."""
    known = list(rows)
    taken, refused = ("".join(f"{text}\n" for taken, text in known if taken is which) for which in (True, False))
    return f"{HEAD}\n{COMPILED}{taken}\n{REFUSED}{refused}"


def main() -> None:
    found = []
    for count, architecture in enumerate(ARCHITECTURES):
        print(f"{architecture.title}: {count} of {len(ARCHITECTURES)}", flush=True)
        found.append(row(architecture))
    write_atomically(PAGE, page(found).encode())


if __name__ == "__main__":
    main()
