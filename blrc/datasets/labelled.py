"""Read labelled test data for an exported network, from a data set's folder or a user's own file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.datasets import idx, jpeg
from blrc.datasets.cifar import cifar10
from blrc.datasets.whitening import Whitening
from blrc.display import Brief
from blrc.errors import BlrcError
from blrc.net.elements import ELEMENTS
from blrc.net.encoding import device_layout
from blrc.program.program import Value
from blrc.reading import npz
from blrc.store.places import is_folder

MOST_LABELS = 1000
"""Classes of the data sets that folders hold, at most, where labels are not looked at."""
MOST_SAMPLES = 1 << 24
"""Samples of a file: 300 times MNIST's. Their labels take eight bytes each, whatever they take in the file."""


@dataclass(frozen=True, eq=False, repr=False)
class Labelled(Brief):
    """Hold samples ``raw`` in device layout ``(N, H, W, C)`` and their ``labels`` ``(N,)``."""

    raw: NDArray[Any]
    labels: NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Valued(Brief):
    """Hold samples ``raw`` in device layout ``(N, H, W, C)`` and their real ``values``, float64 ``(N, outputs)``.

    Data that were asked for without values has none, ``(N, 0)``.
    """

    raw: NDArray[Any]
    values: NDArray[np.float64]


def load_values(path: Path, value: Value, outputs: int | None, whitening: Whitening | None = None) -> Valued:
    """Read test data of a network that gives values.

    Args:
        path: as for `load`. The file has the array ``values``, real or whole numbers ``(N, outputs)``, or ``(N,)`` for
            one output, in place of ``labels``.
        outputs: how many values each sample has; None reads none, and takes folders as well.

    Raises:
        BlrcError: there is no such data, or it does not fit the network.
    """
    if path.suffix != ".npz" and outputs is None:
        return Valued(load(path, value, MOST_LABELS, whitening=whitening).raw, np.empty((0, 0)))
    if path.suffix != ".npz":
        raise BlrcError(f"{path}: of a network of values, give an .npz file with the arrays images and values")
    arrays = _arrays(path)
    images = arrays.get("images")
    if images is None:
        raise BlrcError(f"{path}: needs the array images, and values of what a network gives for them")
    raw = _fit(path, images, np.zeros(len(images), np.int64) if images.ndim else images, value, 1).raw
    if outputs is None:
        return Valued(raw, np.empty((len(raw), 0)))
    values = arrays.get("values")
    if values is None or values.dtype.kind not in "iuf" or values.size != len(raw) * outputs or len(values) != len(raw):
        found = "missing" if values is None else f"{values.dtype} {values.shape}"
        raise BlrcError(f"{path}: values are {found}; expected real numbers ({len(raw)}, {outputs})")
    real = values.reshape(len(raw), outputs).astype(np.float64)
    if not np.isfinite(real).all():
        raise BlrcError(f"{path}: value of sample {int(np.argwhere(~np.isfinite(real))[0, 0])} is NaN or infinite")
    return Valued(raw, real)


def load(
    path: Path, value: Value, classes: int, validation: bool = False, whitening: Whitening | None = None
) -> Labelled:
    """Read test data that fits the input `value`.

    Args:
        path: a folder with the test files of MNIST (for 28 x 28 uint8 input) or CIFAR-10 (for 32 x 32 x 3), or an
            ``.npz`` file with the arrays ``images``, ``(N, C, H, W)`` or ``(N, F)`` of the input's type, and
            ``labels``, ``(N,)``. For a flat input, images are flattened in this order. JPEG images may stand in place
            of ``images`` (`blrc.datasets.jpeg`).
        validation: read the last 5,000 training images of a folder instead, on which choices are made.
        whitening: the network's whitening, which CIFAR-10's images then go through.

    Raises:
        BlrcError: there is no such data, or it does not fit the network.
    """
    if validation and path.suffix == ".npz":
        raise BlrcError(f"{path}: --validation is for folders; give an .npz file of validation data as --data")
    if path.suffix == ".npz":
        images, labels = _read_npz(path, value)
    elif not is_folder(path):
        files = "training files" if validation else "test files"
        if path.is_file():
            raise BlrcError(f"{path}: is a file, but no .npz; give a folder with a data set's {files}, or such a file")
        raise BlrcError(f"{path}: no such folder; give one with a data set's {files}, or an .npz of images and labels")
    else:
        images, labels = _read_folder(path, value, validation, whitening)
    return _fit(path, images, labels, value, classes)


_READERS = {
    (28, 28, 1): idx.mnist,
    (1, 1, 28 * 28): idx.mnist,
    (32, 32, 3): cifar10,
    (1, 1, 32 * 32 * 3): cifar10,
}
"""Map the shape of a network's input to what reads a folder for it: images, or each as one vector (C, H, W)."""


def _read_folder(
    path: Path, value: Value, validation: bool, whitening: Whitening | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    read = _READERS.get(value.shape)
    if read is None or (value.dtype != "uint8" and whitening is None):
        remedy = "give an .npz file with the arrays images and labels"
        if value.dtype == "int8" and read is not None:
            remedy += ", or the checkpoint too if it holds a whitening"
        raise BlrcError(
            f"{path}: a folder is read as MNIST or CIFAR-10, "
            f"but this network takes {value.dtype} {value.shape}; {remedy}"
        )
    part = idx.split(read(path))[1] if validation else read(path, train=False)
    images = part.images if whitening is None else whitening.codes(part.images)
    return images, part.labels


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return npz.read(path, compressed=True)
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None
    except ValueError as error:
        raise BlrcError(f"{path}: cannot be read as .npz ({error}); write it with numpy.savez") from None


def _read_npz(path: Path, value: Value) -> tuple[NDArray[Any], NDArray[Any]]:
    arrays = _arrays(path)
    try:
        if "is_test" in arrays:
            raise BlrcError("holds training images, too (is_test); give a file with test images alone")
        if "jpeg" in arrays and "images" not in arrays:
            return jpeg.decode(arrays["jpeg"], arrays["offsets"], value.shape), arrays["labels"]
        return arrays["images"], arrays["labels"]
    except BlrcError as error:
        raise BlrcError(f"{path}: {error}") from None
    except KeyError as error:
        raise BlrcError(f"{path}: needs the arrays images and labels, or jpeg, offsets and labels ({error})") from None


def _fit(path: Path, images: NDArray[Any], labels: NDArray[Any], value: Value, classes: int) -> Labelled:
    if not len(images.shape) or not len(images):
        raise BlrcError(f"{path}: holds no images")
    if value.shape[:2] == (1, 1):
        images = images.reshape(len(images), -1)
    dimensions = (2, 3, 4) if value.shape[0] == 1 else (2, 4)  # (N, C, L) is a map of one row
    if images.ndim not in dimensions or images.dtype != ELEMENTS[value.dtype].given:
        white = value.dtype == "int8" and images.dtype == np.uint8
        remedy = (
            "; if it was trained on whitened images, give a folder of the data set, and its checkpoint" if white else ""
        )
        raise BlrcError(
            f"{path}: images are {images.dtype} {images.shape}; this network takes {value.dtype}, (N, C, H, W){remedy}"
        )
    raw = device_layout(images)
    if raw.shape[1:] != value.shape:
        raise BlrcError(f"{path}: images are {raw.shape[1:]} (H, W, C), but this network takes {value.shape}")
    if labels.shape != (len(images),) or labels.dtype.kind not in "iu":
        raise BlrcError(f"{path}: labels are {labels.dtype} {labels.shape}; expected integers ({len(images)},)")
    if len(labels) > MOST_SAMPLES:
        raise BlrcError(f"{path}: holds {len(labels):,} samples; at most {MOST_SAMPLES:,} are read")
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise BlrcError(
            f"{path}: labels go from {labels.min()} to {labels.max()}, but the network has {classes} classes"
        )
    if value.dtype == "bits" and int(raw.max()) > 1:
        raise BlrcError(f"{path}: bits must be 0 or 1, found {raw.max()}")
    return Labelled(raw.view(bool) if value.dtype == "bits" else raw, labels.astype(np.int64))
