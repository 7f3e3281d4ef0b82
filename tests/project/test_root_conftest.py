"""The root conftest.py: an absent program is a reason to skip, in CI to fail; variables of make are taken away; what a
test costs is known and limited."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from by_night import night_rows

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
        ("true", "1 passed, 3 errors", "no-such-program is not installed (CI=true: nothing may be skipped)"),
        *night_rows(("", "1 passed, 3 skipped", "no-such-program is not installed")),
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


@pytest.mark.nightly
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


COST = """
import os
import subprocess
import sys
import time

import pytest

SPIN = "import time\\nwhile time.process_time() < 0.4: pass"

def test_idle():
    time.sleep(0.5)

def test_busy():
    subprocess.run([sys.executable, "-c", SPIN], check=True)

@pytest.mark.slow("spins")
def test_marked():
    subprocess.run([sys.executable, "-c", SPIN], check=True)

@pytest.mark.nightly
def test_by_night(): ...

@pytest.fixture
def busy():
    exec(SPIN.replace("0.4", str(time.process_time() + 0.4)))

def test_with_a_fixture(busy): ...
"""


def cost(folder: Path, *options: str, ci: str = "") -> str:
    """What pytest prints of the tests above."""
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_cost.py").write_text(COST)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *options, "tests"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "CI": ci}, capture_output=True, text=True)
    return done.stdout


@pytest.mark.nightly
def test_a_test_that_costs_too_much_fails_in_ci_unless_it_is_marked(tmp_path: Path) -> None:
    """CPU time of the programs that it starts counts; waiting and fixtures do not. The workers' tests count here."""
    said = cost(tmp_path, "--most-cpu", "0.3", "-n", "1", ci="true")
    assert "1 failed, 3 passed" in said  # and the one of the night is left out
    assert re.search(
        r"test_busy _+\n(\[gw0\].*\n)?took \d\.\d s of CPU time; make it cheaper, or mark it slow\(re", said
    )
    total = re.search(r"CPU time: (\d+) s in all", said)
    assert total is not None and int(total[1]) >= 1
    assert "30 slowest by CPU time" in said
    listed = re.findall(r"^ +(\d+\.\d) s  (\w+) +tests/test_cost\.py::(\w+)$", said, re.MULTILINE)
    most = [("call", "test_busy"), ("call", "test_marked"), ("setup", "test_with_a_fixture")]
    assert sorted((when, name) for _, when, name in listed[:3]) == most
    assert all(float(spent) >= 0.4 for spent, _, _ in listed[:3])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "closing"),
    [((), "1 passed, 4 deselected"), (("--minutes", "0.00001"), "1 skipped, 4 deselected")],
)
def test_nightly_tests_run_where_they_are_asked_for(tmp_path: Path, options: tuple[str, ...], closing: str) -> None:
    said = cost(tmp_path, "-m", "nightly", *options)
    assert closing in said and "slowest" not in said
