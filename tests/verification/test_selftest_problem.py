"""A recorded vector of the C that is wrong is a problem that `verify` names, even if all engines agree."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from by_night import first, night
from c_exports import export
from click.testing import CliRunner
from forged import relist
from random_programs import random_inputs, random_program

import blrc
from blrc.cli.main import main
from blrc.targets.c.layout.layout import lay_out
from blrc.verification import engines
from blrc.verification.report import to_text

TINY = Path(__file__).parent.parent / "golden" / "tiny.pt"


@pytest.mark.needs("cc", "size")
def test_edited_vector_is_found_by_the_selftest(tmp_path: Path) -> None:
    blrc.export(TINY, folder=tmp_path / "out")
    assert not _problems(tmp_path / "out")
    broken = Path(shutil.copytree(tmp_path / "out", tmp_path / "broken"))
    vectors = broken / "tiny_selftest.c"
    text = vectors.read_text()
    head, _, tail = text.partition("tiny_vector_inputs")
    body, first, rest = tail.partition("{\n    ")
    number, comma, end = rest.partition(",")
    vectors.write_text(f"{head}tiny_vector_inputs{body}{first}{(int(number) + 128) % 256}{comma}{end}")
    assert any("step" in problem and "differs" in problem for problem in _problems(broken))


def _names(folder: Path, builds: ExitStack) -> list[str]:
    return [engine.name for engine in engines.compile_c(folder, "net", lambda *_: None, builds).engines]


def _problems(folder: Path) -> tuple[str, ...]:
    with ExitStack() as builds:
        return engines.compile_c(folder, "tiny", lambda *_: None, builds).problems


@pytest.mark.needs("cc", "size")
def test_an_engine_that_fails_is_a_problem_in_the_report(tmp_path: Path) -> None:
    """With --json nothing was printed where it mattered most: broken C, and what a sanitizer finds."""
    blrc.export(TINY, folder=tmp_path / "out", targets=["c"])
    broken = Path(shutil.copytree(tmp_path / "out", tmp_path / "broken"))
    (broken / "tiny.c").write_text((broken / "tiny.c").read_text() + "this is no C;\n")
    relist(broken, "tiny.c")
    report = blrc.verify(broken, random=5, trust_code=True)
    assert not report.equal
    assert any("compiling" in problem and "failed" in problem for problem in report.problems)
    crashing = Path(shutil.copytree(tmp_path / "out", tmp_path / "crashing"))
    text = (crashing / "tiny.c").read_text()
    head, call, tail = text.rpartition("tiny_run(member, input, arena, scores, observer, context);")
    assert call
    (crashing / "tiny.c").write_text(f"{head}scores = (int32_t *)0; {call}{tail}")
    relist(crashing, "tiny.c")
    report = blrc.verify(crashing, random=5, trust_code=True)
    assert not report.equal
    assert len(report.problems) > 1
    assert report.engines == ("C, -O2", "C, ASan+UBSan")  # not in this process, which would have crashed


@pytest.mark.needs("cc", "size")
def test_what_the_sanitizers_complain_of_is_never_loaded(tmp_path: Path) -> None:
    """A write behind the scores: in this process it would have hit the comparison's own memory."""
    program = random_program(3, "uint8", members=2)
    out = export(program, tmp_path / "out", random_inputs(program, 2))
    text = (out / "net.c").read_text()
    step = lay_out(program).steps[-1]
    opening = f"static void net_op_{step.op.name}(uint32_t member, const uint32_t *x, int32_t *y)\n{{\n"
    assert text.count(opening) == 1
    broken = f"{opening}    if (member == 1u) {{\n        y[{program.classes}] = 7;\n    }}\n"
    (out / "net.c").write_text(text.replace(opening, broken))
    with ExitStack() as builds:
        assert _names(out, builds) == ["C, -O2", "C, ASan+UBSan"]


@pytest.mark.needs("cc", "size")
def test_a_compiler_without_sanitizers_is_said_and_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blrc.export(TINY, folder=tmp_path / "out", targets=["c"])
    monkeypatch.setattr(engines, "SANITIZE", ("-fsanitize=nonsense",))
    report = blrc.verify(tmp_path / "out", random=5)
    assert report.equal
    assert report.engines == ("C, -O2",)
    assert any("no sanitizers here" in line and "libasan" in line for line in report.skipped)
    assert "NOT DONE" in to_text(report)


@pytest.mark.needs("cc", "size")
@pytest.mark.parametrize("onnx", [True, *night(False)])
@pytest.mark.parametrize(
    "fails",
    first(2, ["exit 1", 'case " $* " in *" -c "*) exec cc "$@";; *) exit 1;; esac', "kill -SEGV $$"]),
    ids=["always", "when it links", "by a signal"],
)
def test_a_compiler_that_fails_says_nothing_of_the_code(
    fails: str, onnx: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 1, "bit-exact: NO", was said of code of which not one value had been compared."""
    blrc.export(TINY, folder=tmp_path / "out", targets=["c", "onnx"] if onnx else ["c"])
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\n{fails}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    done = CliRunner().invoke(main, ["verify", str(tmp_path / "out"), "--random", "5"])
    assert done.exit_code == 2
    assert "failed (status" in done.output and "bit-exact: NO" not in done.output
    assert ("everything was checked" in done.output) == onnx
