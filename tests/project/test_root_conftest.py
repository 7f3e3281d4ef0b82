"""The root conftest.py: an absent program is a reason to skip, in CI to fail; variables of make are taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SUITE = """
import pytest

@pytest.mark.needs("no-such-program")
def test_program(): ...

@pytest.mark.needs("sh")
def test_present(): ...

def test_old_runtime(ort117_python): ...

def test_packagers(packagers): ...
"""


@pytest.mark.parametrize(
    ("ci", "closing", "reason"),
    [
        ("", "1 passed, 3 skipped", "no-such-program is not installed"),
        ("true", "1 passed, 3 errors", "no-such-program is not installed (CI=true: nothing may be skipped)"),
    ],
)
def test_absent_tools(ci: str, closing: str, reason: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_suite.py"],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "BLRC_ORT117_PYTHON": str(tmp_path / "nowhere"), "BLRC_PACKAGERS": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert closing in done.stdout
    assert reason in done.stdout
    assert f"no ONNX Runtime 1.17 at {tmp_path / 'nowhere'}: run make ort117" in done.stdout
    assert f"no packagers at {tmp_path}: run make packagers" in done.stdout


@pytest.mark.needs("make")
def test_a_make_inside_a_test_is_not_the_child_of_the_one_that_runs_the_suite(tmp_path: Path) -> None:
    """Below `make test` it inherited -w, whose "Entering directory" lines stood around the output that tests read."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "Makefile").write_text("all:\n\t@echo made\n")
    (tmp_path / "test_suite.py").write_text(
        "import subprocess\n\ndef test_make():\n"
        "    done = subprocess.run(['make'], capture_output=True, text=True)\n"
        "    assert 'made' in done.stdout and 'directory' not in done.stdout\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_suite.py"],
        cwd=tmp_path,
        env={**os.environ, "MAKELEVEL": "1", "MAKEFLAGS": "w"},
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout
