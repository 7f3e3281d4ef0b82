"""A recorded vector of the C that is wrong is a problem that `verify` names, even if all engines agree."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from blrc import api
from blrc.verification import engines

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
