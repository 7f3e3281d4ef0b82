"""Call the generated C on NumPy arrays, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blrc.datasets.whitening import Whitening
from blrc.errors import BlrcError
from blrc.program.program import Program, Value
from blrc.targets.c.build.answers import Answers
from blrc.targets.c.layout.layout import Step
from blrc.targets.c.native.calls import Arguments, Calls, Work, address, checked
from blrc.targets.c.native.library import Shared
from blrc.targets.c.text.header import read_layout
from blrc.workers import usable_cpus

Order = Literal["NHWC", "NCHW"]


class Native:
    """Run a network or ensemble that is compiled for this machine: ``native(images)`` gives labels, or real values.

    Inputs are batches in device layout, ``(N, H, W, C)``: uint8 or int8 as the program takes them, booleans (or uint8
    of 0 and 1) for bits. C-contiguous arrays are read where they lie; other arrays are copied part by part. Any number
    of threads may call one object.

    Attributes:
        name, program, layout: the model's name, program and memory layout.
        built: whether the C was compiled now; otherwise it was in the cache.

    Args:
        files: the model's C, as `blrc.targets.c.native.library.library_files` gives it or as it lies in an export.
        threads: at most so many threads share the samples of a call; by default, as many as this process may use CPUs.
        flags: flags for the compiler, such as macros; by default `host_flags`, which give fast code for this machine.
        cc: the compiler; by default ``$CC``, cc, gcc or clang.
        slots: whether the files are those of `blrc.targets.c.native.slots.Slots`.
        whitening: the whitening of a network that takes whitened codes; it is applied to uint8 images first.

    Raises:
        BlrcError: there is no compiler, or it refuses the code.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        name: str,
        program: Program,
        threads: int | None = None,
        flags: Sequence[str] | None = None,
        cc: str | None = None,
        slots: bool = False,
        whitening: Whitening | None = None,
    ) -> None:
        self.name, self.program, self.whitening = name, program, whitening
        self.layout = read_layout(program, name, files.get(f"{name}.h", b""))
        self.threads = usable_cpus() if threads is None else checked(threads)
        macs = program.macs
        with Shared(files, name, program, flags, cc) as shared:
            self.built = shared.built
            self.calls = Calls(shared.path, name, max(1, macs), slots)

    def __call__(self, raw: NDArray[Any], threads: int | None = None, order: Order = "NHWC") -> NDArray[Any]:
        """Return labels, int64 ``(N,)``, of several heads ``(N, heads)``; those of an ensemble are its joint answer.

        Members of an ensemble that cannot change the label any more are not asked. A network of values gives these,
        float64 ``(N, values)`` in the units that were stated, and an ensemble their means over all members.

        Args:
            raw: the batch; see the class.
            threads: for this call, in place of the object's.
            order: ``NCHW`` for a batch ``(N, C, H, W)``, as ONNX and torch have it.

        Raises:
            BlrcError: the batch has another shape or type than the program takes.
        """
        if self.program.values:
            answers = self.answers(raw, threads=threads, order=order)
            return self.program.real(answers.log_p / answers.members[:, None])
        x = self._batch(self.program.input, raw, order)
        if len(self.program.members) == 1 and self.program.heads:
            return self.program.labels(self.scores(raw, threads=threads, order=order))
        labels = np.empty(self._by_head(x), np.int64)
        if len(self.program.members) == 1:
            self._spread("scores", x, lambda i, work: (0, work, None, labels[i:]), threads)
        else:
            self._spread("answers", x, lambda i, work: (1, 0, work, *[None] * 3, labels[i:], *[None] * 4), threads)
        return labels

    def scores(
        self, raw: NDArray[Any], member: int = 0, threads: int | None = None, order: Order = "NHWC"
    ) -> NDArray[np.int32]:
        """Return the scores (or values) of one member, ``(N, classes)``, as `blrc.program.reference.scores` does.

        Raises:
            BlrcError: as for a call; or there is no such member.
        """
        x = self._batch(self.program.input, raw, order)
        scores, labels = np.empty((len(x), self.program.classes), np.int32), np.empty(len(x), np.int64)
        self._spread("scores", x, lambda i, work: (self._member(member), work, scores[i:], labels[i:]), threads)
        return scores

    def answers(
        self,
        raw: NDArray[Any],
        members: int | None = None,
        stop: bool = False,
        confidence: int = 0,
        threads: int | None = None,
        order: Order = "NHWC",
    ) -> Answers:
        """Return the joint answer of the members for every sample.

        By default all members are asked, or only the first where the program's gate allows it.

        Args:
            raw, threads, order: as for a call.
            members: how many members to ask, from the first on, whatever the gate says.
            stop: let the model ask no further members of a sample once its label is settled.
            confidence: with `stop`, in Q16: also stop once the label's mean probability has reached it; 0 turns this
                off.

        Raises:
            BlrcError: as for a call; there are fewer members; `members` is given with `stop`, or `confidence` without
                it.
        """
        if (members is not None and stop) or (confidence and not stop):
            raise BlrcError("answers: members cannot be given with stop, and confidence only with it")
        if members is not None and not 1 <= members <= len(self.program.members):
            raise BlrcError(f"{self.name}: {members} members asked for, there are {len(self.program.members)}")
        if not 0 <= confidence < 2**32:
            raise BlrcError(f"{self.name}: confidence {confidence} is not in Q16: 0 to 65536")
        x = self._batch(self.program.input, raw, order)
        classes = self.program.classes
        sums = [np.empty((len(x), classes), np.int64) for _ in range(3)]
        by_head = self._by_head(x)
        each = (len(x), classes) if self.program.values else by_head
        rest = [np.empty(shape, np.int64) for shape in (by_head, len(x), each, each)]
        settled = np.empty(len(x), np.bool_)

        def arguments(i: int, work: Work) -> tuple[Any, ...]:
            argument = confidence if stop else members or 0
            return (int(stop), argument, work, *(a[i:] for a in (*sums, *rest)), settled[i:])

        self._spread("answers", x, arguments, threads)
        log_p, p, p_squared = sums
        p = p[:, :0] if self.program.values else p
        label, used, mean, variance = rest
        return Answers(label, log_p, p, p_squared, mean, variance, used, settled)

    def run(
        self, raw: NDArray[Any], member: int = 0, threads: int | None = None, order: Order = "NHWC"
    ) -> dict[str, NDArray[Any]]:
        """Return all values of every sample, as `blrc.program.reference.run` does, and ``label`` (int32, ``(N,)``).

        A network of values has no labels.

        Codes that the C looks up as it reads them are never stored there, so the result does not have them either.

        Raises:
            BlrcError: as for `scores`.
        """
        value = self.program.input
        x = self._batch(value, raw, order)
        maps = {step.y.name: _empty(step.y, len(x)) for step in self.layout.steps}
        labels = np.empty(len(x), np.int32)

        def arguments(i: int, work: Work) -> tuple[Any, ...]:
            pointers = np.array([address(array[i:]) for array in maps.values()], np.uintp)
            return self._member(member), work, pointers, labels[i:]

        self._spread("run", x, arguments, threads)
        shown = np.ascontiguousarray(x)
        shown = shown.view(bool) if value.dtype == "bits" else shown
        return {value.name: shown, **maps, **({} if self.program.values else {"label": labels})}

    def run_op(
        self, op: str, x: NDArray[Any], member: int = 0, threads: int | None = None, repeats: int = 1
    ) -> NDArray[Any]:
        """Run one step alone on a batch of its input.

        The input of a convolution with fused encoding is the raw input.

        Args:
            op: name of the program's op.
            x: ``(N, H, W, C)``, of the type of the step's input (`step(op).x`).
            repeats: how often the step is run on each sample; more than once for timing, since packing bits takes time
                too.

        Raises:
            BlrcError: there is no such step or member, or the input is of another shape or type.
        """
        step = self.step(op)
        index, batch = self.layout.steps.index(step), self._batch(step.x, x, "NHWC")
        y = _empty(step.y, len(batch))
        self._spread("op", batch, lambda i, work: (self._member(member), work, y[i:]), threads, (index, repeats))
        return y

    def step(self, op: str) -> Step:
        """Return the step that computes `op`.

        Raises:
            BlrcError: there is none, as for an encoding that is fused into a convolution.
        """
        return self.layout.step(op, self.name)

    def close(self) -> None:
        """Release the library and the threads. Running calls end first; later ones are refused."""
        self.calls.close()

    def __enter__(self) -> Native:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        value, members = self.program.input, len(self.program.members)
        networks = "one network" if members == 1 else f"{members} members"
        return f"<blrc {self.name}: {value.dtype} (N, {', '.join(map(str, value.shape))}), {networks}>"

    def _spread(
        self, function: str, x: NDArray[Any], arguments: Arguments, threads: int | None, first: tuple[int, ...] = ()
    ) -> None:
        self.calls.spread(function, x, arguments, self.threads if threads is None else checked(threads), first)

    def _by_head(self, x: NDArray[Any]) -> tuple[int, ...]:
        """Return the shape of the labels for a batch."""
        if self.program.values:
            return (len(x), 0)
        return (len(x), len(self.program.heads)) if self.program.heads else (len(x),)

    def _member(self, member: int) -> int:
        if not 0 <= member < len(self.program.members):
            raise BlrcError(f"{self.name}: there is no member {member}; it has {len(self.program.members)}, from 0 on")
        return member

    def _batch(self, value: Value, raw: NDArray[Any], order: Order) -> NDArray[Any]:
        """Return the batch as ``(N, H, W, C)`` with one byte an element: a view of `raw`, or its whitened codes."""
        if self.whitening is not None and getattr(raw, "dtype", None) == np.uint8 and value == self.program.input:
            images = raw.transpose(0, 3, 1, 2) if order == "NHWC" and raw.ndim == 4 else raw
            raw, order = self.whitening.codes(images), "NCHW"
        height, width, channels = value.shape
        if isinstance(raw, np.ndarray) and raw.ndim == 2 and (height, width) == (1, 1):  # (N, features)
            raw = raw[:, None, None, :] if order == "NHWC" else raw[:, :, None, None]
        elif isinstance(raw, np.ndarray) and raw.ndim == 3 and height == 1:  # (N, length, channels), (N, C, L)
            raw = raw[:, None] if order == "NHWC" else raw[:, :, None]
        wanted = (height, width, channels) if order == "NHWC" else (channels, height, width)
        dtypes = ("bool", "uint8") if value.dtype == "bits" else (value.element.value.name,)
        takes = f"{self.name}: takes {' or '.join(dtypes)} (N, {', '.join(map(str, wanted))})"
        if order not in ("NHWC", "NCHW"):
            raise BlrcError(f"{self.name}: order {order!r}: NHWC or NCHW")
        if not isinstance(raw, np.ndarray):
            raise BlrcError(f"{takes}, got {type(raw).__name__}: give a NumPy array")
        if raw.shape[1:] != wanted or raw.dtype.name not in dtypes:
            hint = ""
            if raw.shape == wanted:
                hint = ": a single sample is x[None]"
            elif order == "NHWC" and raw.shape[1:] == (channels, height, width):
                hint = ": for (N, C, H, W) give order='NCHW'"
            raise BlrcError(f"{takes}, got {raw.dtype} {raw.shape}{hint}")
        most = value.element.high
        if (value.dtype == "bits" or value.is_codes) and raw.dtype == np.uint8 and raw.size and raw.max() > most:
            raise BlrcError(f"{takes} of 0 {'and' if most == 1 else 'to'} {most}, got uint8 up to {raw.max()}")
        return raw if order == "NHWC" else raw.transpose(0, 2, 3, 1)


def _empty(value: Value, count: int) -> NDArray[Any]:
    return np.empty((count, *value.shape), value.element.value)
