"""Without the optional packages everything imports and exports that needs none of them, and the rest is one line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import test_architecture

import blrc
from blrc.extras import EXTRAS

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "golden" / "tiny.pt"
OF_OTHERS = {
    "evaluation.figures": "matplotlib",
    "benchmark.show.figure": "matplotlib",
    "benchmark.rivals.twins": "onnx",
    "targets.c.machines.wasm_worker": "wasmtime",
}
BLOCKED = f"""
import sys
for name in {list(EXTRAS)}:
    sys.modules[name] = None
"""


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code where none of the optional packages can be imported."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_every_extra_is_declared_and_brings_what_it_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {each.partition(">=")[0] for each in project["dependencies"]} == {"click", "numpy", "tqdm"}
    extras = project["optional-dependencies"]
    for package, extra in EXTRAS.items():
        name = {"PIL": "pillow"}.get(package, package)
        assert name in {each.partition(">=")[0] for each in extras[extra]}
    (everything,) = extras["all"]
    assert set(everything.removeprefix("blrc[").removesuffix("]").split(",")) == set(EXTRAS.values())
    assert "blrc[all]" in extras["dev"]


def test_every_module_that_needs_no_extra_imports_without() -> None:
    """The rooms' rules are read from the sources; this one runs them."""
    names = []
    for module in test_architecture.sources():
        room = test_architecture.room_of(module)
        assert room is not None
        if room.torch_in(module) != "yes" and module not in (*OF_OTHERS, "__main__"):
            names.append(f"blrc.{module}".rstrip("."))
    names = [name for name in names if not name.startswith("blrc.targets.onnx.") or name.endswith(".options")]
    assert len(names) > 120
    done = python("import importlib\nfor name in sys.argv[1:]:\n    importlib.import_module(name)", *names)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [[], ["--members", "2", "--sample", "conv", "--seed", "3"]])
def test_exports_without_torch_are_the_same_bytes(options: list[str], tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run = "from blrc.cli.main import main\nmain(sys.argv[1:])"
    done = python(run, "export", TINY, "--target", "c", "-o", ours, *options)
    assert done.returncode == 0, done.stderr
    given = dict(zip(options[::2], options[1::2], strict=True))
    members, sample = given.get("--members", "map"), given.get("--sample", "all")
    blrc.export(TINY, folder=theirs, targets="c", members=members, sample=sample, seed=int(given.get("--seed", "0")))
    files = sorted(path.relative_to(theirs) for path in theirs.rglob("*") if path.is_file())
    assert len(files) == 10
    for file in files:
        assert (ours / file).read_bytes() == (theirs / file).read_bytes(), file


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["train", "mnist", "-o", "x.pt"], "torch, which is not installed: pip install 'blrc[train]'"),
        (["eval", TINY, "--data", "x"], "torch, which is not installed: pip install 'blrc[train]'"),
        (["export", TINY, "--target", "onnx", "-o", "x"], "onnx, which is not installed: pip install 'blrc[onnx]'"),
        (["bench", TINY, "--plot", "x.svg"], "matplotlib, which is not installed: pip install 'blrc[plots]'"),
    ],
)
def test_a_missing_extra_is_one_line_that_names_it(arguments: list[object], extra: str, tmp_path: Path) -> None:
    done = python(
        "import os\nos.chdir(sys.argv[1])\nfrom blrc.cli.main import main\nmain(sys.argv[2:])", tmp_path, *arguments
    )
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.rstrip().endswith(extra)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "code", ["blrc.save", "blrc.nn", "blrc.models", "blrc.load(sys.argv[1]).model()", "import blrc.nn"]
)
def test_names_of_torch_are_one_line_without_it(code: str) -> None:
    lines = f"import blrc\ntry:\n    {code}\nexcept blrc.BlrcError as error:\n    print(error)"
    done = python(lines, TINY)
    assert done.stdout.rstrip().endswith("torch, which is not installed: pip install 'blrc[train]'"), done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_an_onnx_file_is_skipped_or_cannot_be_checked(tmp_path: Path) -> None:
    blrc.export(TINY, folder=tmp_path / "onnx", targets="onnx")
    run = "from blrc.cli.main import main\nmain(sys.argv[1:])"
    done = python(run, "verify", tmp_path / "onnx", "--random", "20")
    assert done.returncode not in (0, None)
    assert "nothing of it can be run here" in done.stderr
    assert "pip install 'blrc[onnx]'" in done.stderr.splitlines()[-1]
