"""Run an ONNX file in one runtime: python consumers_worker.py RUNTIME MODEL IN.npz OUT.npz.

It needs NumPy and the runtime, and nothing of blrc, so that every runtime can live in an environment of its own. IN holds
the inputs by name and the names of the outputs; OUT receives the outputs by name, and the runtime's version. A file
that the runtime refuses ends in exit status 3, with the reason as the last line of standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]
BATCH = 250
REFUSED = 3


def onnxruntime(model: Path, outputs: list[str]) -> tuple[str, Run]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return ort.__version__, lambda feeds: dict(zip(outputs, session.run(outputs, feeds), strict=True))


def openvino(model: Path, outputs: list[str]) -> tuple[str, Run]:
    import openvino as ov

    core = ov.Core()
    # Processors with bfloat16 would take it for float32, which 8 bits of a sum do not survive.
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()

    def run(feeds: Arrays) -> Arrays:
        found = request.infer(feeds)
        return {name: np.array(found[compiled.output(name)]) for name in outputs}

    return ov.__version__.split("-")[0], run


def opencv(model: Path, outputs: list[str]) -> tuple[str, Run]:
    import cv2

    net = cv2.dnn.readNetFromONNX(str(model))

    def run(feeds: Arrays) -> Arrays:
        for name, array in feeds.items():
            net.setInput(array, name)
        return dict(zip(outputs, (np.array(array) for array in net.forward(outputs)), strict=True))

    return cv2.__version__, run


def tinygrad(model: Path, outputs: list[str]) -> tuple[str, Run]:
    from importlib.metadata import version

    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    runner = OnnxRunner(str(model))

    def run(feeds: Arrays) -> Arrays:
        found = runner({name: Tensor(array) for name, array in feeds.items()})
        return {name: found[name].numpy() for name in outputs}

    return version("tinygrad"), run


RUNTIMES = {"onnxruntime": onnxruntime, "openvino": openvino, "opencv": opencv, "tinygrad": tinygrad}


def main(runtime: str, model: str, source: str, target: str) -> None:
    with np.load(source, allow_pickle=False) as file:
        feeds = {name: file[name] for name in file.files}
    outputs = feeds.pop("outputs").tolist()
    try:
        version, run = RUNTIMES[runtime](Path(model), outputs)
        count = len(next(iter(feeds.values())))
        parts = [run({k: v[i : i + BATCH] for k, v in feeds.items()}) for i in range(0, count, BATCH)]
    except Exception as error:  # every runtime has its own
        print(" ".join(str(error).split()), file=sys.stderr)
        raise SystemExit(REFUSED) from None
    np.savez(target, version=np.array(version), **{name: np.concatenate([p[name] for p in parts]) for name in outputs})


if __name__ == "__main__":
    main(*sys.argv[1:])
