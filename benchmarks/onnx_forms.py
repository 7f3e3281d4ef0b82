"""Exact ONNX forms of a binary layer, timed in ONNX Runtime: which one should the emitter choose?

    python benchmarks/onnx_forms.py [--seconds 0.5] [--json FILE]

One thread. For each shape all forms run in turn, in one process, and each one's median CPU time is printed, beside its
ratio to the float32 layer alone (Conv or MatMul on real-valued input, without any threshold). Every form reads uint8
{0, 2} and gives uint8 {0, 2}, and is compared with a sum in NumPy before it is timed. `emitted` is what blrc emits.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from blrc.net.bits import pack_signs, unpack_signs
from blrc.program.program import Constant, Conv, Program, Value, Window
from blrc.store.atomic import write_atomically
from blrc.targets.onnx.emit import op_model
from blrc.targets.onnx.session import to_tensor

Array = NDArray[Any]
TWO, ZERO, ONE = np.uint8(2), np.uint8(0), np.uint8(1)


@dataclass(frozen=True)
class Case:
    """A layer: kernel 0 is dense."""

    name: str
    size: int
    channels: int
    out: int
    kernel: int = 3
    groups: int = 1
    batch: int = 1


CASES = (
    Case("a conv 256->256 @14", 14, 256, 256),
    Case("b conv 128->128 @32", 32, 128, 128),
    Case("c conv 512->512 @8", 8, 512, 512),
    Case("d conv 32->64 @14", 14, 32, 64),
    Case("d x16", 14, 32, 64, batch=16),
    Case("first conv 1->32 @28", 28, 1, 32),
    Case("first conv 3->128 @32", 32, 3, 128),
    Case("conv 64->64 @14, 16 groups", 14, 64, 64, groups=16),
    Case("depthwise 256 @14", 14, 256, 256, groups=256),
    Case("1x1 256->256 @14", 14, 256, 256, kernel=1),
    Case("e dense 3136->512", 1, 3136, 512, kernel=0),
    Case("e x16", 1, 3136, 512, kernel=0, batch=16),
    Case("f dense 8192->1024", 1, 8192, 1024, kernel=0),
)


def layer(case: Case) -> tuple[Program, Conv]:
    rng = np.random.default_rng(0)
    kernel = max(case.kernel, 1)
    window = Window((kernel, kernel), padding=(kernel // 2,) * 4)
    x = Value("x", "bits", (case.size, case.size, case.channels))
    y = Value("y", "bits", (case.size, case.size, case.out))
    op = Conv("layer", x, y, "weights", "thresholds", window, case.groups)
    weights = rng.integers(0, 2, (case.out, kernel, kernel, op.group_channels)) * 2 - 1
    thresholds = rng.integers(-20, 20, case.out).astype(np.int32)
    constants = {"weights": Constant((pack_signs(weights),), (0,)), "thresholds": Constant((thresholds,), (0,))}
    return Program(x, (op,), constants, ("map",), 1.0), op


def model(nodes: Sequence[tuple[str, str, str, dict[str, Any]]], tensors: Mapping[str, Any], x: int, y: int) -> bytes:
    """A model from ``x`` to ``y`` of the element types given; a node is (type, inputs, output, attributes)."""
    graph = helper.make_graph(
        [helper.make_node(kind, inputs.split(), [output], **attributes) for kind, inputs, output, attributes in nodes],
        "form",
        [helper.make_tensor_value_info("x", x, None)],
        [helper.make_tensor_value_info("y", y, None)],
        [numpy_helper.from_array(np.asarray(tensor), name) for name, tensor in tensors.items()],
    )
    content: bytes = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()
    return content


def forms(program: Program, op: Conv) -> dict[str, bytes]:
    """Models by name. `float32 alone` is the yardstick, the others are exact."""
    signs = unpack_signs(program.constant(op.weights), op.group_channels).transpose(0, 3, 1, 2)
    t = program.constant(op.thresholds)
    dense = op.x.shape[:2] == (1, 1)
    w = np.ascontiguousarray(signs[:, :, 0, 0].T if dense else signs)
    geometry = {} if dense else {"pads": list(op.window.padding), "group": op.groups}
    t = t if dense else t.reshape(-1, 1, 1)
    product, integer = ("MatMul", "MatMulInteger") if dense else ("Conv", "ConvInteger")
    bits = {"two": TWO, "zero": ZERO}
    to_float = [("Cast", "x", "xf", {"to": 1}), ("Sub", "xf one", "xs", {}), ("Cast", "w", "wf", {"to": 1})]
    decide = [("GreaterOrEqual", "z t", "b", {}), ("Where", "b two zero", "y", {})]
    uint8, real = TensorProto.UINT8, TensorProto.FLOAT
    found = {
        "float32 alone": model([(product, "x w", "y", geometry)], {"w": w.astype(np.float32)}, real, real),
        "float32": model(
            [*to_float, (product, "xs wf", "z", geometry), *decide],
            {"w": w, "one": np.float32(1), "t": t.astype(np.float32), **bits},
            uint8,
            uint8,
        ),
        "u8u8": model(
            [(integer, "x w one one", "z", geometry), *decide],
            {"w": (w + 1).astype(np.uint8), "one": ONE, "t": t, **bits},
            uint8,
            uint8,
        ),
    }
    if not dense:
        # acc = 4 (z - t) + 2, clipped to {0, 2}; convolution and clip are one kernel.
        reals = {"w": (4 * w).astype(np.int8), "bias": (2 - 4 * t.reshape(-1)).astype(np.float32), "one": np.float32(1)}
        limits = {"zero": np.float32(0), "two": np.float32(2)}
        found["fused float32"] = model(
            [
                *to_float,
                ("Conv", "xs wf bias", "acc", geometry),
                ("Clip", "acc zero two", "bits", {}),
                ("Cast", "bits", "y", {"to": 2}),
            ],
            {**reals, **limits},
            uint8,
            uint8,
        )
    if dense:
        kernel = np.ascontiguousarray(w.T * 2).reshape(*w.T.shape, 1, 1)
        tensors = {"w": kernel, "s": np.float32(1), "one": ONE, "i": np.int8(0), "axes": np.array([2, 3])}
        tensors |= {"bias": 1 - 2 * t, "two": TWO}
        nodes: list[tuple[str, str, str, dict[str, Any]]] = [
            ("Unsqueeze", "x axes", "x4", {}),
            ("QLinearConv", "x4 s one w s i s one bias", "q", {}),
            ("Min", "q two", "y4", {}),
            ("Flatten", "y4", "y", {}),
        ]
        found["QLinearConv"] = model(nodes, tensors, uint8, uint8)
    return {**found, "emitted": op_model(program, op)}


def medians(case: Case, seconds: float) -> dict[str, float]:
    """CPU seconds of each form, which is proven exact first."""
    program, op = layer(case)
    maps = np.random.default_rng(1).random((case.batch, *op.x.shape)) < 0.5
    x, want = to_tensor(op.x, maps), to_tensor(op.y, op.run(program, maps))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    sessions, feeds = {}, {}
    for name, content in forms(program, op).items():
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        feeds[name] = {session.get_inputs()[0].name: x.astype(np.float32) - 1 if name == "float32 alone" else x}
        if name != "float32 alone" and not np.array_equal(session.run(None, feeds[name])[0], want):
            raise SystemExit(f"{case.name}: form {name} is not exact")
        sessions[name] = session
    times: dict[str, list[float]] = {name: [] for name in sessions}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["emitted"]) < 5:
        for name, session in sessions.items():
            start = time.process_time()
            session.run(None, feeds[name])
            times[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="measured per shape")
    parser.add_argument("--json", type=Path, help="write the medians, in microseconds, here")
    arguments = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, one thread; us of CPU time (times float32 alone)")
    table = {}
    for case in CASES:
        found = medians(case, arguments.seconds)
        base = found["float32 alone"]
        table[case.name] = {name: round(1e6 * value, 1) for name, value in found.items()}
        print(f"{case.name:26}", "  ".join(f"{n} {1e6 * v:.0f} ({base / v:.1f})" for n, v in found.items()), flush=True)
    if arguments.json is not None:
        plain = {"onnxruntime": onnxruntime.__version__, "us": table}
        write_atomically(arguments.json, (json.dumps(plain, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
