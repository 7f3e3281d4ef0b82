"""What holds for every test of the project, doctests included. Fixtures that tests share are in tests/conftest.py."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

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

# The processes that share the tests have to agree on their order, also around midnight: they inherit it.
os.environ.setdefault("BLRC_NIGHT", date.today().isoformat())

# `make test` is a make of its own. The makes that tests start must not take themselves for its children: they would
# inherit its options, and say "Entering directory" around what the tests read.
for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(name, None)

# The same examples in every run: a red test must be red again when it is looked at. No deadline: other work may share
# the cores.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


def missing(reason: str) -> NoReturn:
    """Skip a test whose tool is absent. In CI, which installs everything, an absent tool is a failure instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (CI=true: nothing may be skipped)", pytrace=False)
    pytest.skip(reason)


# What tests cost, in CPU seconds of this process and of all that it has waited for: compilers, programs, emulators.

CI_SLOWEST = 30  # tests that CI lists
CI_MOST_SECONDS = 15.0  # the rule is ten: half as much again is for slower CPUs, and for what else runs there
_begun = time.monotonic()
_last = 0.0


def cpu_seconds() -> float:
    return sum(os.times()[:4])


def pytest_addoption(parser: pytest.Parser) -> None:
    ci = os.environ.get("CI") == "true"
    group = parser.getgroup("cost")
    group.addoption("--slowest", type=int, default=CI_SLOWEST if ci else 0, help="list so many tests by CPU time")
    group.addoption("--most-cpu", type=float, default=CI_MOST_SECONDS if ci else 0.0, help="limit of unmarked tests")
    group.addoption("--minutes", type=float, default=0.0, help="start no test later than so many minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs by night, unless `-m` speaks of it."""
    if "nightly" not in config.option.markexpr:
        nightly = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    if config.option.minutes:  # the files in an order of the day, so that not always the same ones are left over
        files = sorted({item.path for item in items})
        random.Random(os.environ["BLRC_NIGHT"]).shuffle(files)
        items.sort(key=lambda item: files.index(item.path))


def pytest_runtest_logstart() -> None:
    global _last
    _last = cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what setup, call and teardown cost; a call that costs too much, and is not marked, fails."""
    global _last
    report = yield
    report.cpu, _last = cpu_seconds() - _last, cpu_seconds()
    most = item.config.option.most_cpu
    marked = any(map(item.get_closest_marker, ("slow", "nightly")))
    if report.when == "call" and report.passed and not marked and 0 < most < report.cpu:
        report.outcome = "failed"
        report.longrepr = f"took {report.cpu:.1f} s of CPU time; make it cheaper, or mark it slow(reason) or nightly"
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.option.slowest:
        return
    reports = [each for found in terminalreporter.stats.values() for each in found if hasattr(each, "cpu")]
    folders: dict[str, float] = {}
    for each in reports:
        folder = str(Path(each.nodeid.partition("::")[0]).parent)
        folders[folder] = folders.get(folder, 0.0) + each.cpu
    terminalreporter.section(f"CPU time: {sum(folders.values()):.0f} s in all")
    for folder, spent in sorted(folders.items(), key=lambda one: -one[1]):
        terminalreporter.write_line(f"{spent:8.1f} s  {folder}")
    terminalreporter.section(f"{config.option.slowest} slowest by CPU time")
    for each in sorted(reports, key=lambda each: -each.cpu)[: config.option.slowest]:
        terminalreporter.write_line(f"{each.cpu:8.1f} s  {each.when:8} {each.nodeid}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.option.minutes and time.monotonic() - _begun > 60 * item.config.option.minutes:
        pytest.skip(f"the {item.config.option.minutes:g} minutes are over")
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
