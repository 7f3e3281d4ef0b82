"""Recorded vectors: inputs with every value that the reference computes for them; every target reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc import npz, reference
from blrc.errors import BlrcError
from blrc.pack import pack
from blrc.program import Program, Value


@dataclass(frozen=True, eq=False)
class Vectors:
    """Inputs in device layout ``(N, H, W, C)`` and, for each member, every value of the reference by name."""

    inputs: NDArray[Any]
    values: tuple[Mapping[str, NDArray[Any]], ...]


def record(program: Program, inputs: NDArray[Any]) -> Vectors:
    """Run the reference on `inputs` (device layout) for every member."""
    return Vectors(inputs, tuple(reference.run(program, inputs, m) for m in range(len(program.members))))


def memory(value: Value, maps: NDArray[Any]) -> NDArray[Any]:
    """A batch of one value as it lies in a device's memory: bits packed to uint32 ``(N, H, W, words)``."""
    return pack(maps) if value.dtype == "bits" else maps


def layer_digest(value: Value, maps: NDArray[Any]) -> NDArray[np.uint32]:
    """A hash of the elements of each sample: the digest that a device compares after each layer.

    It is taken over elements (a packed word, or an int8, uint8 or int32 value widened to 32 bits, in order), not over
    bytes, so it is the same on big- and little-endian machines. From h = 2166136261, for each element, mod 2^32::

        h = h xor element;   h = h xor (h >> 16);   h = h * 2654435761

    The shift brings high bits down, where the product spreads them: without it two words that both differ in bit 31
    (one channel at two positions) give the digest of what they should be.
    """
    elements = memory(value, maps).reshape(len(maps), -1).astype(np.int64).astype(np.uint32)
    state = np.full(len(maps), 2166136261, dtype=np.uint32)
    for column in elements.T:
        state = state ^ column
        state = (state ^ (state >> np.uint32(16))) * np.uint32(2654435761)
    return state


def to_bytes(program: Program, vectors: Vectors) -> bytes:
    """The vectors as an npz file: ``inputs`` in device layout, and for each member ``MEMBER/scores`` and, for every
    value, ``MEMBER/hash/VALUE``: the digests of its samples."""
    arrays: dict[str, NDArray[Any]] = {"inputs": vectors.inputs}
    for member, values in enumerate(vectors.values):
        arrays[f"{member}/scores"] = values[program.output.name][:, 0, 0, :]
        for op in program.ops:
            arrays[f"{member}/hash/{op.y.name}"] = layer_digest(op.y, values[op.y.name])
    return npz.to_bytes(arrays)


def differences(path: Path, program: Program) -> tuple[NDArray[Any], list[str]]:
    """The recorded inputs in a file, and where today's reference differs from what was recorded, in words.

    Raises:
        BlrcError: the file is missing, damaged, or of another program.
    """
    try:
        arrays = npz.read(path)
        _check_inputs(arrays["inputs"], program.input)
        now = record(program, arrays["inputs"])
        found = []
        for member, values in enumerate(now.values):
            for op in program.ops:
                recorded = arrays[f"{member}/hash/{op.y.name}"]
                if recorded.shape != (len(now.inputs),):
                    raise ValueError(f"digests of {op.name!r} have shape {recorded.shape}")
                wrong = np.flatnonzero(recorded != layer_digest(op.y, values[op.y.name]))
                if len(wrong):
                    found.append(
                        f"{path}: vector {wrong[0]}, member {program.members[member]!r}: op {op.name!r} differs"
                    )
            if not np.array_equal(arrays[f"{member}/scores"], values[program.output.name][:, 0, 0, :]):
                found.append(f"{path}: scores of member {program.members[member]!r} differ")
        return arrays["inputs"], found
    except Exception as error:  # zipfile, the npy header's parser and zlib raise almost anything on damaged bytes
        raise BlrcError(f"{path}: recorded vectors are missing or damaged ({error}); export again") from None


def _check_inputs(inputs: NDArray[Any], value: Value) -> None:
    dtype = np.dtype(bool if value.dtype == "bits" else value.dtype)
    if inputs.dtype != dtype or inputs.shape[1:] != value.shape or not len(inputs):
        raise ValueError(f"inputs are {inputs.dtype} {inputs.shape}, the program takes {value.dtype} {value.shape}")
