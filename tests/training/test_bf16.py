"""What a user is told of bfloat16."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from small_mnist import small_mnist, write_images

from blrc.nn import models
from blrc.training.machine import bf16
from blrc.training.recipe import Recipe
from blrc.training.run import run


def test_the_slowdown_is_of_this_cpu() -> None:
    assert 0.05 < bf16.slowdown() < 200


def test_both_types_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only a convolution moves, by 3 in bfloat16 and by 2 in float32."""
    clock = [0.0]

    def convolve(inputs: torch.Tensor, weights: torch.Tensor, padding: int) -> None:
        assert inputs.dtype == weights.dtype
        clock[0] += {torch.bfloat16: 3.0, torch.float32: 2.0}[inputs.dtype]

    monkeypatch.setattr(bf16.F, "conv2d", convolve)
    monkeypatch.setattr(bf16.time, "perf_counter", lambda: clock[0])
    assert bf16.slowdown() == 1.5


@pytest.mark.parametrize(
    ("precision", "ratio", "told"),
    [("bfloat16", 8.26, True), ("bfloat16", 1.19, False), ("float32", 8.26, False)],
)
def test_a_run_says_that_bfloat16_is_slow(
    precision: Any, ratio: float, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "mnist", small_mnist)
    monkeypatch.setattr(bf16, "slowdown", lambda: ratio)
    write_images(tmp_path)
    stream = io.StringIO()
    recipe = Recipe(epochs=1, pretrain_epochs=0, batch=20, validation=40, calibration=16, precision=precision)
    run(tmp_path / "x.pt", tmp_path, recipe, stream=stream)
    line = "note: convolutions take 8.3 times as long in bfloat16 as in float32 on this CPU: leave out --precision"
    assert (line in stream.getvalue()) == told
    assert ("note:" in stream.getvalue()) == told
