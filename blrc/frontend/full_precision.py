"""Read and write full-precision networks in sealed files: baselines, which cannot be compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import REAL_FORMAT
from blrc.frontend.saving import write_sealed
from blrc.net.encoding import InputKind
from blrc.reading import sealed
from blrc.reading.schema import unknown_field

VERSION = 1


def save_real(model: nn.Module, path: str | Path, kind: InputKind = "uint8") -> None:
    """Write a full-precision network (`blrc.nn.models`, flavour ``fp``): a baseline, which cannot be compiled.

    Args:
        kind: kind of the network's input: ``uint8`` for pixels, ``int8`` for whitened codes.
    """
    content = {"format": REAL_FORMAT, "version": VERSION, "tensors": dict(model.state_dict()), "kind": kind}
    write_sealed(content, Path(path))


def load_real(path: str | Path) -> dict[str, torch.Tensor]:
    """Return the state_dict that `save_real` wrote.

    Raises:
        BlrcError: the file is of another kind, or damaged.
    """
    content = sealed.read(Path(path))
    if sealed.format_of(content) != REAL_FORMAT:
        raise BlrcError(f"{path}: not a full-precision network; make one with 'blrc train --model fp'")
    key = unknown_field(content, ("format", "version", "tensors", "kind"))
    if key is not None or type(content.get("version")) is not int or content["version"] != VERSION:
        other = "version" if key is None else f"field {key}"
        raise BlrcError(f"{path}: a full-precision network with a {other} that this blrc does not know; update blrc")
    tensors = content.get("tensors")
    if not isinstance(tensors, dict) or not all(isinstance(value, np.ndarray) for value in tensors.values()):
        raise BlrcError(f"{path}: not a full-precision network; make one with 'blrc train --model fp'")
    return {
        key: torch.from_numpy(np.array(value, value.dtype.newbyteorder("="), order="C"))
        for key, value in tensors.items()
    }


def real_kind(path: str | Path) -> InputKind:
    """Return the kind of input of the network that `save_real` wrote."""
    kind = sealed.read(Path(path)).get("kind", "uint8")  # files of before whitening do not say it
    if type(kind) is not str or kind not in ("uint8", "int8"):
        raise BlrcError(f"{path}: not a full-precision network; make one with 'blrc train --model fp'")
    return "uint8" if kind == "uint8" else "int8"
