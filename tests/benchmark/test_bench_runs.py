"""A run does its work as often as it is asked to: what is timed is not idle."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from random_programs import random_program

from blrc.benchmark.ours import Level
from blrc.benchmark.rivals import registry
from blrc.benchmark.rivals.registry import in_onnx_runtime
from blrc.benchmark.rivals.twins import float32_model
from blrc.benchmark.run import bench
from blrc.benchmark.subject import load
from blrc.errors import BlrcError
from blrc.targets.c.layout.layout import lay_out


def test_rounds_are_not_of_instructions(x86_folder: Path) -> None:
    with pytest.raises(BlrcError, match="--rounds 3 is about times, and --on counts instructions"):
        bench(x86_folder, on="cortex-m4", rounds=3)


def test_onnx_runtime_computes_at_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = onnxruntime.InferenceSession, []

    class Session:
        def __init__(self, model: bytes, options: Any, providers: list[str]) -> None:
            assert options.intra_op_num_threads == 1
            assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
            self.session = real(model, options, providers=providers)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.session, name)

        def run_with_iobinding(self, binding: Any) -> None:
            self.session.run_with_iobinding(binding)
            calls.append(binding.copy_outputs_to_cpu()[0].shape)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    program = random_program(1)
    in_onnx_runtime(float32_model(program, program.ops))(3)
    assert calls == [(1, program.classes)] * 3


def test_ours_is_run_by_the_c_so_many_times() -> None:
    program = random_program(1, members=2)
    calls: list[tuple[Any, ...]] = []
    native = SimpleNamespace(
        program=program,
        step=lambda op: next(s for s in lay_out(program).steps if s.op.name == op),
        run_op=lambda op, x, member, repeats: calls.append((op, x.shape, member, repeats)),
        scores=lambda raw, member: calls.append(("scores", raw.shape, member)),
        answers=lambda raw, members: calls.append(("answers", raw.shape, members)),
    )
    values = {value.name: np.zeros((1, *value.shape)) for value in (program.input, *(op.y for op in program.ops))}
    level = Level("portable", native, values)  # type: ignore[arg-type]
    last = program.ops[-1]
    level.step(last.name)(5)
    level.network()(6)
    level.ensemble()(7)
    shape = program.input.shape
    assert calls == [(last.name, (1, *last.x.shape), 0, 5), ("scores", (6, *shape), 0), ("answers", (7, *shape), 2)]


def test_our_onnx_step_contains_the_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []
    monkeypatch.setattr(registry, "in_onnx_runtime", lambda model: lambda repeats: parts.append(repeats))
    subject = load(random_program(1))
    first, second = subject.layout.steps[:2]
    assert first.encode is not None and second.encode is None
    registry.RIVALS[registry.OURS].step(subject, first)(4)
    registry.RIVALS[registry.OURS].step(subject, second)(2)
    assert parts == [4, 4, 2]
