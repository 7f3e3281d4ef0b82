"""Write random binary networks as ONNX files, in the spellings that other tools use, and run them in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import blrc
from blrc.app.export import build
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP
from blrc.net.encoding import device_layout
from blrc.program import reference
from blrc.program.program import Program

BREVITAS, FINN = "onnx.brevitas", "finn.custom_op.general"


@dataclass
class File:
    """Collect the nodes of an ONNX file whose last tensor is `at`."""

    shape: tuple[int | str, ...]
    opset: int = 13
    element: int = TensorProto.FLOAT
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    at: str = "x"

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def node(self, kind: str, *inputs: Any, domain: str = "", on: str | None = None, **attributes: Any) -> str:
        """Add a node that reads `at` (or `on`) and constants; inputs that are texts are names of tensors."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        output = f"t{len(self.nodes)}"
        first = self.at if on is None else on
        self.nodes.append(
            helper.make_node(kind, [first, *names], [output], f"{kind}_{len(self.nodes)}", domain=domain, **attributes)
        )
        if on is None:
            self.at = output
        return output

    def alone(self, kind: str, inputs: Sequence[str], domain: str = "", **attributes: Any) -> str:
        """Add a node beside the chain."""
        output = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, inputs, [output], f"{kind}_{len(self.nodes)}", domain=domain, **attributes)
        )
        return output

    def model(self, listed: bool = False) -> Any:
        """Return the file; `listed` names the initialisers among the inputs, as old exporters did."""
        inputs = [helper.make_tensor_value_info("x", self.element, self.shape)]
        if listed:
            inputs += [helper.make_tensor_value_info(c.name, c.data_type, c.dims) for c in self.constants]
        graph = helper.make_graph(
            self.nodes, "g", inputs, [helper.make_empty_tensor_value_info(self.at)], self.constants
        )
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, 1) for domain in sorted({node.domain for node in self.nodes} - {""})]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def save(self, path: Path, listed: bool = False) -> Path:
        path.write_bytes(self.model(listed).SerializeToString())
        return path


def plain(model: Any) -> Any:
    """Return a file without QONNX's and FINN's operators, written out by what these tools define."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    nodes: list[Any] = []

    def number(name: str, value: float) -> str:
        made.graph.initializer.append(numpy_helper.from_array(np.float32(value), name))
        return name

    for node in made.graph.node:
        out = node.output[0]
        held = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "BipolarQuant":
            zero, one, other = number(f"{out}_0", 0), number(f"{out}_p", 1), number(f"{out}_m", -1)
            nodes += [
                helper.make_node("Less", [node.input[0], zero], [f"{out}_l"]),
                helper.make_node("Where", [f"{out}_l", other, one], [f"{out}_w"]),
                helper.make_node("Mul", [f"{out}_w", node.input[1]], [out]),
            ]
        elif node.op_type == "Quant":
            table = next(c for c in made.graph.initializer if c.name == node.input[3])
            low, high = _range(held, int(numpy_helper.to_array(table)))
            nodes += [
                helper.make_node("Div", [node.input[0], node.input[1]], [f"{out}_d"]),
                helper.make_node("Min", [f"{out}_d", number(f"{out}_h", high)], [f"{out}_m"]),
                helper.make_node("Max", [f"{out}_m", number(f"{out}_l", low)], [f"{out}_c"]),
                helper.make_node("Round", [f"{out}_c"], [f"{out}_r"]),
                helper.make_node("Mul", [f"{out}_r", node.input[1]], [out]),
            ]
        elif node.op_type == "MultiThreshold":
            layout = held.get("data_layout", b"NCHW").decode()
            table = next(c for c in made.graph.initializer if c.name == node.input[1])
            steps = numpy_helper.to_array(table)[:, 0]
            behind = 0 if layout.endswith("C") or len(steps) == 1 else len(layout) - 2
            made.graph.initializer.append(numpy_helper.from_array(steps.reshape(-1, *[1] * behind), f"{out}_t"))
            scale, bias = held.get("out_scale", 1.0), held.get("out_bias", 0.0)
            low, high = number(f"{out}_low", bias), number(f"{out}_high", scale + bias)
            nodes += [
                helper.make_node("Less", [node.input[0], f"{out}_t"], [f"{out}_l"]),
                helper.make_node("Where", [f"{out}_l", low, high], [out]),
            ]
        else:
            nodes.append(node)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def _range(held: Any, bits: int) -> tuple[int, int]:
    if held["signed"]:
        return -(2 ** (bits - 1)) + held["narrow"], 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - held["narrow"]


def ran(model: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Return what ONNX Runtime gives for the first output."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(plain(model).SerializeToString(), options)
    return np.asarray(session.run(None, {"x": x})[0])


def imported(path: Path, **options: Any) -> tuple[Checkpoint, Program]:
    """Return the checkpoint and the program of a file."""
    found = blrc.import_onnx(path, **options)
    return found, build(found, [MAP])[0]


def scores(program: Program, raw: NDArray[Any]) -> NDArray[np.float64]:
    """Return the reference's scores in real units, of raw samples in torch's layout."""
    held = reference.scores(program, device_layout(raw))
    return held.astype(np.float64) * program.score_scale


def signs(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.choice(np.float32([-1, 1]), shape)


# ---- random chains


def random_file(seed: int) -> tuple[File, str, tuple[int, ...]]:
    """Return a random network, what its input is (``bits`` or ``int8``), and the shape (C, H, W) of a sample."""
    rng = np.random.default_rng(seed)
    channels, height, width = int(rng.choice([1, 3, 5])), int(rng.integers(7, 11)), int(rng.integers(7, 11))
    last = seed % 3 == 2
    shape = (height, width, channels) if last else (channels, height, width)
    file = File(("N" if rng.random() < 0.5 else 6, *shape), opset=int(rng.choice([9, 11, 13, 17, 21])))
    kind = str(rng.choice(["bits", "int8"]))
    if kind == "bits":
        if rng.random() < 0.5:
            file.node("Mul", 2.0)
            file.node("Sub", np.float32([1.0]))
        else:
            file.node("Sub", 0.5)
        _decide(file, rng, 3 if last else 1, channels, 4)
    maps = (channels, height, width)
    for _ in range(int(rng.integers(1, 3))):
        maps = _convolution(file, rng, maps, last)
    features = int(np.prod(maps))
    _flatten(file, rng, features)
    if rng.random() < 0.6:
        hidden = int(rng.integers(9, 20))
        _dense(file, rng, features, hidden)
        _norm(file, rng, 1, hidden, 2)
        _decide(file, rng, 1, hidden, 2)
        features = hidden
    classes = int(rng.integers(2, 6))
    if rng.random() < 0.5:
        _dense(file, rng, features, classes)
        for _ in range(int(rng.integers(0, 3))):
            _affine(file, rng, classes, 1)
    else:
        file.node("Gemm", _reals(rng, classes, features), _reals(rng, classes), transB=1)
    return file, kind, (channels, height, width)


def _reals(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.normal(size=shape).astype(np.float32)


def _convolution(file: File, rng: np.random.Generator, maps: tuple[int, ...], last: bool) -> tuple[int, ...]:
    channels, height, width = maps
    groups = channels if rng.random() < 0.2 else 1
    out = int(rng.integers(2, 5)) * groups
    kernel, pad, stride = (int(rng.integers(1, 4)) for _ in range(3))
    kernel = min(kernel, height, width)
    pad, stride = min(pad - 1, kernel - 1), 2 if stride == 3 else 1
    pads = _sides(rng, kernel) or [pad] * 4
    if last:
        file.node("Transpose", perm=[0, 3, 1, 2])
    name = _weights(file, rng, (out, channels // groups, kernel, kernel), 0)
    bias = [file.constant(_reals(rng, out))] if rng.random() < 0.4 else []
    file.node("Conv", name, *bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=groups)
    if last:
        file.node("Transpose", perm=[0, 2, 3, 1])
    height, width = ((n + pads[i] + pads[i + 2] - kernel) // stride + 1 for i, n in enumerate((height, width)))
    axis = 3 if last else 1
    pool = height > 3 and width > 3 and rng.random() < 0.6
    early = pool and rng.random() < 0.7
    parts = int(rng.integers(0, 3))
    for _ in range(parts):
        _chain(file, rng, axis, out, 4)
    if early:
        height, width = _pool(file, rng, height, width, last)
    _norm(file, rng, axis, out, 4)
    _decide(file, rng, axis, out, 4)
    if pool and not early:
        height, width = _pool(file, rng, height, width, last)
    return out, height, width


def _pool(file: File, rng: np.random.Generator, height: int, width: int, last: bool) -> tuple[int, int]:
    size, pad = int(rng.integers(2, 4)), int(rng.integers(0, 2))
    pads = _sides(rng, size) or [pad] * 4
    if last:
        file.node("Transpose", perm=[0, 3, 1, 2])
    file.node("MaxPool", kernel_shape=[size] * 2, strides=[2] * 2, pads=pads)
    if last:
        file.node("Transpose", perm=[0, 2, 3, 1])
    return (height + pads[0] + pads[2] - size) // 2 + 1, (width + pads[1] + pads[3] - size) // 2 + 1


def _sides(rng: np.random.Generator, kernel: int) -> list[int] | None:
    """Return pads below the kernel that are not the same at opposite sides, or None."""
    sides = rng.integers(0, kernel, 4).tolist()
    return sides if sides[:2] != sides[2:] and rng.random() < 0.5 else None


def _weights(file: File, rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> str:
    """Add weights of two values for each output channel: as they are, through a quantiser, or through signs."""
    held = signs(rng, *shape)
    rows = [1] * len(shape)
    rows[axis] = shape[axis]
    scale = np.abs(_reals(rng, *rows)) + np.float32(0.1)
    style = int(rng.integers(0, 4))
    if style == 0:
        return file.constant(held)
    if style == 1:
        return file.constant(held * scale)
    if style == 2:
        return file.node(
            "BipolarQuant", np.float32(0.5), domain=BREVITAS, on=file.constant(held * np.abs(_reals(rng, *shape)))
        )
    signed = file.node("Sign", on=file.constant(held * (np.abs(_reals(rng, *shape)) + 1)))
    return file.node("Mul", scale, on=signed)


def _row(file: File, rng: np.random.Generator, values: NDArray[np.float32], axis: int, rank: int) -> str:
    """Add a constant with one value for each channel, which lies on `axis` of `rank` axes."""
    return file.constant(values.reshape(-1, *[1] * (rank - 1 - axis)))


def _norm(file: File, rng: np.random.Generator, axis: int, channels: int, rank: int) -> None:
    gamma, beta = _reals(rng, channels), _reals(rng, channels)
    mean, variance = 3 * _reals(rng, channels), rng.uniform(1, 40, channels).astype(np.float32)
    if axis == 1 and rng.random() < 0.5:
        file.node("BatchNormalization", gamma, beta, mean, variance, epsilon=1e-4)
        return
    file.node("Sub", _row(file, rng, mean, axis, rank))
    spread = file.node(
        "Pow", np.float32(0.5), on=file.constant((variance + np.float32(1e-4)).reshape(-1, *[1] * (rank - 1 - axis)))
    )
    file.node("Div", spread)
    file.node("Mul", _row(file, rng, gamma, axis, rank))
    file.node("Add", _row(file, rng, beta, axis, rank))


def _affine(file: File, rng: np.random.Generator, channels: int, axis: int, rank: int = 2) -> None:
    kind = str(rng.choice(["Mul", "Div", "Add", "Sub"]))
    file.node(kind, _row(file, rng, _reals(rng, channels) + np.float32(0.05), axis, rank))


def _chain(file: File, rng: np.random.Generator, axis: int, channels: int, rank: int) -> None:
    """Add one monotone step."""
    step = int(rng.integers(0, 6))
    if step == 0:
        _affine(file, rng, channels, axis, rank)
    elif step == 1:
        file.node("PRelu", _row(file, rng, np.abs(_reals(rng, channels)), axis, rank))
    elif step == 2:
        file.node("LeakyRelu", alpha=0.25)
    elif step == 4:
        file.node("Relu")
    elif step == 3 and file.opset >= 11:
        file.node("Clip", np.float32(-3.5), np.float32(7.25))
    else:
        file.node("Add", np.float32(0.37))


def _decide(file: File, rng: np.random.Generator, axis: int, channels: int, rank: int) -> None:
    """Add a sign in one of its spellings; what stands before it is never exactly 0."""
    style = int(rng.integers(0, 6))
    if style == 0:
        file.node("BipolarQuant", np.float32(rng.choice([0.25, 1.0, 1.7])), domain=BREVITAS)
    elif style == 1:
        file.node("Less", np.float32(0.0))
        file.node("Where", np.float32(-1.0), np.float32(1.0))
    elif style == 2:
        file.node("Sign")
        file.node("Add", np.float32(0.1))
        file.node("Sign")
    elif style == 3:
        steps = np.full((channels, 1), 0.125, dtype=np.float32)
        layout = {4: "NHWC" if axis == 3 else "NCHW", 2: "NC"}[rank]
        file.node(
            "MultiThreshold", steps, domain=FINN, out_scale=2.0, out_bias=-1.0, out_dtype="BIPOLAR", data_layout=layout
        )
    elif style == 4:
        file.node("Greater", np.float32(0.03))
        file.node("Cast", to=TensorProto.FLOAT)
        file.node("Mul", np.float32(2.0))
        file.node("Sub", np.float32(1.0))
    else:
        file.node("Sign")


def _dense(file: File, rng: np.random.Generator, features: int, out: int) -> None:
    style = int(rng.integers(0, 3))
    if style == 0:
        file.node("MatMul", _weights(file, rng, (features, out), 1))
    elif style == 1:
        file.node("MatMul", file.node("Transpose", on=_weights(file, rng, (out, features), 0), perm=[1, 0]))
        file.node("Add", _reals(rng, out))
    else:
        file.node("Gemm", _weights(file, rng, (out, features), 0), _reals(rng, out), transB=1)


def _flatten(file: File, rng: np.random.Generator, features: int) -> None:
    style = int(rng.integers(0, 3))
    if style == 0:
        file.node("Flatten")
    elif style == 1:
        file.node("Reshape", file.constant([-1, features], np.int64))
    else:
        size = file.node("Gather", file.constant(0, np.int64), on=file.alone("Shape", [file.at]), axis=0)
        if file.opset < 13:
            batch = file.alone("Unsqueeze", [size], axes=[0])
        else:
            batch = file.alone("Unsqueeze", [size, file.constant([0], np.int64)])
        file.node("Reshape", file.alone("Concat", [batch, file.constant([-1], np.int64)], axis=0))
