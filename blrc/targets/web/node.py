"""Run an exported page's own scripts in Node, so that the shipped WebAssembly module runs without a browser."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program.head import Answer
from blrc.program.program import Program
from blrc.targets.c.build.compiler import run_tool
from blrc.targets.web.emit import FOLDER

_SCRIPT = Path(__file__).parent / "ask.js"


def answers(folder: Path, program: Program, raw: NDArray[Any]) -> Answer:
    """Return what the page in an export answers to raw inputs (device layout, uint8).

    Raises:
        BlrcError: Node is missing, or the page's scripts are missing or fail.
    """
    node = shutil.which("node")
    if node is None:
        raise BlrcError("node, which runs the page's scripts, was not found; install nodejs (apt-get install nodejs)")
    with tempfile.TemporaryDirectory(prefix="blrc-page-") as temporary:
        inputs, output = Path(temporary) / "inputs", Path(temporary) / "answers"
        inputs.write_bytes(raw.astype(np.uint8, copy=False).tobytes())
        run_tool([node, str(_SCRIPT), str(folder / FOLDER), str(inputs), str(output)], "running the page in Node")
        found = np.frombuffer(output.read_bytes(), "<i4").astype(np.int64)
    if found.size != len(raw) * (4 + program.classes):
        raise BlrcError(f"{folder / FOLDER}: its scripts gave {found.size} numbers for {len(raw)} inputs; export again")
    table = found.reshape(len(raw), -1)
    return Answer(label=table[:, 0], log_p=table[:, 4:], mean=table[:, 2], variance=table[:, 3], members=table[:, 1])
