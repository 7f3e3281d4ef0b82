"""Quantised networks of other people, imported and compared with their originals: docs/quantised.md.

    python tools/pages/quantised.py [--data DIR] [--files DIR]

Takes each file of QONNX's model zoo from --files, or downloads it. The original runs in ONNX Runtime, and its labels
are compared with those of the export on MNIST's test images, or on random codes where no images come with the network.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from template import fill

import blrc
from blrc.store.places import write_atomically
from blrc.verification.original.standard import standard

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quantised.md"
ZOO = "https://github.com/fastmachinelearning/qonnx_model_zoo"
MACHINE = "cortex-m4"
RANDOM = 1_000
OPSET = 11
"""The least version of ONNX's operators in which an original runs, since those before do not know how to round; the
operators of these files are the same in both."""
NEAR = 1e-3
"""Distance of an original's two largest scores below which its own float32 rounding may decide."""


@dataclass(frozen=True)
class Quantised:
    """Describe a file of the zoo.

    Attributes:
        place: its path below models.
        title, about: for the page.
        sha256: of the file.
        options: of `blrc import`.
        published: the accuracy that the zoo states on MNIST, in percent; None where no images are at hand.
    """

    place: str
    title: str
    about: str
    sha256: str
    options: dict[str, Any]
    published: float | None = None


FILES = (
    Quantised(
        "MNIST/Brevitas_FINN_TFC/TFC/TFC_1W2A.onnx",
        "TFC_1W2A",
        "784-64-64-64-10, binary weights, activations of -1, 0 and +1, trained with Brevitas",
        "0b43a8455310040c843a5b5a36405b87653c2b958cd529c9db659e051d72653f",
        {"input": "pixels"},
        94.79,
    ),
    Quantised(
        "MNIST/Brevitas_FINN_TFC/TFC/TFC_2W2A.onnx",
        "TFC_2W2A",
        "784-64-64-64-10, ternary weights, activations of -1, 0 and +1, trained with Brevitas",
        "db8de1cba8f808b23a4993ceb770910d99cc217186c663a36771b55cfcf69a8c",
        {"input": "pixels"},
        96.60,
    ),
    Quantised(
        "GSCV2/kwsmlp_w3a3/kwsmlp_w3a3.onnx",
        "kwsmlp_w3a3",
        "keyword spotting, 490-256-256-256-12, weights of 3 bits, activations of 3 bits, trained with Brevitas",
        "58c199de1dd041e133f0c92ac7db874db809c2405b64f359f9cba4b55afb408a",
        {},
    ),
    Quantised(
        "JetTagging/QKeras_hls4ml_3layer/qkeras_jettagging.onnx",
        "qkeras_jettagging",
        "jet tagging, 16-64-32-32-5, weights of 6 bits, activations of 6 bits, trained with QKeras",
        "1d9aa7e299790c8fdfad84a8c9de174f68cd3c1d2257f740e3951fa166f2f199",
        {"input": "int8", "scale": 16.0},
    ),
)


def file_of(each: Quantised, files: Path) -> Path:
    """Return the file, which is downloaded where it is not there."""
    path = files / Path(each.place).name
    if not path.exists():
        address = f"{ZOO}/raw/main/models/{each.place}"
        print(f"downloading {address}", flush=True)
        with urllib.request.urlopen(address) as answer:  # an address of this file, by https
            write_atomically(path, answer.read())
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != each.sha256:
        raise SystemExit(f"{path}: SHA-256 {found}, expected {each.sha256}; delete the file")
    return path


def scores_of(path: Path, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what ONNX Runtime gives for samples (N, features), one at a time, without optimising the file."""
    model = standard(path, {})
    for each in model.opset_import:
        each.version = max(each.version, OPSET)
    given = model.graph.input[0]
    shape = [max(1, dim.dim_value) for dim in given.type.tensor_type.shape.dim]
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.log_severity_level, settings.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    return np.concatenate([session.run(None, {given.name: row.reshape(shape)})[0].reshape(1, -1) for row in x])


def row_of(each: Quantised, path: Path, data: Path, work: Path) -> dict[str, Any]:
    """Return what the page says of a network."""
    found, folder = blrc.import_onnx(path, **each.options), work / path.stem
    blrc.export(found, folder=folder, name=path.stem.lower())
    report = blrc.verify(folder, random=RANDOM, on=MACHINE)
    print(report, flush=True)
    encoding, labels = found.encoding, None
    if each.published is not None:
        test = blrc.datasets.mnist(data, train=False)
        raw, labels = test.images.reshape(len(test.images), *encoding.shape), test.labels
        x = (test.images.astype(np.float32) / np.float32(255)).reshape(len(raw), -1)
    else:
        raw = np.random.default_rng(0).integers(-127, 128, (10_000, *encoding.shape)).astype(np.int8)
        x = (raw.astype(np.float64) * unit_of(path, encoding.scale)).astype(np.float32).reshape(len(raw), -1)
    with blrc.compile(folder) as net:
        ours = net(raw, order="NCHW")
    theirs = scores_of(path, x)
    best = np.sort(theirs, axis=1)
    differ = theirs.argmax(1) != ours
    close = best[:, -1] - best[:, -2] < NEAR * np.abs(theirs).max()
    device = report.devices[0]
    return {
        "title": each.title,
        "about": each.about,
        "place": each.place,
        "published": each.published,
        "original": None if labels is None else 100 * float(np.mean(theirs.argmax(1) == labels)),
        "ours": None if labels is None else 100 * float(np.mean(ours == labels)),
        "labels": int(differ.sum()),
        "clear": int((differ & ~close).sum()),
        "compared": len(raw),
        "flash": device.flash,
        "ram": device.ram,
        "stack": device.stack,
        "instructions": device.instructions,
        "passed": report.verdict == "yes",
    }


def unit_of(path: Path, scale: float) -> float:
    """Return what one code of the raw input stands for: the file's first quantiser says it, or the declared scale."""
    model = onnx.load(str(path))
    held = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            held[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        if model.graph.input[0].name in node.input:
            return float(held[node.input[1]].reshape(-1)[0]) if node.op_type == "Quant" else 1 / scale
    raise SystemExit(f"{path}: nothing reads its input")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT / "examples" / "mnist" / "data", help="Folder of MNIST.")
    parser.add_argument("--files", type=Path, help="Folder that has the files, or gets them.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        files = options.files or Path(work)
        files.mkdir(parents=True, exist_ok=True)
        rows = [row_of(each, file_of(each, files), options.data, Path(work)) for each in FILES]
    write_atomically(PAGE, fill("quantised.md.j2", rows=rows, random=RANDOM, zoo=ZOO).encode())
    return 0 if all(row["passed"] and not row["clear"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
