"""Run what `blrc.targets.onnx.emit` emits in ONNX Runtime, and return values as `blrc.program.reference.run` does."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.elements import ELEMENTS
from blrc.program import head
from blrc.program.program import Op, Program, Value
from blrc.targets.onnx import worker
from blrc.targets.onnx.emit import FORMS, op_model
from blrc.targets.onnx.head import MEMBERS, OUTPUTS, SUM, VALUES, output_name
from blrc.targets.onnx.tensors import is_flat, tensor_name
from blrc.targets.requests import OnnxForm

Arrays = dict[str, NDArray[Any]]
Engine = Callable[[bytes, Mapping[str, NDArray[Any]]], Arrays]
"""Model and inputs (any number of samples) to all outputs, by name."""

BATCH = 256
VALUE_ROUNDINGS = 5  # of float32 in a real value
RUN_TIMEOUT = 3600  # seconds that another interpreter may take: longer is a runtime that hangs
MOST_LOADED = 8  # files that an engine keeps loaded, and copies of a file that are kept: each holds tables of its own


class OnnxRun:
    """Run one ONNX file that was emitted from a known program.

    Args:
        model: the file's bytes.
        program: the program, which gives the values' names, types and shapes.
        threads: threads of the runtime; 0 leaves their number to it.
        batch: how many samples the runtime is given at once.
        python: another interpreter, whose ONNX Runtime is used instead of this one's; it does not need blrc.
    """

    def __init__(
        self, model: bytes, program: Program, threads: int = 1, batch: int = BATCH, python: Path | None = None
    ) -> None:
        self.model = model
        self.program = program
        self.form: OnnxForm = form_of(model)
        self._instrumented: dict[int, bytes] = {}
        self._engine = here(threads, batch) if python is None else elsewhere(python, threads, batch)

    def classify(self, raw: NDArray[Any]) -> tuple[head.Answer, NDArray[np.int32]]:
        """Run the unchanged file: return the answer, as `reference.answer`, and scores ``(N, members, classes)``.

        Where the file has no head, the answer is that of the reference for the file's scores.

        Args:
            raw: input in device layout, ``(N, H, W, C)``.
        """
        count, members, classes = len(raw), len(self.program.members), self.program.classes
        names = [each.name for each in self.program.heads]
        if count == 0:
            none, log_p = np.empty(0, np.int64), np.empty((0, classes), np.int64)
            by_head = np.empty((0, len(names)), np.int64) if names else none
            if self.program.values:
                return self.program.together([np.empty((0, classes))]), np.empty((0, members, classes), np.int32)
            answer = head.Answer(by_head, log_p, by_head, by_head, none)
            return answer, np.empty((0, members, classes), np.int32)
        found = self._engine(self.model, {"input": _input_tensor(self.program.input, raw, self.form)})
        parts = [integers(name, found[name]).reshape(count, members, -1) for name in names or ["scores"]]
        scores = np.concatenate(parts, axis=2).astype(np.int32, copy=False)
        if MEMBERS not in found:
            answer = self.program.together(list(scores.transpose(1, 0, 2)))
            return self._with_values(answer, found, names), scores
        if not names:
            return head.Answer(*(found[name] for name in OUTPUTS)), scores

        def joined(output: str) -> NDArray[Any]:
            each = [found[output_name(output, name)] for name in names]
            return np.concatenate(each, axis=1) if output == "log_p" else np.stack(each, axis=1)

        label, log_p, mean, variance = map(joined, ("label", "log_p", "mean", "variance"))
        return head.Answer(label, log_p, mean, variance, found[MEMBERS]), scores

    def _with_values(self, answer: head.Answer, found: Arrays, names: Sequence[str]) -> head.Answer:
        """Return the answer with the file's own sums; compare its real values, if it has any, with exact ones.

        Raises:
            BlrcError: a real value is further away than float32 rounds.
        """

        def joined(output: str) -> NDArray[Any] | None:
            each = [found[name] for part in names or [""] if (name := output_name(output, part)) in found]
            return np.concatenate(each, axis=1) if each else None

        total, values = joined(SUM), joined(VALUES)
        if total is not None:
            answer = replace(answer, log_p=total.astype(np.int64))
        if values is not None:
            exact = self.program.real(answer.log_p / answer.members[:, None])
            offset = np.abs(self.program.real(np.zeros(self.program.classes)))
            # Rounded are the sum, the factor, the product, the offset and what comes of them.
            slack = VALUE_ROUNDINGS * 2.0**-24 * (np.abs(exact) + 2 * offset) + float(np.finfo(np.float32).tiny)
            if values.shape != exact.shape or not (np.abs(values - exact) <= slack).all():
                raise BlrcError("ONNX output 'values' is not what the sums stand for; export the model again")
        return answer

    def run(self, raw: NDArray[Any], member: int = 0) -> Arrays:
        """Return all values of one member, as `reference.run` does, from a copy of the file in which each is an output.

        Raises:
            BlrcError: the file lacks a value of the program, or the runtime refuses it.
        """
        values = [op.y for op in self.program.ops]
        found: Arrays = {self.program.input.name: raw.astype(bool) if self.program.input.dtype == "bits" else raw}
        if len(raw) == 0:
            return {**found, **{value.name: np.empty((0, *value.shape), _array_type(value)) for value in values}}
        if member not in self._instrumented:
            self._instrumented[member] = instrumented(self.model, self.program, member)
            _forget(self._instrumented)
        outputs = self._engine(self._instrumented[member], {"input": _input_tensor(self.program.input, raw, self.form)})
        for value in values:
            found[value.name] = from_tensor(value, outputs[tensor_name(self.program, value, member)], self.form)
        return found


def run_op(
    program: Program,
    op: Op,
    x: NDArray[Any],
    threads: int = 1,
    python: Path | None = None,
    member: int = 0,
    form: OnnxForm = "integer",
) -> NDArray[Any]:
    """Run one op alone on a batch of its input; the arrays are as in `Op.run`."""
    engine = here(threads, BATCH) if python is None else elsewhere(python, threads, BATCH)
    if len(x) == 0:
        return np.empty((0, *op.y.shape), _array_type(op.y))
    feeds = {tensor_name(program, op.x, member): to_tensor(op.x, x, form)}
    outputs = engine(op_model(program, op, member, form), feeds)
    return from_tensor(op.y, outputs[tensor_name(program, op.y, member)], form)


def instrumented(model: bytes, program: Program, member: int = 0) -> bytes:
    """Return a copy of the file that outputs every value of one member, and nothing else.

    Nodes and constants that only other members or the head need are left out; the rest is not changed.

    Raises:
        BlrcError: the file is damaged, or is of another program.
    """
    try:
        proto = onnx.load_from_string(model)
    except Exception as error:  # protobuf's own error type is private
        raise BlrcError(f"the ONNX file is damaged ({error}); export the model again") from None
    graph = proto.graph
    made = {name for node in graph.node for name in node.output}
    wanted = [FORMS[form_of(model)].info(program, op.y, member) for op in program.ops]
    for info in wanted:
        if info.name not in made:
            raise BlrcError(
                f"the ONNX file has no tensor {info.name!r}: it is of another program; export the model again"
            )
    needed = {info.name for info in wanted}
    nodes = []
    for node in reversed(graph.node):  # in topological order, as ONNX demands
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(node.input)
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    copy = onnx.helper.make_graph(nodes[::-1], graph.name, graph.input, wanted, constants)
    proto.graph.CopyFrom(copy)
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def form_of(model: bytes) -> OnnxForm:
    """Return the form of a file, which the element type of its input shows.

    A file that cannot be read counts as ``integer``; it is refused when it is run.
    """
    try:
        inputs = onnx.load_from_string(model).graph.input
    except Exception:  # protobuf's own error type is private
        return "integer"
    floats = [info for info in inputs if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT]
    return "float" if floats else "integer"


def to_tensor(value: Value, maps: NDArray[Any], form: OnnxForm = "integer") -> NDArray[Any]:
    """Turn an array ``(N, H, W, C)`` of the reference into the inner tensor of `value`.

    `blrc.targets.onnx.graph` and `float_form` say which numbers the tensors hold.
    """
    if form == "float":
        maps = (2 * maps.astype(np.float32) - 1) if value.dtype == "bits" else maps.astype(np.float32)
    elif value.dtype == "bits":
        maps = 2 * maps.astype(np.uint8)
    elif value.dtype == "int8":
        maps = (maps.astype(np.int16) + 128).astype(np.uint8)
    return _channels_first(value, maps)


def from_tensor(value: Value, tensor: NDArray[Any], form: OnnxForm = "integer") -> NDArray[Any]:
    """Turn the inner tensor of `value` into an array of the reference; this is the inverse of `to_tensor`.

    Raises:
        BlrcError: a bit has a number that the form does not use, or a float tensor holds numbers that are not integers.
    """
    height, width, channels = value.shape
    maps = tensor.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    if form == "float":
        maps = integers(value.name, maps)
        # The same numbers as in the integer form.
        maps = maps + 1 if value.dtype == "bits" else maps + 128 if value.dtype == "int8" else maps
    if value.dtype == "bits":
        strange = (maps != 0) & (maps != 2)
        if strange.any():
            found = np.unique(maps[strange]).tolist()[:5]
            raise BlrcError(f"ONNX tensor {value.name!r} holds {found}, but a bit is 0 or 2")
        return np.ascontiguousarray(maps == 2, dtype=bool)
    if value.dtype == "int8":
        return np.ascontiguousarray((maps.astype(np.int16) - 128).astype(np.int8))
    return np.ascontiguousarray(maps.astype(value.element.value, copy=False))


def integers(name: str, tensor: NDArray[Any]) -> NDArray[Any]:
    """Return the tensor, converted to int64 if it is floating-point.

    Raises:
        BlrcError: it holds numbers that are not integers.
    """
    if tensor.dtype.kind != "f":
        return tensor
    whole: NDArray[Any] = np.rint(tensor)
    if not np.array_equal(whole, tensor):
        found = tensor[whole != tensor].reshape(-1)[:5].tolist()
        raise BlrcError(f"ONNX tensor {name!r} holds {found}, but only integers are exact")
    return np.asarray(whole.astype(np.int64))


def _input_tensor(value: Value, raw: NDArray[Any], form: OnnxForm) -> NDArray[Any]:
    if form == "float":
        return _channels_first(value, raw.astype(np.float32))
    return _channels_first(value, raw.astype(np.uint8) if value.dtype == "bits" else raw)


def _channels_first(value: Value, maps: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(maps[:, 0, 0] if is_flat(value) else maps.transpose(0, 3, 1, 2))


def _array_type(value: Value) -> np.dtype[Any]:
    return ELEMENTS[value.dtype].value


def here(threads: int, batch: int) -> Engine:
    """Return an engine that runs files in the ONNX Runtime of this interpreter.

    It keeps up to `MOST_LOADED` files loaded, and drops the oldest first.
    """
    loaded: dict[bytes, onnxruntime.InferenceSession] = {}

    def engine(model: bytes, feeds: Mapping[str, NDArray[Any]]) -> Arrays:
        try:
            if model not in loaded:
                loaded[model] = worker.load(model, threads)
                _forget(loaded)
            return worker.run(loaded[model], feeds, batch)
        except Exception as error:  # the runtime's exceptions share no base class
            raise _refused(onnxruntime.__version__, str(error)) from None

    return engine


def _forget(kept: dict[Any, Any]) -> None:
    """Remove the oldest entries beyond `MOST_LOADED`."""
    while len(kept) > MOST_LOADED:
        del kept[next(iter(kept))]


def elsewhere(python: Path, threads: int, batch: int) -> Engine:
    """Return an engine that runs files in the ONNX Runtime of another interpreter, as a subprocess."""

    def engine(model: bytes, feeds: Mapping[str, NDArray[Any]]) -> Arrays:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("model.onnx", "in.npz", "out.npz")]
            files[0].write_bytes(model)
            np.savez(files[1], **dict[str, Any](feeds))
            # -I: the script's own folder holds a module named onnx, which must not hide the real one.
            script = [python, "-I", worker.__file__, *files, threads, batch]
            try:
                done = subprocess.run(
                    list(map(str, script)), capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT
                )
            except subprocess.TimeoutExpired:
                raise _refused(f"of {python}", f"no answer within {RUN_TIMEOUT} s") from None
            if done.returncode != 0:
                raise _refused(f"of {python}", (done.stderr.strip() or "no message").splitlines()[-1])
            with np.load(files[2], allow_pickle=False) as file:
                return {name: file[name] for name in file.files}

    return engine


def _refused(runtime: str, reason: str) -> BlrcError:
    return BlrcError(f"ONNX Runtime {runtime} refuses the file: {' '.join(reason.split())}")
