"""Options say what they take: in the help, to the shell's completion, and where they refuse something."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import blrc
from blrc.cli import progress
from blrc.cli.ends import complain
from blrc.cli.main import main
from blrc.cli.progress import Progress, coloured
from blrc.targets.c.machines.table import ALL
from blrc.targets.c.options import CPUS, OPTIMIZE, PACKAGES
from blrc.targets.registry import TARGETS
from blrc.workers import usable_cpus

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"


def run(*words: object, **options: Any) -> Result:
    return CliRunner().invoke(main, list(map(str, words)), **options)


def commands(group: click.Group = main, prefix: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name, command in group.commands.items():
        words = (*prefix, name)
        found += commands(command, words) if isinstance(command, click.Group) else [(words, command)]
    return found


def test_choices_stand_in_the_help() -> None:
    text = run("export", "--help").output
    for names in (TARGETS, OPTIMIZE, CPUS, (*PACKAGES, "none")):
        assert f"[{'|'.join(names)}]" in text


COMPLETE = """
import os, sys
from blrc.__main__ import main
try:
    main()
finally:
    print([name for name in ("torch", "numpy") if name in sys.modules])
"""


def completed(line: str) -> list[str]:
    """What a shell is offered at the end of a line, then which heavy packages that took."""
    environment = {
        **os.environ,
        "_BLRC_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    command = [sys.executable, "-c", f"import sys; sys.argv = ['blrc']\n{COMPLETE}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("blrc tr", ["plain,train"]),
        ("blrc train ", ["plain,cifar10", "plain,mnist"]),
        ("blrc train mnist --recipe ", ["plain,distilled", "plain,paper", "plain,plain"]),
        ("blrc export --target ", [f"plain,{name}" for name in TARGETS]),
        ("blrc export --cpu ", [f"plain,{name}" for name in CPUS]),
        ("blrc export --optimize s", ["plain,size", "plain,speed"]),
        ("blrc export --package z", ["plain,zephyr"]),
        ("blrc export --members m", ["plain,map"]),
    ],
)
def test_a_shell_completes_without_anything_heavy(line: str, offered: list[str]) -> None:
    assert completed(line) == [*offered, "[]"]


def test_a_shell_completes_each_machine_of_a_list() -> None:
    *offered, _ = completed("blrc verify --on avr,cortex-m")
    assert offered == [f"plain,avr,{name}" for name in ALL if name.startswith("cortex-m")]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--flash", "2X"], "--flash '2X': expected a number of bytes such as 262144, 256K or 0.5M (K is 1024)"),
        (["--ram", "0"], "--ram '0': must be more than 0; expected a number of bytes"),
        (["--freeze", "much"], "--freeze 'much': expected a share such as 0.1 or 1/10"),
        (["--freeze", "0.7", "--members", "2"], "freeze 0.7: expected a probability from 0 to 0.5"),
        (["--gate", "1/0"], "--gate '1/0': expected a share"),
        (["--members", "few"], "--members 'few': expected map, or a number of sampled networks, such as 16"),
        (["--cpu", "z80"], "--cpu z80: expected portable, x86-64, aarch64, cortex-m55 or rv64gcv"),
        (["--optimize", "fast"], "--optimize fast: expected size, speed or ram"),
        (["--package", "conan"], "unknown package 'conan'; known: cmake, arduino"),
        (["--target", "rust"], "unknown target 'rust'; known: c, onnx, web"),
    ],
)
def test_a_refusal_is_one_line(words: list[str], line: str, tmp_path: Path) -> None:
    result = run("export", TINY, "--target", "c", "-o", tmp_path / "out", *words)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {line}") and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_lists_are_refused_in_one_line() -> None:
    for words, line in (
        (["verify", TINY, "--on", "z80"], "Error: --on 'z80': no machine z80; there are host, "),
        (
            ["eval", TINY, "--data", "x", "--members", "map,x"],
            "Error: --members: 'x' is not map, stochastic, or a ",
        ),
    ):
        result = run(*words)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1) and result.stderr.startswith(line)


def test_every_command_can_be_quiet_or_verbose() -> None:
    for words, command in commands():
        flags = {flag for param in command.params for flag in param.opts}
        assert {"-q", "--quiet", "-v", "--verbose"} <= flags, words
        assert ("--json" in flags) == (words[0] != "train"), words
        assert ("--jobs" in flags) == (words[0] not in ("train", "inspect", "import")), words


def test_help_texts_are_sentences() -> None:
    """ "Of sampled members." says nothing to a reader who does not see the option's code."""
    for words, command in commands():
        for param in command.params:
            if isinstance(param, click.Option) and words[0] != "train":
                assert (param.help and param.help[0] != param.help[0].lower()) or ":" in str(param.help), param.name
                assert not str(param.help).startswith(("Of ", "As ")), (words, param.name)


def test_export_ends_with_the_sizes(tmp_path: Path) -> None:
    done = run("export", TINY, "--target", "c", "--target", "onnx", "-o", tmp_path / "a", "--flash", "64K")
    memory = blrc.export(TINY, folder=tmp_path / "b").manifest.targets["c"]["memory"]
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{tmp_path / 'a'}: c, onnx of tiny, one network, program ")
    assert lines[2] == f"flash: {memory['flash_bytes']:,} bytes of 65,536, fits"
    assert lines[3].startswith(f"RAM:   {memory['ram_bytes']:,} bytes, among them an arena of ")
    assert f"{memory['stack_bytes']:,} of stack" in lines[3]
    plain = json.loads(run("export", TINY, "--target", "c", "-o", tmp_path / "c", "--json", "--flash", "64K").stdout)
    assert {name: plain[name] for name in ("flash_bytes", "flash_limit", "ram_limit", "stack_bytes")} == {
        "flash_bytes": memory["flash_bytes"], "flash_limit": 65536, "ram_limit": None,
        "stack_bytes": memory["stack_bytes"],
    }  # fmt: skip
    files = [path for path in (tmp_path / "c").rglob("*") if path.is_file()]
    assert (plain["files"], plain["targets"], plain["members"]) == (len(files), ["c"], ["map"])


def test_export_for_a_host_tells_its_tables(tmp_path: Path) -> None:
    lines = run("export", TINY, "--target", "c", "--cpu", "x86-64", "-o", tmp_path / "a").stdout.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["files", "tables", "arena"]
    lines = run("export", TINY, "--target", "onnx", "-o", tmp_path / "b").stdout.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["files"]


def test_quiet_and_verbose(tmp_path: Path) -> None:
    words = ["export", TINY, "--target", "onnx", "-o"]
    assert run(*words, tmp_path / "a", "-q").stderr == ""
    assert "calibrating\n" in run(*words, tmp_path / "b").stderr
    verbose = run(*words, tmp_path / "c", "-v").stderr.splitlines()
    assert all(line.split()[1] == "s" and float(line.split()[0]) >= 0 for line in verbose) and len(verbose) >= 3


def test_progress_in_a_log_has_a_line_a_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    tell = Progress()
    for done in range(101):
        tell("inputs", done, 100)
    assert capsys.readouterr().err.splitlines() == [f"inputs: {done} of 100" for done in range(0, 101, 10)]


def test_warnings_are_said_also_to_those_who_want_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    tell = Progress()
    tell.quiet = True
    tell("inputs", 0, 1)
    tell.say("calibrating")
    tell.say("warning: odd")
    assert capsys.readouterr().err == "warning: odd\n"
    print("a bar", file=tell.stream)
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_s_line_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.sys, "stderr", terminal := Terminal())
    tell = Progress()
    tell("inputs", 1, 2)
    tell("inputs", 2, 2)
    assert terminal.getvalue() == "\r\033[Kinputs: 1 of 2\r\033[Kinputs: 2 of 2\n"


def test_colours_are_for_terminals_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert coloured("NO", "red", Terminal()) == "\033[31mNO\033[0m"
    assert coloured("NO", "red", io.StringIO()) == coloured("NO", "red", None) == "NO"
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("NO", "red", Terminal()) == "NO"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert coloured("NO", "red", Terminal()) == "NO"


def test_jobs_hold_for_the_command_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    before, seen = usable_cpus(), list[int]()
    threads: list[str] = []

    def export(*_: object, **__: object) -> None:
        seen.append(usable_cpus())
        threads.extend(os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))
        sys.exit(0)

    monkeypatch.setattr(blrc, "export", export)
    run("export", TINY, "--target", "c", "-o", tmp_path / "a", "--jobs", 1)
    assert (seen, usable_cpus(), threads, os.environ["OMP_NUM_THREADS"]) == ([1], before, ["1", "1"], "3")
    assert run("export", TINY, "--target", "c", "-o", tmp_path / "a", "--jobs", 0).exit_code == 2


def test_a_checkpoint_comes_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    content = TINY.read_bytes()
    found = json.loads(run("inspect", "-", "--json", input=content).stdout)
    assert found["layers"] == json.loads(run("inspect", TINY, "--json").stdout)["layers"]
    done = run("export", "-", "--target", "c", "--name", "tiny", "-o", tmp_path / "a", input=content)
    assert done.exit_code == 0
    blrc.export(TINY, folder=tmp_path / "b", targets="c")
    for file in (tmp_path / "b").glob("*.c"):
        assert (tmp_path / "a" / file.name).read_bytes() == file.read_bytes()
    refused = run("inspect", "-", input=b"no checkpoint")
    assert refused.exit_code == 2 and refused.stderr.startswith("Error: -: ")
    assert not list(tmp_path.glob("blrc-stdin-*"))  # it was kept for the command alone


def test_regression_standard_input_is_called_as_the_user_called_it() -> None:
    """Results named the temporary file that stood in for it."""
    content = TINY.read_bytes()
    assert json.loads(run("inspect", "-", "--json", input=content).stdout)["source"] == "-"
    assert run("inspect", "-", input=content).stdout.startswith("-: input ")


@pytest.mark.parametrize(
    "words",
    [
        ["export", TINY, "--target", "c", "-o", "-"],
        ["verify", "-"],
        ["verify", "x", "--data", "-"],
        ["eval", TINY, "--data", "x", "--plots", "-"],
        ["bench", TINY, "--plot", "-"],
        ["train", "mnist", "-o", "-"],
        ["train", "mnist", "-o", "x.pt", "--log", "-"],
    ],
)
def test_a_dash_is_refused_where_it_makes_no_sense(words: list[object]) -> None:
    result = run(*words)
    assert result.exit_code == 2 and "-: cannot be standard input or output here; give a path" in result.stderr


def test_regression_an_error_ends_the_line_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """The message stood behind the progress, on the same line."""
    progress._rewrite("inputs: 1 of 5", False)
    complain("boom")
    complain("again")
    said = capsys.readouterr().err
    assert (
        click.unstyle(said).removeprefix("\r\033[K").replace("\r", "") == "inputs: 1 of 5\nError: boom\nError: again\n"
    )
