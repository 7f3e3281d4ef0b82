"""What is public can be found: by dir, help and type checkers, and shows itself in a few lines."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

import blrc
from blrc.app.evaluate import EvalReport
from blrc.benchmark.run import BenchReport
from blrc.nn.gaussian import Gaussian

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"
FUNCTIONS = ("anytime", "bench", "bits", "compile", "evaluate", "export", "import_onnx", "inspect", "int8_codes",
             "load", "pixel_bits", "pixel_codes", "pixels", "prune", "save", "train", "values", "verify")  # fmt: skip


def test_functions_take_keywords_after_the_first_argument() -> None:
    functions = {name for name in blrc.__all__ if inspect.isfunction(getattr(blrc, name))}
    assert functions == set(FUNCTIONS)
    for name in functions:
        _, *rest = inspect.signature(getattr(blrc, name)).parameters.values()
        assert {each.kind for each in rest} <= {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}, name


def test_everything_public_is_found_by_dir_and_help() -> None:
    code = "import blrc; print(*dir(blrc)); print('torch' in __import__('sys').modules)"
    listed, loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert set(blrc.__all__) <= set(listed.split()) and loaded == "False"
    assert not [name for name in listed.split() if name not in blrc.__all__ and not name.startswith("__")]
    text = pydoc.plain(pydoc.render_doc(blrc))
    for name in blrc.__all__:
        assert name in text, name
    for name in FUNCTIONS:
        assert f"    {name}(" in text, name
    with pytest.raises(AttributeError, match="module 'blrc' has no attribute 'exprot'"):
        blrc.exprot  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_no_getattr() -> None:
    """It would make every name one of the module's (what mypy says of a typo the night asks)."""
    tree = ast.parse(Path(blrc.__file__).read_text(encoding="utf-8"))
    named = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "__getattr__" not in named and hasattr(blrc, "__getattr__")


@pytest.mark.nightly
def test_a_typo_is_a_mistake_for_type_checkers(tmp_path: Path) -> None:
    from mypy import api

    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "import blrc\n"
        "blrc.export('m.pt', folder='out')\n"
        "reveal_type(blrc.inspect)\n"
        "blrc.exprot('m.pt', folder='out')\n"
        "blrc.export('m.pt', 'out')\n"
        "blrc.export('m.pt', folder='out', optimise='ram')\n"
    )
    # The sources of the package are skipped: `make check` has them.
    said, _, _ = api.run(["--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), str(snippet)])
    lines = [line for line in said.splitlines() if "snippet.py" in line]
    assert 'snippet.py:4: error: Module has no attribute "exprot"' in said
    assert 'snippet.py:5: error: Too many positional arguments for "export"' in said
    assert 'snippet.py:6: error: Unexpected keyword argument "optimise" for "export"' in said
    assert not [line for line in lines if "error" in line and ":2:" in line]
    assert "-> " in next(line for line in lines if ":3:" in line)


def test_what_is_public_shows_itself_in_a_few_lines(tmp_path: Path) -> None:
    checkpoint = blrc.load(TINY)
    raw = np.zeros((3, *checkpoint.encoding.shape), checkpoint.encoding.dtype)
    done = blrc.export(checkpoint, folder=tmp_path / "out", targets="c")
    anytime = blrc.anytime(checkpoint, raw=raw)
    answer = next(anytime)
    dataset = blrc.datasets.Dataset(raw, np.zeros(3, np.uint8))
    row = {"accuracy_mean": 98.5}
    wide = replace(checkpoint.encoding, shape=(4000, 1, 1), mean=(0.5,) * 4000, std=(1.0,) * 4000)
    shown = {
        "Checkpoint('": checkpoint,
        "Exported('": done,
        "Inspection('": blrc.inspect(checkpoint),
        "InputEncoding(kind='uint8'": wide,
        "Dataset(images=uint8 (3, ": dataset,
        "Anytime('": anytime,
        "Answer(label=int64 (3,)": answer,
        "Program(": done.program,
        "Manifest(": done.manifest,
        "Gaussian(mean=(9, 1000), var=(1, 1000)": Gaussian(torch.zeros(9, 1000), torch.ones(1, 1000)),
        "EvalReport('m.pt' on 9 samples: map 98.50 %)": EvalReport(checkpoint="m.pt", samples=9, members={"map": row}),
        "BenchReport('net' for portable CPUs: host)": BenchReport(name="net", cpu="portable", host={}),
    }  # fmt: skip
    for start, value in shown.items():
        assert repr(value).startswith(start) and len(repr(value)) < 500 and "\n" not in repr(value), repr(value)
    for value in (checkpoint, done, blrc.inspect(checkpoint)):
        html = value._repr_html_()
        assert (html.startswith("<pre>") and html.endswith("</pre>") and "&#x27;" in html) or "bytes" in html
    assert "1 members so far" in repr(anytime)


@pytest.mark.needs("cc", "size")
def test_a_report_says_its_verdict(tmp_path: Path) -> None:
    blrc.export(TINY, folder=tmp_path / "out", targets="c")
    report = blrc.verify(tmp_path / "out", random=10)
    assert repr(report).startswith("Report('tiny': bit-exact: yes; ") and str(report).endswith("bit-exact: yes")
    assert report._repr_html_().startswith("<pre>program ")


def test_gaussians_are_not_joined() -> None:
    """`a + b` was a tuple of four tensors, which failed layers later."""
    one = Gaussian(torch.zeros(2, 3), torch.ones(1, 3))
    for join in (lambda: one + one, lambda: one + (1,), lambda: (1,) + one, lambda: torch.ones(2, 3) + one):  # noqa: RUF005
        with pytest.raises(TypeError, match=r"a Gaussian .* takes no \+.* is Gaussian\(a\.mean \+ b\.mean, "):
            join()
    for repeat in (lambda: one * 2, lambda: 2 * one):
        with pytest.raises(TypeError, match=r"a Gaussian .* takes no \*"):
            repeat()
    mean, var = one
    assert (mean is one.mean, var is one.var) == (True, True)


def test_anytime_refuses_at_once_and_goes_on() -> None:
    checkpoint = blrc.load(TINY)
    raw = np.zeros((2, *checkpoint.encoding.shape), checkpoint.encoding.dtype)
    with pytest.raises(blrc.BlrcError, match="holds no calibration samples"):
        blrc.anytime(replace(checkpoint, calibration=None), raw=raw)
    answers = list(islice(blrc.anytime(checkpoint, raw=raw), 3))
    assert [int(answer.members[0]) for answer in answers] == [1, 2, 3]


def test_train_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    for task, options, words in (
        ("imagenet", {}, "task 'imagenet': expected mnist or cifar10"),
        ("mnist", {"recipe": "best"}, "recipe 'best': expected plain or paper or distilled"),
        ("mnist", {"epoch": 3}, "train takes no option epoch; there are batch, "),
        ("mnist", {"epochs": 0}, "epochs 0: must be at least 1"),
    ):
        with pytest.raises(blrc.BlrcError, match=words):
            blrc.train(task, output=tmp_path / "m.pt", **options)
    assert not list(tmp_path.iterdir())
