"""A recorded vector of the C that is wrong is a problem that `verify` names, even if all engines agree."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from blrc import api
from blrc.verification import engines
from blrc.verification.report import to_text

TINY = Path(__file__).parent.parent / "golden" / "tiny.pt"


@pytest.mark.needs("cc", "size")
def test_edited_vector_is_found_by_the_selftest(tmp_path: Path) -> None:
    api.export(TINY, tmp_path / "out")
    assert not _problems(tmp_path / "out")
    broken = Path(shutil.copytree(tmp_path / "out", tmp_path / "broken"))
    vectors = broken / "tiny_vectors.c"
    text = vectors.read_text()
    head, _, tail = text.partition("tiny_vector_inputs")
    body, first, rest = tail.partition("{\n    ")
    number, comma, end = rest.partition(",")
    vectors.write_text(f"{head}tiny_vector_inputs{body}{first}{(int(number) + 128) % 256}{comma}{end}")
    assert any("step" in problem and "differs" in problem for problem in _problems(broken))


def _problems(folder: Path) -> tuple[str, ...]:
    with ExitStack() as builds:
        return engines.compile_c(folder, "tiny", lambda *_: None, builds).problems


@pytest.mark.needs("cc", "size")
def test_an_engine_that_fails_is_a_problem_in_the_report(tmp_path: Path) -> None:
    """With --json nothing was printed where it mattered most: broken C, and what a sanitizer finds."""
    api.export(TINY, tmp_path / "out", targets=["c"])
    broken = Path(shutil.copytree(tmp_path / "out", tmp_path / "broken"))
    (broken / "tiny.c").write_text((broken / "tiny.c").read_text() + "this is no C;\n")
    report = api.verify(broken, random=5)
    assert not report.equal
    assert any("compiling" in problem and "failed" in problem for problem in report.problems)
    crashing = Path(shutil.copytree(tmp_path / "out", tmp_path / "crashing"))
    text = (crashing / "tiny.c").read_text()
    head, call, tail = text.rpartition("tiny_run(0, input, arena, scores, observer, context);")
    (crashing / "tiny.c").write_text(f"{head}scores = (int32_t *)0; {call}{tail}")
    report = api.verify(crashing, random=5)
    assert not report.equal
    assert len(report.problems) > 1


@pytest.mark.needs("cc", "size")
def test_a_compiler_without_sanitizers_is_said_and_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.export(TINY, tmp_path / "out", targets=["c"])
    monkeypatch.setattr(engines, "SANITIZE", ("-fsanitize=nonsense",))
    report = api.verify(tmp_path / "out", random=5)
    assert report.equal
    assert report.engines == ("C, -O2",)
    assert any("no sanitizers here" in line and "libasan" in line for line in report.skipped)
    assert "NOT DONE" in to_text(report)
