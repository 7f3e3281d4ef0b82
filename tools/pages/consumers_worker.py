"""Run ONNX files in one runtime: python consumers_worker.py RUNTIME FOLDER OUT.

It needs NumPy and the runtime, and nothing of blrc, so that every runtime can live in an environment of its own.
FOLDER holds NAME.onnx and NAME.json for every file: {"inputs": {INPUT: {"type", "dims", "file"}}, "outputs": [OUTPUT],
"batch"}, whose files hold the raw elements. OUT receives NAME.json: {"version", "outputs": {OUTPUT: {"type", "dims",
"file"}}}, or {"version", "refused"}: the runtime's reason. `consumers_web.mjs` does the same in Node.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]


def onnxruntime(model: Path, outputs: list[str]) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return lambda feeds: dict(zip(outputs, session.run(outputs, feeds), strict=True))


def openvino(model: Path, outputs: list[str]) -> Run:
    import openvino as ov

    core = ov.Core()
    # A processor with bfloat16 would take it for float32, and 8 bits do not hold a sum.
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()

    def run(feeds: Arrays) -> Arrays:
        found = request.infer(feeds)
        return {name: np.array(found[compiled.output(name)]) for name in outputs}

    return run


def opencv(model: Path, outputs: list[str]) -> Run:
    import cv2

    net = cv2.dnn.readNetFromONNX(str(model))

    def run(feeds: Arrays) -> Arrays:
        for name, array in feeds.items():
            net.setInput(array, name)
        return dict(zip(outputs, (np.array(array) for array in net.forward(outputs)), strict=True))

    return run


def tinygrad(model: Path, outputs: list[str]) -> Run:
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    runner = OnnxRunner(str(model))

    def run(feeds: Arrays) -> Arrays:
        found = runner({name: Tensor(array) for name, array in feeds.items()})
        return {name: found[name].numpy() for name in outputs}

    return run


PACKAGES = {"opencv": "opencv-python-headless"}
RUNTIMES = {"onnxruntime": onnxruntime, "openvino": openvino, "opencv": opencv, "tinygrad": tinygrad}


def main(runtime: str, folder: str, out: str) -> None:
    for model in sorted(Path(folder).glob("*.onnx")):
        wanted = json.loads(model.with_suffix(".json").read_text())
        said: dict[str, object] = {"version": version(PACKAGES.get(runtime, runtime))}
        try:
            feeds = {name: _array(about) for name, about in wanted["inputs"].items()}
            run = RUNTIMES[runtime](model, wanted["outputs"])
            count = len(next(iter(feeds.values())))
            starts = range(0, count, wanted["batch"])
            parts = [run({name: array[i : i + wanted["batch"]] for name, array in feeds.items()}) for i in starts]
        except Exception as error:  # every runtime has its own
            said["refused"] = " ".join(str(error).split()) or type(error).__name__
        else:
            said["outputs"] = outputs = {}
            for name in wanted["outputs"]:
                array = np.concatenate([np.atleast_1d(part[name]) for part in parts])
                file = Path(out) / f"{model.stem}.{name}.bin"
                array.tofile(file)
                outputs[name] = {"type": str(array.dtype), "dims": array.shape, "file": str(file)}
        (Path(out) / f"{model.stem}.json").write_text(json.dumps(said))


def _array(about: dict) -> np.ndarray:
    return np.fromfile(about["file"], dtype=about["type"]).reshape(about["dims"])


if __name__ == "__main__":
    main(*sys.argv[1:])
