"""Run an ONNX file in whatever ONNX Runtime this interpreter has.

It needs nothing of blrc, so that another interpreter (with an older runtime) can run it as a script:

    python -I worker.py MODEL IN.npz OUT.npz THREADS BATCH

IN holds the inputs by name, OUT receives all outputs by name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray


def load(model: bytes | str, threads: int) -> onnxruntime.InferenceSession:
    """Return a session on the CPU for a file's bytes or path; `threads` = 0 leaves their number to the runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, NDArray[Any]], batch: int
) -> dict[str, NDArray[Any]]:
    """Return all outputs by name, computed `batch` samples at a time; there must be at least one sample."""
    outputs = session.get_outputs()
    names = [output.name for output in outputs]
    count = len(next(iter(feeds.values())))
    parts = [session.run(names, {k: v[i : i + batch] for k, v in feeds.items()}) for i in range(0, count, batch)]
    # An output whose first dimension is a number is not one of each sample; it is the same in every batch.
    whole = [isinstance(output.shape[0], int) for output in outputs]
    return {
        name: parts[0][i] if whole[i] else np.concatenate([part[i] for part in parts]) for i, name in enumerate(names)
    }


def main(model: str, source: str, target: str, threads: str, batch: str) -> None:
    session = load(model, int(threads))
    with np.load(source, allow_pickle=False) as file:
        feeds = {name: file[name] for name in file.files}
    outputs: dict[str, Any] = run(session, feeds, int(batch))
    np.savez(target, **outputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
