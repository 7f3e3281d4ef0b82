"""Record vectors: inputs with every value that the reference computes for them. Every target is compared with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.bits import pack_planes, unpack_planes, words
from blrc.net.elements import ELEMENTS
from blrc.program import reference
from blrc.program.program import Program, Value
from blrc.reading import npz

MOST = 256
"""Recorded inputs: `blrc export` records eight; the reference runs all of them whenever the file is read."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """Hold what one member gives for the inputs, without the maps themselves, which would take far more memory.

    Attributes:
        digests: for each op's value by name, `layer_digest` of each sample, uint32 ``(N,)``.
        scores: int32 ``(N, classes)``.
    """

    digests: Mapping[str, NDArray[np.uint32]]
    scores: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Hold inputs in device layout ``(N, H, W, C)`` and, for each member, what the reference gives for them."""

    inputs: NDArray[Any]
    members: tuple[Recorded, ...]


def record(program: Program, inputs: NDArray[Any]) -> Vectors:
    """Run the reference on `inputs` (device layout) for every member."""
    return Vectors(inputs, tuple(_recorded(program, inputs, member) for member in range(len(program.members))))


def _recorded(program: Program, inputs: NDArray[Any], member: int) -> Recorded:
    found = _zeros(program, len(inputs))
    for where, part in reference.batches(program, inputs):
        maps = reference.trace(program, part, member)
        next(maps)  # the input itself
        for op, (_, value) in zip(program.ops, maps, strict=True):
            found.digests[op.y.name][where] = layer_digest(op.y, value)
            if op.y == program.output:
                found.scores[where] = value[:, 0, 0, :]
    return found


def unknown(program: Program, inputs: NDArray[Any]) -> Vectors:
    """Return vectors with zeros in place of the reference's values, for code that holds none of them."""
    return Vectors(inputs, (_zeros(program, len(inputs)),) * len(program.members))


def _zeros(program: Program, count: int) -> Recorded:
    digests = {op.y.name: np.zeros(count, np.uint32) for op in program.ops}
    return Recorded(digests, np.zeros((count, program.classes), np.int32))


def memory(value: Value, maps: NDArray[Any]) -> NDArray[Any]:
    """Return a batch of one value as it lies in a device's memory.

    Bits are packed to uint32 ``(N, H, W, words)``, and short codes to words for each of their bits, the lowest first.
    """
    return pack_planes(maps, value.element.planes) if value.element.planes else maps


def from_memory(value: Value, stored: NDArray[Any]) -> NDArray[Any]:
    """Undo `memory`.

    Raises:
        ValueError: an unused bit of a word is set.
    """
    element, (height, width, channels) = value.element, value.shape
    if not element.planes:
        return stored.reshape(len(stored), *value.shape)
    held = 32 * words(channels)
    found = unpack_planes(stored.reshape(len(stored), height, width, value.elements_of(channels)), held, element.planes)
    if found[..., channels:].any():
        raise ValueError(f"an unused bit of {value.name!r} is set")
    return found[..., :channels].astype(element.value)


def layer_digest(value: Value, maps: NDArray[Any]) -> NDArray[np.uint32]:
    """Hash the elements of each sample; a device compares this digest after each layer.

    It is taken over elements (a packed word, or an int8, uint8 or int32 value widened to 32 bits, in order), not over
    bytes, so it is the same on big- and little-endian machines. From h = 2166136261, for each element, mod 2^32::

        h = h xor element;   h = h xor (h >> 16);   h = h * 2654435761

    The shift brings high bits down, where the product spreads them. Without it, errors of bit 31 in two words (one
    channel at two positions) would cancel, and the digest would be that of the right values.
    """
    elements = memory(value, maps).reshape(len(maps), -1).astype(np.int64).astype(np.uint32)
    state = np.full(len(maps), 2166136261, dtype=np.uint32)
    for column in elements.T:
        state = state ^ column
        state = (state ^ (state >> np.uint32(16))) * np.uint32(2654435761)
    return state


def to_bytes(program: Program, vectors: Vectors) -> bytes:
    """Return the vectors as the content of an npz file.

    It holds ``inputs`` in device layout and, for each member, ``MEMBER/scores`` and, for every value,
    ``MEMBER/hash/VALUE``, the digests of its samples.
    """
    arrays: dict[str, NDArray[Any]] = {"inputs": vectors.inputs}
    for member, found in enumerate(vectors.members):
        arrays[f"{member}/scores"] = found.scores
        for op in program.ops:
            arrays[f"{member}/hash/{op.y.name}"] = found.digests[op.y.name]
    return npz.to_bytes(arrays)


def inputs_of(content: bytes, path: Path, program: Program) -> NDArray[Any]:
    """Return the recorded inputs in a file's content.

    Args:
        path: path of the file, for messages.

    Raises:
        BlrcError: the content is damaged, of another program, or holds more inputs than are ever recorded.
    """
    return _arrays(content, path, program)["inputs"]


def differences(content: bytes, path: Path, program: Program, now: Vectors) -> list[str]:
    """Return messages that say where today's reference differs from what was recorded.

    Args:
        content: content of the file.
        path: path of the file, for messages.
        now: what `record` gives for the file's inputs.

    Raises:
        BlrcError: the content is damaged, or of another program.
    """
    arrays = _arrays(content, path, program)
    found = []
    try:
        for member, right in enumerate(now.members):
            for op in program.ops:
                recorded = arrays[f"{member}/hash/{op.y.name}"]
                if recorded.shape != (len(now.inputs),):
                    raise ValueError(f"digests of {op.name!r} have shape {recorded.shape}")
                wrong = np.flatnonzero(recorded != right.digests[op.y.name])
                if len(wrong):
                    found.append(
                        f"{path}: vector {wrong[0]}, member {program.members[member]!r}: op {op.name!r} differs"
                    )
            if not np.array_equal(arrays[f"{member}/scores"], right.scores):
                found.append(f"{path}: scores of member {program.members[member]!r} differ")
    except (KeyError, ValueError) as error:
        raise _damaged(path, error) from None
    return found


def _arrays(content: bytes, path: Path, program: Program) -> dict[str, NDArray[Any]]:
    try:
        arrays = npz.from_bytes(content, len(content))
        _check_inputs(arrays["inputs"], program.input)
    except Exception as error:  # zipfile, the npy header's parser and zlib raise almost anything on damaged bytes
        raise _damaged(path, error) from None
    return arrays


def _damaged(path: Path, error: Exception) -> BlrcError:
    return BlrcError(f"{path}: recorded vectors are missing or damaged ({error}); export again")


def _check_inputs(inputs: NDArray[Any], value: Value) -> None:
    dtype = ELEMENTS[value.dtype].value
    if len(inputs) > MOST:
        raise ValueError(f"{len(inputs)} inputs; an export records {MOST} at most")
    if inputs.dtype != dtype or inputs.shape[1:] != value.shape or not len(inputs):
        raise ValueError(f"inputs are {inputs.dtype} {inputs.shape}, the program takes {value.dtype} {value.shape}")
