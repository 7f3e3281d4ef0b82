"""The exported C on x86-64 against ONNX Runtime in float32, shape by shape: how many times faster is it?

    python benchmarks/bench.py [a b c d e f g h] [--rounds 15] [--json FILE]

One thread, batch 1. For every shape all contestants run in turn, in one process, and the median of each one's CPU time
is taken: the C at each level of the instruction set that this machine has, and ONNX Runtime in float32 with all
optimisations on the same layer (the convolution or matrix product alone, on real-valued input) or network (with bias,
ReLU and max pooling). The C is compiled with `blrc.targets.c.shared.host_flags`: -O3, and -mpopcnt where the CPU has
it, which the portable level has too, then. Weights are random. Every result of the C is compared with the reference
before it is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from c_kernels import NETWORKS, network
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from blrc import reference
from blrc.legal import check
from blrc.pack import pack_signs, unpack_signs
from blrc.program import Constant, Conv, Encode, Program, Scores, Value, Window
from blrc.targets.c.native import Native
from blrc.targets.c.shared import library_files
from blrc.targets.c.tiers import TIERS, VARIABLE

Run = Callable[[int], object]
"""Runs so many times."""

SECONDS = 0.01  # of one measurement
NEEDED = {"portable": "", "popcnt": "popcnt", "avx2": "avx2", "avx512": "avx512_vpopcntdq"}


@dataclass(frozen=True)
class Shape:
    """A layer, dense where `kernel` is 0, or a network of `c_kernels`."""

    title: str
    size: int = 1
    channels: int = 0
    outputs: int = 0
    kernel: int = 0
    network: str = ""


SHAPES = {
    "a": Shape("conv 3x3 256 to 256, 14x14", 14, 256, 256, 3),
    "b": Shape("conv 3x3 128 to 128, 32x32", 32, 128, 128, 3),
    "c": Shape("conv 3x3 512 to 512, 8x8", 8, 512, 512, 3),
    "d": Shape("conv 3x3 32 to 64, 14x14", 14, 32, 64, 3),
    "e": Shape("dense 3136 to 512", 1, 3136, 512),
    "f": Shape("dense 8192 to 1024", 1, 8192, 1024),
    "g": Shape("the MNIST network", network="mnist"),
    "h": Shape("the CIFAR-10 network", network="cifar10"),
}


def layer(shape: Shape) -> Program:
    """One layer with bits before and behind it, and a single score."""
    rng = np.random.default_rng(0)
    kernel = max(shape.kernel, 1)
    x = Value("x", "bits", (shape.size, shape.size, shape.channels))
    y = Value("y", "bits", (shape.size, shape.size, shape.outputs))
    op = Conv("layer", x, y, "weights", "thresholds", Window((kernel, kernel), padding=(kernel // 2,) * 4))
    scores = Scores("scores", y, Value("scores", "int32", (1, 1, 1)), "score weights", "bias")
    constants = {
        "weights": pack_signs(rng.integers(0, 2, (shape.outputs, kernel, kernel, shape.channels)) * 2 - 1),
        "thresholds": rng.integers(-20, 20, shape.outputs).astype(np.int32),
        "score weights": np.ones((1, *y.shape), np.int8),
        "bias": np.zeros(1, np.int32),
    }
    tables = {name: Constant((table,), (0,)) for name, table in constants.items()}
    return check(Program(x, (op, scores), tables, ("map",), 1.0))


def in_c(program: Program, tier: str) -> Run:
    """The C at this level; it stops the script where a bit is wrong."""
    os.environ[VARIABLE] = tier
    native = Native(library_files(program, "net"), "net", program, 1)
    op = program.ops[0]
    if isinstance(op, Conv):  # a layer
        x = np.random.default_rng(1).random((1, *op.x.shape)) < 0.5
        if not np.array_equal(native.run_op(op.name, x), reference.apply(program, op, x)):
            raise SystemExit(f"{tier}: wrong bits: not timed")
        return lambda repeats: native.run_op(op.name, x, repeats=repeats)
    raw = np.random.default_rng(1).integers(0, 256, (2, *program.input.shape)).astype(np.uint8)
    if not np.array_equal(native.scores(raw), reference.scores(program, raw)):
        raise SystemExit(f"{tier}: wrong scores: not timed")
    return lambda repeats: native.scores(np.broadcast_to(raw[:1], (repeats, *raw.shape[1:])))


def in_onnx_runtime(program: Program) -> Run:
    """The float32 twin of a program in ONNX Runtime."""
    nodes, tensors, at = [], {}, "input"
    layer_alone = isinstance(program.ops[0], Conv)
    shape: tuple[int, ...] = (1, program.input.shape[2], *program.input.shape[:2])
    dense = layer_alone and program.input.shape[:2] == (1, 1)
    shape = shape[:2] if dense else shape
    flat = dense

    def add(kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"t{len(nodes)}"], **attributes))
        return f"t{len(nodes) - 1}"

    for op in program.ops[:1] if layer_alone else program.ops:
        if isinstance(op, Encode):
            continue
        if isinstance(op, Conv):
            signs = unpack_signs(program.constant(op.weights), op.group_channels).astype(np.float32)
            is_dense = op.is_dense
        else:
            signs, is_dense = program.constant(op.weights).astype(np.float32), True
        bias = [] if layer_alone else [f"{op.name}.b"]
        tensors |= {name: np.zeros(len(signs), np.float32) for name in bias}
        if is_dense:
            at = at if flat else add("Flatten", [at])
            flat = True
            tensors[f"{op.name}.w"] = np.ascontiguousarray(signs.transpose(0, 3, 1, 2).reshape(len(signs), -1).T)
            at = add("Gemm", [at, f"{op.name}.w", *bias]) if bias else add("MatMul", [at, f"{op.name}.w"])
        else:
            tensors[f"{op.name}.w"] = np.ascontiguousarray(signs.transpose(0, 3, 1, 2))
            pads = list(op.window.padding)
            at = add("Conv", [at, f"{op.name}.w", *bias], pads=pads, strides=list(op.window.stride))
        if isinstance(op, Conv) and not layer_alone:
            at = add("Relu", [at])
            if op.pool is not None:
                at = add("MaxPool", [at], kernel_shape=list(op.pool.kernel), strides=list(op.pool.stride))
    graph = helper.make_graph(
        nodes,
        "float32",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(at, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(tensor, name) for name, tensor in tensors.items()],
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x: NDArray[Any] = np.random.default_rng(1).integers(0, 2, shape).astype(np.float32) * 2 - 1

    def run(repeats: int) -> None:
        for _ in range(repeats):
            session.run(None, {"input": x})

    return run


def medians(contestants: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """CPU seconds of one run of each, interleaved."""
    repeats = {}
    for name, run in contestants.items():
        run(2)
        start = time.thread_time()
        run(3)
        repeats[name] = max(1, round(3 * SECONDS / max(1e-7, time.thread_time() - start)))
    spent: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.thread_time()
            run(repeats[name])
            spent[name].append((time.thread_time() - start) / repeats[name])
    return {name: statistics.median(each) for name, each in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), help="a to h")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the table here")
    arguments = parser.parse_args()
    if unknown := set(arguments.shapes) - set(SHAPES):
        parser.error(f"no such shape: {', '.join(sorted(unknown))}; there are {', '.join(SHAPES)}")
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").split() if sys.platform == "linux" else []
    tiers = [tier for tier in TIERS if NEEDED[tier] in ("", *cpu)]
    print(f"onnxruntime {onnxruntime.__version__}; us of CPU time, and how many times faster than float32")
    table: dict[str, Any] = {}
    for name in arguments.shapes:
        shape = SHAPES[name]
        program = network(*NETWORKS[shape.network]) if shape.network else layer(shape)
        found = medians(
            {**{tier: in_c(program, tier) for tier in tiers}, "float32": in_onnx_runtime(program)}, arguments.rounds
        )
        ratios = {tier: found["float32"] / found[tier] for tier in tiers}
        us = {contestant: round(1e6 * value, 2) for contestant, value in found.items()}
        # What a CPU before AVX2 takes is the better of two levels.
        best = {**ratios, "portable": max(ratios["portable"], ratios.get("popcnt", 0))}
        table[name] = {"title": shape.title, "us": us, "ratio_vs_ort_fp32": {k: round(v, 2) for k, v in best.items()}}
        columns = "  ".join(f"{tier} {1e6 * found[tier]:9.1f} ({ratios[tier]:5.1f})" for tier in tiers)
        print(f"{name} {shape.title:28} float32 {1e6 * found['float32']:9.1f}  {columns}", flush=True)
    if arguments.json is not None:
        about = {"onnxruntime": onnxruntime.__version__, "rounds": arguments.rounds, "shapes": table}
        arguments.json.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
