"""What holds for every test of the project, doctests included. Fixtures that tests share are in tests/conftest.py."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

# Threads that wait by spinning cost as much as threads that work, where other processes want the cores. The runtime of
# OpenMP reads this once, so it has to come before torch.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from hypothesis import settings

from blrc.errors import BlrcError
from blrc.targets.c.machines.emulated import missing_tools
from blrc.targets.c.machines.simavr import SimAvr, build_runner
from blrc.targets.c.machines.table import Machine, find

ROOT = Path(__file__).parent

# `make test` is a make of its own. The makes that tests start must not take themselves for its children: they would
# inherit its options, and say "Entering directory" around what the tests read.
for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(name, None)

# The same examples in every run: a red test must be red again when it is looked at. No deadline: two shared cores.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


def missing(reason: str) -> NoReturn:
    """Skip a test whose tool is absent. In CI, which installs everything, an absent tool is a failure instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (CI=true: nothing may be skipped)", pytrace=False)
    pytest.skip(reason)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            if shutil.which(program) is None:
                missing(f"{program} is not installed")


@pytest.fixture(scope="session")
def ort117_python() -> Path:
    """The interpreter that has ONNX Runtime 1.17 (`make ort117` makes it; $BLRC_ORT117_PYTHON overrides)."""
    python = Path(os.environ.get("BLRC_ORT117_PYTHON", ROOT / ".venv-ort117" / "bin" / "python"))
    if not python.is_file():
        missing(f"no ONNX Runtime 1.17 at {python}: run make ort117")
    return python


def _consumer(name: str, file: str) -> Path:
    """What a runtime of `tools/pages/consumers.py` is run by ($BLRC_CONSUMERS is the folder of its environments)."""
    path = Path(os.environ.get("BLRC_CONSUMERS", ROOT / ".venv-consumers")) / name / file
    if not path.exists():
        missing(f"no {path}: run make consumers-ci")
    return path


@pytest.fixture(scope="session")
def ort117_consumer(ort117_python: Path) -> Path:
    return ort117_python


@pytest.fixture(scope="session")
def ort121_consumer() -> Path:
    return _consumer("ort121", "bin/python")


@pytest.fixture(scope="session")
def ort131_consumer() -> Path:
    return _consumer("ort131", "bin/python")


@pytest.fixture(scope="session")
def openvino_consumer() -> Path:
    return _consumer("openvino", "bin/python")


@pytest.fixture(scope="session")
def web_consumer() -> Path:
    if shutil.which("node") is None:
        missing("node is not installed")
    return _consumer("web", "node_modules/onnxruntime-web")


@pytest.fixture(scope="session")
def simulated_avr(tmp_path_factory: pytest.TempPathFactory) -> SimAvr:
    """An ATmega2560 in simavr."""
    if shutil.which("avr-gcc") is None:
        missing("avr-gcc is not installed (gcc-avr, avr-libc)")
    try:
        return SimAvr(build_runner(tmp_path_factory.mktemp("simavr")))
    except BlrcError as error:
        missing(str(error))


@pytest.fixture(scope="session")
def notorch_python() -> Path:
    """The interpreter without torch, onnx and onnxruntime (`make notorch` makes it; $BLRC_NOTORCH_PYTHON overrides)."""
    python = Path(os.environ.get("BLRC_NOTORCH_PYTHON", ROOT / ".venv-notorch" / "bin" / "python"))
    if not python.is_file():
        missing(f"no environment without torch at {python}: run make notorch")
    return python


@pytest.fixture(scope="session")
def packagers() -> Path:
    """The folder of `pio`, `compote` and a `python` with kconfiglib and ruamel.yaml (`make packagers` makes it;
    $BLRC_PACKAGERS overrides)."""
    folder = Path(os.environ.get("BLRC_PACKAGERS", ROOT / ".venv-packagers" / "bin"))
    if not (folder / "compote").is_file():
        missing(f"no packagers at {folder}: run make packagers")
    return folder


@pytest.fixture
def emulated(request: pytest.FixtureRequest) -> Machine:
    """The machine that the test is parametrised with (indirectly, by name), if its tools are here."""
    machine = find(request.param)
    for tool in missing_tools(machine):
        missing(f"{tool.program} is not installed ({tool.package})")
    return machine
