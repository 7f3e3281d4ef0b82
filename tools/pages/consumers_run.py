"""Which runtimes read our ONNX files, how one is started, and how what it says is compared. See `consumers.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BATCH = 250
Arrays = Mapping[str, NDArray]


@dataclass(frozen=True)
class Consumer:
    """A runtime that reads the file.

    Attributes:
        title: what people call it.
        runtime: of `consumers_worker.RUNTIMES`, or ``web``.
        environment: of `make consumers`, in the folder .venv-consumers; None is this interpreter's, and ``ort117`` the
            environment of that name.
        reads_integers: whether it has the operators of the integer form.
    """

    title: str
    runtime: str
    environment: str | None
    reads_integers: bool = True

    @property
    def program(self) -> tuple[str, ...]:
        """The command that runs a folder of files; the two folders follow."""
        if self.runtime == "web":
            return ("node", str(HERE / "consumers_web.mjs"), str(environments() / "web" / "node_modules"))
        return (str(self.python), "-I", str(HERE / "consumers_worker.py"), self.runtime)

    @property
    def python(self) -> Path:
        if self.environment is None:
            return Path(sys.executable)
        if self.environment == "ort117":
            return Path(os.environ.get("BLRC_ORT117_PYTHON", ROOT / ".venv-ort117" / "bin" / "python"))
        return environments() / self.environment / "bin" / "python"

    @property
    def installed(self) -> bool:
        needed = Path(self.program[-1]) / "onnxruntime-web" if self.runtime == "web" else self.python
        return needed.exists()


def environments() -> Path:
    return Path(os.environ.get("BLRC_CONSUMERS", ROOT / ".venv-consumers"))


CONSUMERS = (
    Consumer("ONNX Runtime, oldest", "onnxruntime", "ort117"),
    Consumer("ONNX Runtime, in between", "onnxruntime", "ort121"),
    Consumer("ONNX Runtime, in between", "onnxruntime", "ort131"),
    Consumer("ONNX Runtime, newest", "onnxruntime", None),
    Consumer("onnxruntime-web, in Node", "web", "web"),
    Consumer("OpenVINO", "openvino", "openvino"),
    Consumer("tinygrad", "tinygrad", "tinygrad"),
    Consumer("OpenCV 4", "opencv", "opencv4", reads_integers=False),
    Consumer("OpenCV 5", "opencv", "opencv5", reads_integers=False),
)


@dataclass(frozen=True, eq=False)
class Case:
    """A file, inputs, and the outputs that it has to give."""

    name: str
    model: bytes
    feeds: Arrays
    wanted: Arrays


@dataclass(frozen=True)
class Said:
    """What a runtime says of one case: empty `differs` and no `refused` are equality in every output.

    Attributes:
        differs: by output, how many of its numbers differ.
    """

    version: str
    differs: Mapping[str, int]
    refused: str | None = None

    @property
    def equal(self) -> bool:
        return self.refused is None and not any(self.differs.values())


def run(consumer: Consumer, cases: Sequence[Case], batch: int = BATCH) -> dict[str, Said]:
    """Run all cases in one process of the consumer, and compare every output of each."""
    with TemporaryDirectory(prefix="blrc-consumers-") as work:
        folder, out = Path(work) / "in", Path(work) / "out"
        folder.mkdir()
        out.mkdir()
        for case in cases:
            (folder / f"{case.name}.onnx").write_bytes(case.model)
            inputs = {}
            for name, array in case.feeds.items():
                file = folder / f"{case.name}.{name}.bin"
                file.write_bytes(np.ascontiguousarray(array).tobytes())
                inputs[name] = {"type": str(array.dtype), "dims": array.shape, "file": str(file)}
            about = {"inputs": inputs, "outputs": list(case.wanted), "batch": batch}
            (folder / f"{case.name}.json").write_text(json.dumps(about))
        done = subprocess.run([*consumer.program, folder, out], capture_output=True, text=True, check=False, cwd=work)
        said = {}
        for case in cases:
            file = out / f"{case.name}.json"
            if not file.is_file():
                raise RuntimeError(
                    f"{consumer.title} ended with {done.returncode} at {case.name}: {done.stderr[-500:]}"
                )
            said[case.name] = _compare(case, json.loads(file.read_text()))
        return said


def _compare(case: Case, found: Mapping) -> Said:
    if "refused" in found:
        return Said(found["version"], {}, found["refused"])
    differs = {}
    for name, wanted in case.wanted.items():
        about = found["outputs"][name]
        array = np.fromfile(about["file"], dtype=about["type"]).reshape(about["dims"])
        same_kind = array.shape == wanted.shape and array.dtype == wanted.dtype
        differs[name] = int((array != wanted).sum()) if same_kind else wanted.size
    return Said(found["version"], differs)
