"""Run samples through an export that has been compiled for some machine, and read the values of every layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.program.program import Value
from blrc.program.vectors import from_memory, memory
from blrc.targets.c.build import answers, observed
from blrc.targets.c.build.answers import Answers
from blrc.targets.c.layout.layout import Step
from blrc.targets.c.text.header import read_layout

BATCH_BYTES = 64 * 2**20


class Compiled:
    """Define what every compiled export can do.

    Subclasses compile the export, set ``_order``, and define how the program is run (`_execute`).

    Args:
        folder: the export's folder, with the C and ``<name>.program.npz``.
        name: the model's name.
    """

    _order: str  # of bytes in a word: "<" or ">"

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.program = program_file.load(folder / f"{self.name}.program.npz")
        try:
            header = (folder / f"{name}.h").read_bytes()
        except OSError as error:
            raise BlrcError(f"{folder / f'{name}.h'}: cannot be read ({error}); export again") from None
        self.layout = read_layout(self.program, name, header)

    def _execute(self, mode: str, argument: str, member: int, data: bytes) -> bytes:
        """Run the program in a mode of the driver (`driver.host_main`) on samples in the program's memory layout."""
        raise NotImplementedError

    def run(self, raw: NDArray[Any], member: int = 0) -> dict[str, NDArray[Any]]:
        """Return all values of every sample, as `blrc.program.reference.run` does, and ``label`` (int32, ``(N,)``).

        A network of values has no labels.

        Codes that the C looks up as it reads them are never stored there, so the result does not have them either.

        Args:
            raw: input in device layout, ``(N, H, W, C)``: uint8, int8, or booleans or 0/1 for a bits input.

        Raises:
            BlrcError: the program fails, hangs, or a sanitizer reports an error.
        """
        value = self.program.input
        maps = [step.y for step in self.layout.steps]
        sizes = [*(y.nbytes for y in maps), 4]
        parts: list[list[NDArray[np.uint8]]] = [[np.empty((0, size), np.uint8)] for size in sizes]
        for output, count in self._outputs("run", "0", member, value, raw, sum(sizes)):
            for whole, found in zip(
                parts, observed.together(output, count, sizes, self._order, self.name), strict=True
            ):
                whole.append(found)
        *values, label = [np.concatenate(whole) for whole in parts]
        result = {value.name: raw.astype(bool) if value.dtype == "bits" else raw}
        result |= {y.name: self._decode(y, found) for y, found in zip(maps, values, strict=True)}
        if not self.program.values:
            result["label"] = np.ascontiguousarray(label).view(f"{self._order}i4").astype(np.int32).reshape(-1)
        return result

    def run_op(self, op: str, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        """Run one step alone on a batch of its input.

        The input of a convolution with fused encoding is the raw input.

        Args:
            op: name of the program's op.
            x: ``(N, H, W, C)``, of the type of the step's input (`step(op).x`).

        Raises:
            BlrcError: there is no such step, or the program fails.
        """
        step = self.step(op)
        output = self._batches("op", str(self.layout.steps.index(step)), member, step.x, x, step.y.nbytes)
        return self._decode(step.y, output)

    def answers(
        self, raw: NDArray[Any], members: int | None = None, stop: bool = False, confidence: int = 0
    ) -> Answers:
        """Return the joint answer of the members for every sample.

        By default all members are asked, or only the first where the program's gate allows it.

        Args:
            raw: as for `run`.
            members: how many members to ask, from the first on, whatever the gate says.
            stop: let the model ask no further members of a sample once its label is settled.
            confidence: with `stop`, in Q16: also stop once the label's mean probability has reached it; 0 turns this
                off.

        Raises:
            BlrcError: as for `run`; there are fewer members; `members` is given with `stop`, or `confidence` without
                it.
        """
        if (members is not None and stop) or (confidence and not stop):
            raise BlrcError("answers: members cannot be given with stop, and confidence only with it")
        count = len(self.program.members) if members is None else members
        if not 1 <= count <= len(self.program.members):
            raise BlrcError(f"{self.name}: {count} members asked for, there are {len(self.program.members)}")
        mode, argument = ("predict", confidence) if stop else ("add", members or 0)
        size = answers.record(self.program, self._order).itemsize
        output = self._batches(mode, str(argument), 0, self.program.input, raw, size)
        return answers.read(output, self.program, self._order)

    def settled(self, log_p: NDArray[Any], members: NDArray[Any]) -> NDArray[np.bool_]:
        """Return what ``NAME_is_final`` says of given sums of log p, as bool ``(N,)``.

        Args:
            log_p: sums of log p, ``(N, classes)``.
            members: how many members each row sums, ``(N,)``.

        Raises:
            BlrcError: the program fails, or answers with an error.
        """
        words = np.concatenate([np.asarray(members)[:, None], log_p], axis=1).astype(f"{self._order}i4")
        found = np.frombuffer(self._execute("settle", "0", 0, words.tobytes()), f"{self._order}i4")
        if len(found) != len(log_p) or ((found != 0) & (found != 1)).any():
            raise BlrcError(f"{self.name}: NAME_is_final of {len(log_p)} sums gave {found[:8].tolist()}")
        return np.asarray(found == 1)

    def step(self, op: str) -> Step:
        """Return the step that computes `op`.

        Raises:
            BlrcError: there is none, as for an encoding that is fused into a convolution.
        """
        return self.layout.step(op, self.name)

    @property
    def ram(self) -> int:
        """Return the bytes of the arena."""
        return self.layout.arena_bytes

    def _batches(
        self, mode: str, argument: str, member: int, value: Value, x: NDArray[Any], record: int
    ) -> NDArray[np.uint8]:
        parts = [np.empty((0, record), np.uint8)]
        for output, count in self._outputs(mode, argument, member, value, x, record):
            if len(output) != record * count:
                raise BlrcError(f"{self.name}: {len(output)} bytes for {count} samples, expected {record} each")
            parts.append(np.frombuffer(output, np.uint8).reshape(count, record))
        return np.concatenate(parts)

    def _outputs(
        self, mode: str, argument: str, member: int, value: Value, x: NDArray[Any], record: int
    ) -> Iterator[tuple[bytes, int]]:
        """Yield what the program writes for each batch, and the batch's number of samples.

        Args:
            record: about how many bytes the program writes for each sample.
        """
        if x.shape[1:] != value.shape:
            raise BlrcError(f"{self.name}: {value.name!r} has shape {x.shape[1:]}, expected {value.shape}")
        per_batch = max(1, BATCH_BYTES // (record + value.nbytes))
        for start in range(0, len(x), per_batch):
            part = x[start : start + per_batch]
            yield self._execute(mode, argument, member, self._encode(value, part)), len(part)

    def _encode(self, value: Value, maps: NDArray[Any]) -> bytes:
        array = memory(value, maps)
        wanted = value.element.stored
        if array.dtype != wanted:
            raise BlrcError(f"{self.name}: {value.name!r} is {array.dtype}, expected {value.dtype}")
        return array.astype(wanted.newbyteorder(self._order)).tobytes()  # type: ignore[arg-type]

    def _decode(self, value: Value, data: NDArray[np.uint8]) -> NDArray[Any]:
        dtype = value.element.stored
        flat = np.ascontiguousarray(data).view(dtype.newbyteorder(self._order)).astype(dtype)  # type: ignore[arg-type]
        try:
            return from_memory(value, flat.reshape(len(data), value.nbytes // dtype.itemsize))
        except ValueError as error:
            raise BlrcError(f"{self.name}: {error}") from None


@contextmanager
def temporary_files() -> Iterator[None]:
    """Turn an error of the disk into a `BlrcError` that names the file and tells the user what to do.

    It surrounds code that reads and writes in the temporary folder.
    """
    try:
        yield
    except OSError as error:
        path = error.filename if error.filename is not None else "temporary files"
        reason = error.strerror or error
        raise BlrcError(f"{path}: {reason}; free space there, or set TMPDIR to another folder") from None
