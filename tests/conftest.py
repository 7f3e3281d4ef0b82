"""Fixtures that tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import blrc
from blrc.targets.c.native import library

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder that has the real data sets: $BLRC_DATA, or shared/data beside the project."""
    folder = Path(os.environ.get("BLRC_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder}; set BLRC_DATA")
    return folder


@pytest.fixture(scope="session")
def mnist_folder(data_folder: Path) -> Path:
    """The folder of MNIST's IDX files."""
    folder = data_folder / "mnist"
    if not (folder / "t10k-images-idx3-ubyte.gz").is_file():
        pytest.skip(f"MNIST is not at {folder}; set BLRC_DATA to the folder above it")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither use nor fill the user's cache. All workers of a run share one, so that nothing compiles twice."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-cache"
    folder.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BLRC_CACHE", str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def _compiled_in_little_time(pytestconfig: pytest.Config) -> Iterator[None]:
    """Ask `blrc.compile` for less optimisation by day, on which its answers do not depend.

    Tests that name the levels that users get (`test_runtime_parts.py`, `test_c_agreement.py`), commands, and the night
    compile with those.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "nightly" not in pytestconfig.option.markexpr:
            patch.setattr(library, "OPTIMISED", ("-O1",))
        yield


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Every test starts from the same state of torch's default generator, and leaves none behind."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(scope="session")
def x86_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """C for x86-64 and ONNX."""
    folder = tmp_path_factory.mktemp("bench") / "x86"
    blrc.export(GOLDEN / "tiny.pt", folder=folder, targets=["c", "onnx"], cpu="x86-64")
    return folder


@pytest.fixture(scope="session")
def ensemble_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Portable C of three members, and ONNX."""
    folder = tmp_path_factory.mktemp("bench") / "three"
    blrc.export(GOLDEN / "tiny.pt", folder=folder, targets=["c", "onnx"], members="3")
    return folder


@pytest.fixture(autouse=True)
def _without_larq(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it installed sees the same tests."""
    monkeypatch.delenv("BLRC_LCE_PYTHON", raising=False)


@pytest.fixture(autouse=True)
def _without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as they are, also where the tests are shared among processes, which set the width."""
    monkeypatch.delenv("COLUMNS", raising=False)
