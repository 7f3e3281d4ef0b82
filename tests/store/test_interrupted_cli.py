"""A killed ``blrc export --force``: what every command says of the folder, and how it is completed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from by_night import first, rows_where
from click.testing import CliRunner
from exports import changed, tree

import blrc
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.exports.manifest import SUFFIX
from blrc.store.journal import JOURNAL, interrupted

ROOT = Path(__file__).parent.parent.parent
TINY = ROOT / "tests" / "golden" / "tiny.pt"
OPTIONS = ["--target", "c", "--force"]
STEPS = [  # where the process is killed, and what the folder is then
    ("create tiny.c", 1, "old"),
    ("rename tiny.c", 1, "interrupted"),  # on its way out
    (f"rename tiny{SUFFIX}", 2, "interrupted"),
    (f"remove {JOURNAL}", 1, "interrupted"),
    ("remove tiny.c", 1, "new"),
]


def command(how: str, step: str, count: int, out: Path) -> list[str]:
    program = Path(__file__).with_name("stopped_cli.py")
    return [sys.executable, str(program), how, step, str(count), "export", str(TINY), *OPTIONS, "-o", str(out)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "passive"}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with other files than the new one has: ONNX, two members, a package, and a file of the user's."""
    out = tmp_path_factory.mktemp("old") / "out"
    blrc.export(TINY, folder=out, targets=["c", "onnx"], members="2", packages=["cmake"])
    (out / "mine.txt").write_bytes(b"mine")
    return out


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | None]:
    """What the folder holds after the new export."""
    out = tmp_path_factory.mktemp("new") / "out"
    blrc.export(TINY, folder=out, targets=["c"])
    return {**tree(out), "mine.txt": b"mine"}


@pytest.mark.slow("kills whole commands")
@pytest.mark.parametrize(("step", "count", "state"), rows_where(lambda step: step in STEPS[2::2], STEPS))
def test_every_command_recognises_an_export_that_was_killed(
    step: str, count: int, state: str, old: Path, new: dict[str, bytes | None], tmp_path: Path
) -> None:
    """Of 72 renames of `export --force`, 70 left a mixed folder with hidden left-overs when the process was killed."""
    out = tmp_path / "out"
    shutil.copytree(old, out)
    done = subprocess.run(command("kill", step, count, out), env=environment(), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    if state == "interrupted":
        for words in (
            ["verify", str(out)],
            ["bench", str(out)],
            ["export", str(TINY), "--target", "c", "-o", str(out)],
        ):
            result = CliRunner().invoke(main, words)
            assert result.exit_code == 2, words
            assert f"{out}: an export into it was interrupted; run the same blrc export with --force" in result.output
        with pytest.raises(BlrcError, match="an export into it was interrupted"):
            blrc.compile(out)
    else:
        assert interrupted(out) is None and changed(out) == []
        visible = {name: content for name, content in tree(out).items() if not name.startswith(".blrc-export")}
        assert visible == (tree(old) if state == "old" else new)
    result = CliRunner().invoke(main, ["export", str(TINY), *OPTIONS, "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert tree(out) == new
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow("waits for a whole command")
@pytest.mark.parametrize("there", first(1, [True, False]), ids=["there", "new"])
def test_a_second_export_is_refused_while_one_runs(there: bool, old: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if there:
        shutil.copytree(old, out)
    with subprocess.Popen(
        command("wait", "create tiny.c", 1, out),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdin is not None and first.stdout is not None
        assert "waiting\n" in iter(first.stdout.readline, "")
        result = CliRunner().invoke(main, ["export", str(TINY), *OPTIONS, "-o", str(out)])
        assert result.exit_code == 2 and result.output.count("\n") == 1
        assert f"{out}: another blrc export into it is running" in result.output
        first.stdin.write("\n")
        first.stdin.flush()
        first.stdout.read()
    assert first.returncode == 0
    assert changed(out) == [] and interrupted(out) is None
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failed_export_leaves_neither_folder_nor_what_grew_beside_it(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["export", str(TINY), "--target", "c", "--flash", "1", "-o", str(tmp_path / "a" / "out")]
    )
    assert result.exit_code == 1 and not list(tmp_path.iterdir())
