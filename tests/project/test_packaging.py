"""The source distribution has all of the project; the wheel that is built from it, installed elsewhere, is complete."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_SHIPPED = (".ci/",)

TINY_CHECKPOINT = """
import sys
from collections import OrderedDict

import numpy as np
import torch

import blrc
from blrc import nn
from blrc.net import encoding

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
blrc.save(model, path=sys.argv[1], input=encoding.pixels((1, 4, 4), mean=(0.5,), std=(0.25,)), calibration=raw)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that sees neither the repository nor our environment's settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BLRC"))}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    output = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", output, ROOT, cwd=output)
    (built,) = output.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        archive.extractall(output, filter="data")
    return output / built.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", output, sdist, cwd=output)
    (built,) = output.glob("*.whl")
    return built


def fresh(home: Path, *what: str | Path) -> Path:
    """Make an environment, install something into it, lend it our packages; return its folder of packages."""
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--quiet", "--no-deps")
    run(*pip, "--no-index", "--no-compile", "--no-build-isolation", *what, cwd=home)
    return packages


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of a fresh environment with the wheel in it; PyTorch and the like are borrowed from ours."""
    home = tmp_path_factory.mktemp("fresh") / "venv"
    fresh(home, wheel)
    return home / "bin"


def files(folder: Path, *patterns: str) -> set[str]:
    return {file.relative_to(folder).as_posix() for pattern in patterns for file in folder.rglob(pattern)}


def test_sdist_has_every_file_of_the_repository(sdist: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    tracked = {name for name in run("git", "ls-files", cwd=ROOT).splitlines() if (ROOT / name).exists()}
    wanted = {name for name in tracked if not name.startswith(NOT_SHIPPED)}
    shipped = {path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if path.is_file()}
    assert wanted <= shipped
    assert shipped - tracked <= {"PKG-INFO", *run("git", "ls-files", "-o", "--exclude-standard", cwd=ROOT).splitlines()}


PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.nightly
def test_tests_run_from_the_sdist(sdist: Path) -> None:
    """Some that need the runtime, the examples and the docs."""
    few = ("tests/net/test_bits.py", "tests/project/test_golden.py", "tests/benchmark/test_goals.py")
    assert re.search(r"\d+ passed", run(*PYTEST, *few, cwd=sdist))


@pytest.mark.nightly
def test_every_test_can_be_collected_in_the_sdist(sdist: Path) -> None:
    assert " tests collected" in run(*PYTEST, "--collect-only", "tests", cwd=sdist)


def test_an_editable_install_is_one_path(tmp_path: Path) -> None:
    """So type checkers and the C runtime find the checkout."""
    packages = fresh(tmp_path / "venv", "--editable", ROOT)
    paths = [line for file in packages.glob("*blrc*.pth") for line in file.read_text().splitlines()]
    assert [Path(path).resolve() for path in paths] == [ROOT.resolve()]
    assert not (packages / "blrc").exists()
    code = "import blrc.targets.c.runtime_files as r; print(r.runtime_dir())"
    assert Path(run(tmp_path / "venv" / "bin" / "python", "-c", code, cwd=tmp_path).strip()) == ROOT / "runtime"


def test_links_of_a_package_index_lead_to_the_repository(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    links = re.findall(r"\]\(([^)]+)\)", archive.read(name).decode())
    assert len(links) > 10
    assert all(link.startswith("https://") for link in links)


def test_wheel_holds_every_source_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in names if ".dist-info/" not in name}
    runtime = {
        f"blrc/_runtime/{part}/{name}"
        for part in ("include", "src", "machines")
        for name in files(ROOT / "runtime" / part, "*.[ch]")
    }
    ours = {f"blrc/{name}" for name in files(ROOT / "blrc", "*.*") if "__pycache__/" not in name}
    assert {"blrc/_runtime/include/blrc.h", "blrc/py.typed", "blrc/targets/web/page/index.html"} <= package
    assert package == runtime | ours
    assert any(name.endswith("/LICENSE") for name in names)


def test_wheel_has_the_version_of_the_package(wheel: Path) -> None:
    import blrc

    assert wheel.name == f"blrc-{blrc.__version__}-py3-none-any.whl"


def test_the_citation_and_the_metadata_say_the_same() -> None:
    from blrc.version import AUTHOR, LICENSE, VERSION

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["authors"] == [{"name": AUTHOR}] and project["license"] == LICENSE
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {VERSION}\n" in cited and f'- name: "{AUTHOR}"' in cited and f"\nlicense: {LICENSE}\n" in cited


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


@pytest.mark.nightly
@pytest.mark.slow("installs a wheel")
def test_installed_program_exports_and_verifies(installed: Path, tmp_path: Path) -> None:
    run(installed / "python", "-c", TINY_CHECKPOINT, "tiny.pt", cwd=tmp_path)
    run(installed / "blrc", "export", "tiny.pt", "--target", "c", "--target", "onnx", "-o", "out", cwd=tmp_path)
    report = json.loads(run(installed / "blrc", "verify", "out", "--json", cwd=tmp_path))
    assert report["equal"] is True
    assert report["values_compared"] > 0


def test_the_oldest_versions_are_those_that_are_promised() -> None:
    """`make oldest` runs with constraints-oldest.txt; torch is left out, since its tested version serves there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [
        wanted for name, of in project["optional-dependencies"].items() if name not in ("dev", "docs") for wanted in of
    ]
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
