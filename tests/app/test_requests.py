"""A request is checked by the rooms that own its options, and enters no other target's room."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blrc
from blrc.benchmark.run import BenchRequest
from blrc.errors import BlrcError
from blrc.evaluation.choice import EvalRequest
from blrc.frontend.checkpoint import load
from blrc.frontend.members import MembersRequest, ask_members
from blrc.frontend.sample import MAP, Member
from blrc.verification.request import VerifyRequest

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"


@pytest.mark.parametrize(
    ("targets", "options", "words"),
    [
        ("onnx", {"packages": "cmake"}, "--package cmake is about the C; add --target c"),
        ("onnx", {"packages": ["cmake", "zephyr"]}, "--package cmake, zephyr is about the C; add --target c"),
        ("onnx", {"optimize": "ram"}, "--optimize ram is about the C; add --target c"),
        ("onnx", {"cpu": "x86-64"}, "--cpu x86-64 is about the C; add --target c"),
        ("onnx", {"flash": "1K"}, "--flash 1K is about the C; add --target c"),
        ("onnx", {"ram": 1024}, "--ram 1024 is about the C; add --target c"),
        ("c", {"onnx_weights": "bits"}, "--onnx-weights bits is about the ONNX file; add --target onnx"),
        ("c", {"onnx_outputs": "all"}, "--onnx-outputs all is about the ONNX file; add --target onnx"),
        ("c", {"onnx_form": "float"}, "--onnx-form float is about the ONNX file; add --target onnx"),
        ("c", {"members": "two"}, "--members 'two': expected map, or a number"),
        ("c", {"freeze": "0.1"}, "map samples nothing; add --members 16"),
        ("c", {"members": 2, "freeze": 0.6}, "freeze 0.6: expected a probability from 0 to 0.5"),
        ("c", {"license": "(MIT"}, "--license '\\(MIT': is no SPDX expression"),
    ],
)
def test_an_option_is_refused_before_the_checkpoint_is_read(
    targets: str, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(BlrcError, match=words):
        blrc.export(tmp_path / "none.pt", folder=tmp_path / "out", targets=targets, **options)
    assert not list(tmp_path.iterdir())


def test_options_that_are_left_at_their_defaults_are_not_given(tmp_path: Path) -> None:
    done = blrc.export(TINY, folder=tmp_path / "out", targets="onnx", packages="none", optimize="size", cpu="portable")
    assert set(done.manifest.targets) == {"onnx"}


LOADED = """
import sys, blrc
{run}
print(sorted(name for name in sys.modules if name.startswith({prefix!r})))
"""


@pytest.mark.parametrize(
    ("run", "prefix"),
    [
        ("blrc.export(sys.argv[1], folder=sys.argv[2], targets='onnx')", "blrc.targets.c"),
        (
            "from click.testing import CliRunner; from blrc.cli.main import main\n"
            "done = CliRunner().invoke(main, ['export', sys.argv[1], '-o', sys.argv[2], '--target', 'onnx'])\n"
            "assert done.exit_code == 0, done.output",
            "blrc.targets.c",
        ),
        ("blrc.export(sys.argv[1], folder=sys.argv[2], targets='c')", "blrc.targets.c.packages"),
        ("blrc.export(sys.argv[1], folder=sys.argv[2], targets='c', packages='none')", "blrc.targets.c.packages"),
    ],
)
def test_an_export_enters_only_the_rooms_that_it_needs(run: str, prefix: str, tmp_path: Path) -> None:
    code = LOADED.format(run=run, prefix=prefix)
    command = [sys.executable, "-c", code, str(TINY), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr[-500:]) == (0, "[]\n", done.stderr[-500:])


def test_a_package_enters_its_own_module_alone(tmp_path: Path) -> None:
    run = "blrc.export(sys.argv[1], folder=sys.argv[2], targets='c', packages='esp-idf')"
    code = LOADED.format(run=run, prefix="blrc.targets.c.packages.")
    command = [sys.executable, "-c", code, str(TINY), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names = ("esp_idf", "example", "library", "registry")
    assert done.stdout == f"{[f'blrc.targets.c.packages.{name}' for name in names]}\n"


def test_members_are_those_of_the_checkpoint() -> None:
    source = load(TINY)
    assert ask_members() == MembersRequest()
    assert ask_members("map").of(source) == [MAP]
    assert ask_members(2, seed=7, gate=1).of(source) == [MAP, Member(7, 0), Member(7, 1)]
    with pytest.raises(BlrcError, match="cannot sample 'none'"):
        ask_members(2, sample=["none"]).of(source)
    with pytest.raises(BlrcError, match="--members 'True': expected map"):
        ask_members(True)


@pytest.mark.parametrize(
    ("request_of", "words"),
    [
        (lambda: VerifyRequest(Path("x"), seed=-1), "must not be negative"),
        (lambda: VerifyRequest(Path("x"), random=-1), "must not be negative"),
        (lambda: VerifyRequest(Path("x"), strict=True), "--strict is about machines"),
        (lambda: VerifyRequest(Path("x"), digest="abc"), "expected all 64 hexadecimal digits"),
        (lambda: EvalRequest(Path("x"), ("map",), cheap=True), "--cheap is about ensembles; .* for example map,16"),
        (lambda: BenchRequest(rounds=0), "rounds 0: must be at least 1"),
        (lambda: BenchRequest(("avr",), rounds=1), "--rounds 1 is about times"),
    ],
)
def test_a_request_that_means_nothing_cannot_be_made(request_of: Any, words: str) -> None:
    with pytest.raises(BlrcError, match=words):
        request_of()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (0, "--members: .* is not map, stochastic, or a number"),
        (["map"], "members: a list, where text or a whole number is expected"),
        (None, "members: None, where text or a whole number is expected"),
    ],
)
def test_regression_members_of_another_type_are_refused_by_name(members: object, words: str, tmp_path: Path) -> None:
    """They ended in an AttributeError; a whole number is taken, as by `export`."""
    with pytest.raises(BlrcError, match=words):
        blrc.evaluate(TINY, data=tmp_path, members=members)  # type: ignore[arg-type]


NEEDED: dict[str, dict[str, Any]] = {
    "export": {"folder": "out"},
    "verify": {},
    "evaluate": {"data": "data"},
    "compile": {},
    "anytime": {"raw": np.zeros((1, 1))},
    "bench": {},
    "train": {"output": "out"},
}
OPTIONS = [
    (name, option)
    for name in NEEDED
    for option, parameter in inspect.signature(getattr(blrc, name)).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_regression_every_option_of_another_type_is_refused_by_name(name: str, option: str) -> None:
    """`export(sample=None)` and `verify(on=(1,))` ended in errors of Python."""
    for wrong in (
        object(),
        (1,),
        b"x" if option not in ("folder", "data", "output", "model", "original", "plots", "plot", "log") else 1,
    ):
        with pytest.raises(BlrcError, match=f"^{option}: .* is expected$"):
            getattr(blrc, name)("no such model", **{**NEEDED[name], option: wrong})


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"seed": np.int64(3), "members": np.int32(2), "gate": np.float32(1)}
    with pytest.raises(BlrcError, match=r"none\.pt"):
        blrc.export(tmp_path / "none.pt", folder=tmp_path / "out", **numbers)
    assert len(OPTIONS) > 60
