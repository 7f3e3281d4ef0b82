"""Run Larq Compute Engine as a rival in a process of another interpreter, since its TensorFlow needs another NumPy.

``$BLRC_LCE_PYTHON`` names that interpreter. Binary layers, including dense ones, become its binary convolutions. First
and last layers are in float32, as in all of its networks. Inputs and outputs are float32, and padding is with 1 instead
of 0, since its fast kernels support no other.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from blrc.benchmark.clock import Run, Time
from blrc.benchmark.rivals import lce_worker
from blrc.benchmark.rivals.computing import computing
from blrc.errors import BlrcError
from blrc.program.ops.binarize import Binarize
from blrc.program.ops.flatten import Flatten
from blrc.program.program import Conv, Encode, Op, Pool, Window

VARIABLE = "BLRC_LCE_PYTHON"
LCE = "larq"
PACKAGES = "larq-compute-engine larq 'tensorflow-cpu<2.16' 'numpy<2'"
WORKER = lce_worker.__file__


def interpreter(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the interpreter that has Larq Compute Engine, or None if the environment names none."""
    return (os.environ if environment is None else environment).get(VARIABLE) or None


def missing() -> str | None:
    """Return in words why Larq Compute Engine is left out, or None if an interpreter is named."""
    if interpreter() is not None:
        return None
    return f"name an interpreter that has it in {VARIABLE} (Python 3.10 or 3.11: pip install {PACKAGES})"


def network(ops: Sequence[Op], bare: bool = False) -> dict[str, Any] | None:
    """Describe the layers that the worker builds for some consecutive ops, or return None where it has no such layers.

    Args:
        ops: consecutive ops of a program.
        bare: describe convolutions alone, without norm and pooling.
    """
    if not computing(ops):
        return None
    built = [op for op in ops if not isinstance(op, Encode | Binarize)]
    layers: list[dict[str, Any]] = []
    for op in built:
        if isinstance(op, Flatten):
            layers.append({"kind": "flatten"})
        elif op.is_scores:
            layers.append({"kind": "dense", "outputs": op.y.shape[2]})
        elif isinstance(op, Pool):
            layers.append(_pool(op.window))
        elif isinstance(op, Conv):
            padding = _padding(op)
            if padding is None or op.groups > 1 or op.window.dilation != (1, 1):
                return None
            layers.append(
                {
                    "kind": "conv",
                    "outputs": op.y.shape[2],
                    "kernel": list(op.window.kernel),
                    "stride": list(op.window.stride),
                    "padding": padding,
                    "binary": op.x.dtype == "bits",
                    "norm": not bare,
                }
            )
            if op.pool is not None and not bare:
                layers.append(_pool(op.pool))
        else:
            return None
    pools = [op.window if isinstance(op, Pool) else op.pool for op in built if isinstance(op, Pool | Conv)]
    if any(pool is not None and (any(pool.padding) or pool.dilation != (1, 1)) for pool in pools):
        return None
    return {"input": list(built[0].x.shape), "layers": layers}


def _pool(window: Window) -> dict[str, Any]:
    return {"kind": "pool", "kernel": list(window.kernel), "stride": list(window.stride)}


def _padding(op: Conv) -> str | None:
    """Return TensorFlow's name of the padding, ``valid`` or ``same``, or None if TensorFlow has no such padding."""
    if not any(op.window.padding):
        return "valid"
    odd = all(k % 2 == 1 for k in op.window.kernel)
    half = tuple(k // 2 for k in op.window.kernel) * 2
    return "same" if odd and op.window.padding == half and op.window.stride == (1, 1) else None


class Engine:
    """Run the worker process, which lives as long as this object's ``with`` block.

    Args:
        networks: descriptions that `network` returned.
        python: path of the interpreter.

    Attributes:
        version: version of Larq Compute Engine.

    Raises:
        BlrcError: the interpreter cannot be started, or lacks a package.
    """

    def __init__(self, networks: Sequence[dict[str, Any]], python: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="blrc-lce-")
        place = Path(self._folder.name)
        (place / "networks.json").write_text(json.dumps(list(networks)), encoding="utf-8")
        self._errors = (place / "errors").open("w+", encoding="utf-8", errors="replace")
        command = [python, "-I", str(WORKER), str(place / "networks.json")]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
            )
        except OSError as error:
            self._errors.close()
            self._folder.cleanup()
            raise BlrcError(f"{VARIABLE}={python}: cannot be started: {error.strerror or error}") from None
        try:
            self.version = self._answer("ready")[0]
        except BaseException:
            self.close()
            raise

    def run(self, index: int) -> Run:
        """Return a run of the network with this index, which is timed in the worker process."""

        def run(repeats: int) -> Time:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):  # `_answer` then reports the failure
                self._process.stdin.write(f"{index} {repeats}\n")
                self._process.stdin.flush()
            cpu, wall = self._answer()
            return Time(float(cpu), float(wall))

        return run

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._errors.close()
        self._folder.cleanup()

    def _answer(self, *start: str) -> list[str]:
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if words[: len(start)] != list(start) or len(words) <= len(start):
            self._process.wait()
            self._errors.seek(0)
            said = (self._errors.read().strip().splitlines() or ["it said nothing"])[-1]
            raise BlrcError(f"{VARIABLE}: Larq Compute Engine cannot be timed: {said}")
        return words[len(start) :]

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
