"""List the other ways to run a network, ready to be timed in one thread with batch 1, on one sample."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blrc.benchmark.clock import Run
from blrc.benchmark.rivals.computing import computing
from blrc.benchmark.subject import Subject
from blrc.errors import BlrcError
from blrc.extras import EXTRAS
from blrc.targets.c.kernels.kernel import Step

if TYPE_CHECKING:
    import onnxruntime

FLOAT32, INT8, OURS, TORCH = "ort float32", "ort int8", "our onnx", "torch float32"


@dataclass(frozen=True)
class Rival:
    """Describe another way to run the same network, or a network of the same shapes.

    Attributes:
        packages: names of the packages that it needs.
        step: returns a run of what one step of the C does; None if it has nothing to compute there.
        network: returns a run of one network, or of all members of an ensemble if the second argument is true; None if
            it has no such run.
    """

    packages: tuple[str, ...]
    step: Callable[[Subject, Step], Run | None]
    network: Callable[[Subject, bool], Run | None]

    @property
    def missing(self) -> str | None:
        """Return in words why this rival is left out, or None if all of its packages are installed."""
        lacking = [package for package in self.packages if importlib.util.find_spec(package) is None]
        extras = ",".join(dict.fromkeys(EXTRAS[package] for package in lacking if package in EXTRAS))
        wanted = [*([f"'blrc[{extras}]'"] if extras else []), *(name for name in lacking if name not in EXTRAS)]
        return f"{', '.join(lacking)} not installed: pip install {' '.join(wanted)}" if lacking else None


def in_onnx_runtime(model: bytes, seed: int = 1) -> Run:
    """Return a run of an ONNX file with one input in ONNX Runtime, with all optimisations, on random values.

    Input and outputs are bound once, so that no array is passed from Python at each run.

    Args:
        model: content of the file.
        seed: random seed of the values.

    Raises:
        BlrcError: the runtime refuses the file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's exceptions share no base class
        said = " ".join(str(error).split())
        raise BlrcError(f"ONNX Runtime {onnxruntime.__version__} refuses a file to compare with: {said}") from None
    binding = session.io_binding()
    (value,) = session.get_inputs()
    binding.bind_cpu_input(value.name, _random(value, seed))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")

    def run(repeats: int) -> None:
        for _ in range(repeats):
            session.run_with_iobinding(binding)

    return run


def _random(value: onnxruntime.NodeArg, seed: int) -> NDArray[Any]:
    """Return a sample that an ONNX file takes: of -1 and +1, or any 8-bit values, which do not affect the time."""
    shape = [size if isinstance(size, int) else 1 for size in value.shape]
    rng = np.random.default_rng(seed)
    if value.type == "tensor(float)":
        return rng.integers(0, 2, shape).astype(np.float32) * 2 - 1
    return rng.integers(0, 256, shape).astype(np.int8 if value.type == "tensor(int8)" else np.uint8)


def _float32_step(subject: Subject, step: Step) -> Run | None:
    from blrc.benchmark.rivals.twins import float32_model

    return in_onnx_runtime(float32_model(subject.program, [step.op])) if computing([step.op]) else None


def _float32(subject: Subject, whole: bool) -> Run | None:
    from blrc.benchmark.rivals.twins import float32_model

    return None if whole else in_onnx_runtime(float32_model(subject.program, subject.program.ops))


def _int8_step(subject: Subject, step: Step) -> Run | None:
    from blrc.benchmark.rivals.twins import int8_model

    return in_onnx_runtime(int8_model(subject.program, [step.op])) if computing([step.op]) else None


def _int8(subject: Subject, whole: bool) -> Run | None:
    from blrc.benchmark.rivals.twins import int8_model

    return None if whole else in_onnx_runtime(int8_model(subject.program, subject.program.ops))


def _torch_step(subject: Subject, step: Step) -> Run | None:
    from blrc.benchmark.rivals.torch_twin import in_torch

    return in_torch(subject.program, [step.op]) if computing([step.op]) else None


def _torch(subject: Subject, whole: bool) -> Run | None:
    from blrc.benchmark.rivals.torch_twin import in_torch

    return None if whole else in_torch(subject.program, subject.program.ops)


def _ours_step(subject: Subject, step: Step) -> Run:
    """Return a run of our ONNX ops for a step, including the look-up of codes if the C's step contains it."""
    from blrc.targets.onnx.emit import op_model
    from blrc.targets.onnx.session import form_of

    form = "integer" if subject.onnx is None else form_of(subject.onnx)
    ops = [op for op in (step.encode, step.op) if op is not None]
    parts = [in_onnx_runtime(op_model(subject.program, op, form=form)) for op in ops]

    def run(repeats: int) -> None:
        for part in parts:
            part(repeats)

    return run


def _ours(subject: Subject, whole: bool) -> Run | None:
    """Return a run of our ONNX file as it is.

    It contains all members, so there is no run of a single network of an ensemble.
    """
    several = len(subject.program.members) > 1
    return None if subject.onnx is None or whole != several else in_onnx_runtime(subject.onnx)


RIVALS: Mapping[str, Rival] = {
    OURS: Rival(("onnx", "onnxruntime"), _ours_step, _ours),
    FLOAT32: Rival(("onnx", "onnxruntime"), _float32_step, _float32),
    INT8: Rival(("onnx", "onnxruntime"), _int8_step, _int8),
    TORCH: Rival(("onnx", "torch"), _torch_step, _torch),
}
