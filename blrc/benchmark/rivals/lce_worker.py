"""Time networks in Larq Compute Engine, in an interpreter that has it but does not need blrc.

``python -I lce_worker.py NETWORKS.json`` builds the networks that the file describes (see
`blrc.benchmark.rivals.lce.network`) and writes ``ready VERSION``. Then it answers each line ``INDEX REPEATS`` with the
CPU and wall seconds that so many runs of that network took. It uses the engine's x86 kernels that are fastest for the
network.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

MODES: tuple[dict[str, bool], ...] = ({}, {"use_indirect_bgemm": True}, {"use_reference_bconv": True})
SECONDS = 0.05  # time for which each mode is tried


def converted(network: dict[str, Any]) -> bytes:
    """Convert a network to a file of the engine."""
    import larq
    import larq_compute_engine
    import tensorflow

    layers = tensorflow.keras.layers
    x = start = tensorflow.keras.Input(network["input"], batch_size=1)
    for layer in network["layers"]:
        if layer["kind"] == "pool":
            x = layers.MaxPool2D(layer["kernel"], layer["stride"])(x)
        elif layer["kind"] == "flatten":
            x = layers.Reshape((1, 1, -1))(x)
        elif layer["kind"] == "dense":
            x = layers.Dense(layer["outputs"])(layers.Flatten()(x))
        else:
            same, binary = layer["padding"] == "same", layer["binary"]
            conv = larq.layers.QuantConv2D(
                layer["outputs"],
                layer["kernel"],
                layer["stride"],
                padding=layer["padding"],
                pad_values=1 if same and binary else 0,  # the engine's fast kernels need padding with 1
                input_quantizer="ste_sign" if binary else None,
                kernel_quantizer="ste_sign",
                kernel_constraint="weight_clip",
                use_bias=False,
            )
            x = conv(x)
            if layer["norm"]:
                x = layers.BatchNormalization()(x)
    content: bytes = larq_compute_engine.convert_keras_model(tensorflow.keras.Model(start, x))
    return content


def runner(network: dict[str, Any]) -> Callable[[int], tuple[float, float]]:
    """Return a function that runs a network so many times and returns the CPU and wall seconds."""
    from larq_compute_engine.tflite.python.interpreter import Interpreter

    model = converted(network)
    x = [np.random.default_rng(1).integers(0, 2, (1, *network["input"])).astype(np.float32) * 2 - 1]

    def timed(interpreter: Any) -> Callable[[int], tuple[float, float]]:
        def run(repeats: int) -> tuple[float, float]:
            wall, cpu = time.perf_counter(), time.thread_time()
            for _ in range(repeats):
                interpreter.predict(x)
            return time.thread_time() - cpu, time.perf_counter() - wall

        return run

    runs = [timed(Interpreter(model, num_threads=1, **mode).interpreter) for mode in MODES]
    return min(runs, key=_seconds)


def _seconds(run: Callable[[int], tuple[float, float]]) -> float:
    """Return the CPU seconds of one run, measured over several runs after a warm-up."""
    first, _ = run(1), run(1)
    repeats = max(1, int(SECONDS / max(1e-6, first[0])))
    return run(repeats)[0] / repeats


def main(path: str) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        networks = json.load(file)
    import larq_compute_engine

    runs = [runner(network) for network in networks]
    _say(f"ready {larq_compute_engine.__version__}")
    for line in sys.stdin:
        index, repeats = map(int, line.split())
        _say("{!r} {!r}".format(*runs[index](repeats)))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
