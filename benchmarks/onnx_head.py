"""What the head costs in ONNX Runtime: nodes, bytes and time of the file with and without it.

python benchmarks/onnx_head.py [FILE.onnx ...]

Exports the shipped MNIST network (its likeliest weights, and five members) with all outputs and with the scores alone,
and times them and any files given (one made by another version, say), interleaved, on one image and on 16: medians of
CPU time of one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from blrc.app.export import build
from blrc.frontend import checkpoint
from blrc.frontend.members import parse_members
from blrc.program.vectors import Vectors
from blrc.targets.onnx.emit import emit
from blrc.targets.options import EmitOptions
from blrc.targets.requests import OnnxOutputs

MODEL = Path(__file__).parents[1] / "examples" / "mnist" / "mnist.pt"
BATCHES = (1, 16)
ROUNDS = 60
CALLS = 20  # of a round
OUTPUTS: tuple[OnnxOutputs, ...] = ("all", "scores")


def files(paths: Sequence[str]) -> dict[str, bytes]:
    found = {path: Path(path).read_bytes() for path in paths}
    source = checkpoint.load(MODEL)
    for members in ("map", "5"):
        program, _ = build(source, parse_members(members, 0))
        for outputs in OUTPUTS:
            options = EmitOptions("mnist", Vectors(np.zeros(0), ()), "0", onnx_outputs=outputs)
            found[f"{members}, {outputs}"] = emit(program, options).files["mnist.onnx"]
    return found


def main(paths: Sequence[str]) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    models = files(paths)
    sessions = {name: onnxruntime.InferenceSession(model, options) for name, model in models.items()}
    print(f"ONNX Runtime {onnxruntime.__version__}; us of CPU time of one thread, medians of {ROUNDS} rounds")
    times: dict[tuple[str, int], list[float]] = {(name, batch): [] for name in models for batch in BATCHES}
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS):
        for (name, batch), taken in times.items():
            x = rng.integers(0, 256, (batch, 1, 28, 28)).astype(np.uint8)
            start = time.process_time_ns()
            for _ in range(CALLS):
                sessions[name].run(None, {"input": x})
            taken.append((time.process_time_ns() - start) / CALLS / 1000)
    for name, model in models.items():
        nodes = len(onnx.load_from_string(model).graph.node)
        told = ", ".join(f"batch {batch}: {np.median(times[name, batch]):.1f}" for batch in BATCHES)
        print(f"{name}: {nodes} nodes, {len(model)} bytes, {told}")


if __name__ == "__main__":
    main(sys.argv[1:])
