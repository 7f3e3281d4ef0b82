"""A tiny model, exported in several ways."""

from __future__ import annotations

from pathlib import Path

import pytest

import blrc

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"


@pytest.fixture(scope="session")
def x86_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """C for x86-64 and ONNX."""
    folder = tmp_path_factory.mktemp("bench") / "x86"
    blrc.export(TINY, folder, ["c", "onnx"], cpu="x86-64")
    return folder


@pytest.fixture(scope="session")
def ensemble_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Portable C of three members, and ONNX."""
    folder = tmp_path_factory.mktemp("bench") / "three"
    blrc.export(TINY, folder, ["c", "onnx"], members="3")
    return folder


@pytest.fixture(autouse=True)
def _without_larq(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it installed sees the same tests."""
    monkeypatch.delenv("BLRC_LCE_PYTHON", raising=False)
