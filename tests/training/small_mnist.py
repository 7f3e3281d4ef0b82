"""A small data set and a narrow network in the place of MNIST's, for runs end to end."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import torch

from blrc.nn import models


def small_mnist(
    flavour: models.Flavour = "blrnet", norm: bool = True, bits: int = 2, weights: str = "binary"
) -> torch.nn.Sequential:
    """The MNIST network with few channels: the same code in a fiftieth of the time."""
    return models._network(
        flavour, channels=1, size=28, blocks=((6,), (8,)), dense=(32,), norm=norm, bits=bits, weights=weights
    )


def write_images(folder: Path, count: int = 200) -> None:
    """Write `count` images of ten kinds: a bright row whose height is the label, on noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, count, dtype=np.uint8)
    images = rng.integers(0, 60, (count, 28, 28), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[2 * label + 4] = 255
    for name, array in (("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)):
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        (folder / name).write_bytes(header + array.tobytes())
