"""The wheel, installed away from the repository, is complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("blrc", "runtime", "pyproject.toml", "README.md", "LICENSE")

TINY_CHECKPOINT = """
import sys
from collections import OrderedDict

import numpy as np
import torch

import blrc
from blrc import encode, nn

torch.manual_seed(0)
model = torch.nn.Sequential(
    OrderedDict(
        conv=nn.BinaryConv2d(1, 3, 3, padding=1),
        norm=nn.StochasticBatchNorm2d(3),
        sign=nn.StochasticSign(),
        flatten=torch.nn.Flatten(),
        scores=nn.SoftmaxLinear(3 * 4 * 4, 3),
    )
)
raw = np.random.default_rng(0).integers(0, 256, (64, 1, 4, 4), dtype=np.uint8)
blrc.save(model, sys.argv[1], input=encode.pixels((1, 4, 4), mean=(0.5,), std=(0.25,)), calibration=raw)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that sees neither the repository nor our environment's settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BLRC"))}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Built from a copy without version control, whose list of ignored files decides nothing then.
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    run("cp", "-R", *(ROOT / name for name in SOURCES), source, cwd=ROOT)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", output, source, cwd=output)
    (built,) = output.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of a fresh environment with the wheel in it; PyTorch and the like are borrowed from ours."""
    home = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    run(
        *(sys.executable, "-m", "pip", "--python", home / "bin" / "python"),
        *("install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel),
        cwd=home,
    )
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def files(folder: Path, *patterns: str) -> set[str]:
    return {file.relative_to(folder).as_posix() for pattern in patterns for file in folder.rglob(pattern)}


def test_wheel_holds_every_source_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in names if ".dist-info/" not in name}
    runtime = {
        f"blrc/_runtime/{part}/{name}"
        for part in ("include", "src", "machines")
        for name in files(ROOT / "runtime" / part, "*.[ch]")
    }
    python = {f"blrc/{name}" for name in files(ROOT / "blrc", "*.py", "py.typed")}
    assert "blrc/_runtime/include/blrc.h" in package
    web = {f"blrc/targets/web/{name}" for name in files(ROOT / "blrc" / "targets" / "web", "*.c", "*.js", "page/*")}
    assert "blrc/targets/web/page/index.html" in web
    assert package == runtime | python | web | {"blrc/benchmark/peak.c", "blrc/targets/c/naming/taken_names.txt"}
    assert any(name.endswith("/LICENSE") for name in names)


def test_wheel_has_the_version_of_the_package(wheel: Path) -> None:
    import blrc

    assert wheel.name == f"blrc-{blrc.__version__}-py3-none-any.whl"


def test_constraints_pin_every_requirement() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [each for group in project["optional-dependencies"].values() for each in group]
    wanted = [requirement for requirement in wanted if not requirement.startswith("blrc[")]
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert {requirement.partition(">=")[0] for requirement in wanted} <= pinned


def test_installed_runtime_is_the_wheel_s(installed: Path, tmp_path: Path) -> None:
    print_places = "import blrc, blrc.targets.c.runtime_files as r; print(blrc.__file__); print(r.runtime_dir())"
    package, runtime = map(Path, run(installed / "python", "-c", print_places, cwd=tmp_path).splitlines())
    home = installed.parent.resolve()
    assert package.resolve().is_relative_to(home)
    assert runtime.resolve().is_relative_to(home)
    for part in ("include", "src"):
        for name in files(ROOT / "runtime" / part, "*.[ch]"):
            assert (runtime / part / name).read_bytes() == (ROOT / "runtime" / part / name).read_bytes()


def test_installed_program_exports_and_verifies(installed: Path, tmp_path: Path) -> None:
    run(installed / "python", "-c", TINY_CHECKPOINT, "tiny.pt", cwd=tmp_path)
    run(installed / "blrc", "export", "tiny.pt", "--target", "c", "--target", "onnx", "-o", "out", cwd=tmp_path)
    report = json.loads(run(installed / "blrc", "verify", "out", "--json", cwd=tmp_path))
    assert report["equal"] is True
    assert report["values_compared"] > 0


def test_the_oldest_versions_are_those_that_are_promised() -> None:
    """`make oldest` runs with constraints-oldest.txt; torch is left out, since its tested version serves there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [wanted for name, of in project["optional-dependencies"].items() if name != "dev" for wanted in of]
    promised = dict(
        wanted.split(">=") for wanted in {*project["dependencies"], *extras} if not wanted.startswith(("torch", "blrc"))
    )
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints-oldest.txt").read_text().splitlines() if "==" in line
    )
    assert set(pinned) == set(promised)
    for name, version in promised.items():
        whole = [*map(int, version.split(".")), 0, 0][:3]
        assert list(map(int, pinned[name].split("."))) == whole, (
            f"{name}: {pinned[name]} is tested, >={version} promised"
        )
