"""Prepare the data that a recipe trains on: read the data set, split it, and whiten it where the recipe says so."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from blrc.datasets import idx
from blrc.datasets import whitening as whiten
from blrc.datasets.cifar import cifar10
from blrc.datasets.idx import Dataset
from blrc.datasets.whitening import Whitening
from blrc.errors import BlrcError
from blrc.net import encoding as encode
from blrc.net.encoding import InputEncoding
from blrc.training.recipe import Recipe

MNIST = encode.pixels((1, 28, 28), mean=(0.1307,), std=(0.3081,))
CIFAR10 = encode.pixels((3, 32, 32), mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616))


@dataclass(frozen=True, eq=False)
class Prepared:
    """Hold the data in the form that the network takes.

    Attributes:
        training, validation: images and labels. The images are pixels, or whitened codes.
        encoding: input encoding of these images.
        whitening: transform from pixels to whitened codes, fitted on the training images; None without whitening.
        digest: SHA-256 of the images and labels as they are in the files.
    """

    training: Dataset
    validation: Dataset
    encoding: InputEncoding
    whitening: Whitening | None
    digest: str


def prepare(recipe: Recipe, folder: str | Path | None) -> Prepared:
    """Read a recipe's data set, split it, and whiten it where the recipe says so.

    Args:
        recipe: options of the run.
        folder: folder of the data set's files; None is the cache, to which absent files are downloaded.

    Raises:
        BlrcError: the data are not there, or are fewer than the recipe needs.
    """
    whole = idx.mnist(folder) if recipe.task == "mnist" else cifar10(folder)
    training, validation = idx.split(whole, recipe.validation)
    if recipe.model != "fp" and recipe.calibration > len(training):  # fp keeps no samples
        raise BlrcError(
            f"{folder or 'the data'}: only {len(training)} training samples beside {recipe.validation} for validation; "
            f"norms are re-estimated on {recipe.calibration} of them, so it takes "
            f"{recipe.calibration + recipe.validation} in all"
        )
    digest = _digest(training, validation)
    if not recipe.whiten:
        return Prepared(training, validation, MNIST if recipe.task == "mnist" else CIFAR10, None, digest)
    whitening = whiten.fit(training.images)
    parts = [Dataset(whitening.codes(part.images), part.labels) for part in (training, validation)]
    return Prepared(parts[0], parts[1], whitening.encoding, whitening, digest)


def _digest(*parts: Dataset) -> str:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.images.tobytes())
        sha.update(part.labels.tobytes())
    return sha.hexdigest()
