"""Commands end with status 0, 1 or 2, and where it is not 0, with one message; never with a traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from by_night import first
from click.testing import CliRunner
from random_networks import checkpoint_of, encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.cli.ends import Group, show
from blrc.cli.main import main
from blrc.errors import BlrcError, DiffersError

EXAMPLES = Path(__file__).parents[2] / "examples"


@click.group(cls=Group)
def commands() -> None:
    pass


def ends(error: BaseException | None, says: str = "") -> tuple[int, str]:
    """Status and messages of a command that prints something and raises `error`."""

    @click.command("one")
    def one() -> None:
        show(says)
        if error is not None:
            raise error

    commands.add_command(one)
    result = CliRunner().invoke(commands, ["one"])
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (None, 0, ""),
        (BlrcError("a.pt: no"), 2, "Error: a.pt: no"),
        (DiffersError("too large"), 1, "Error: too large"),
        (KeyboardInterrupt(), 2, "Error: stopped"),
        (MemoryError(), 2, "Error: there is not enough memory for this; free some, or raise the limit on it"),
        (OSError(errno.ENOSPC, "No space left", "/tmp/x"), 2, "Error: /tmp/x: cannot go on: No space left"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 2, "Error: standard output: cannot write: Broken pipe"),
        (click.ClickException("odd"), 2, "Error: odd"),
        (SystemExit(1), 1, ""),
    ],
    ids=repr,
)
def test_each_end_has_its_status(error: BaseException | None, status: int, line: str) -> None:
    assert ends(error) == (status, f"{line}\n" if line and error.__class__ is not KeyboardInterrupt else
                           f"\n{line}\n" if line else "")  # fmt: skip


def test_a_bug_of_ours_keeps_its_traceback() -> None:
    assert isinstance(CliRunner().invoke(commands, ["one"]).exception, SystemExit)

    @click.command("bug")
    def bug() -> None:
        raise AssertionError

    commands.add_command(bug)
    assert isinstance(CliRunner().invoke(commands, ["bug"]).exception, AssertionError)


def test_the_statuses_are_in_the_help() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    for words in ("0  all is well", "1  what was checked differs, or does not fit", "2  it could not be checked"):
        assert words in text


def test_names_that_are_no_text_are_printed() -> None:
    assert ends(BlrcError("\udcff: no"), "\ud800")[0] == 2


def blrc_run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "blrc", *map(str, arguments)]
    return subprocess.run(command, check=False, timeout=300, stderr=subprocess.PIPE, **options)


def test_a_full_standard_output_is_a_message() -> None:
    for arguments in (["--version"], ["--help"], ["inspect", EXAMPLES / "mnist" / "mnist.pt"]):
        with Path("/dev/full").open("wb") as full:
            done = blrc_run(*arguments, stdout=full)
        assert done.returncode == 2
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith("Error: ") and line.endswith("No space left on device")


def test_a_reader_that_has_gone_is_a_message() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = blrc_run("--help", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr.decode().splitlines()) == (
        2,
        ["Error: standard output: cannot write: Broken pipe"],
    )


@pytest.mark.parametrize("closed", first(1, [">&- 2>&- <&-", ">&-", "2>&-", "<&-"]))
def test_closed_streams_end_in_a_status(closed: str, tmp_path: Path) -> None:
    """A file that is opened later must not take the number of a stream, and be written into."""
    command = f"{sys.executable} -m blrc inspect {EXAMPLES / 'mnist' / 'mnist.pt'} {closed}"
    done = subprocess.run(["sh", "-c", command], check=False, timeout=300, capture_output=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(Path(blrc.__file__).parents[1])})  # fmt: skip
    assert b"Traceback" not in done.stderr
    if closed.startswith(">&-"):
        assert (done.returncode, b"" if "2>" in closed else done.stderr) == (2, NO_OUTPUT if closed == ">&-" else b"")
    else:
        assert done.returncode == 0


NO_OUTPUT = b"Error: standard output: cannot write: Bad file descriptor\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "inspect {model} --json",
        pytest.param("eval {model} --data {data} --members map", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("output", [">&-", ">/dev/full"])
def test_regression_a_result_that_nobody_gets_is_no_success(arguments: str, output: str, tmp_path: Path) -> None:
    """`blrc inspect FILE >&-` printed nothing, and ended with 0."""
    np.savez(tmp_path / "d.npz", images=np.zeros((2, 1, 28, 28), np.uint8), labels=np.zeros(2, np.int64))
    words = arguments.format(model=EXAMPLES / "mnist" / "mnist.pt", data=tmp_path / "d.npz")
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m blrc {words} {output}"], check=False, timeout=300,
                          capture_output=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(Path(blrc.__file__).parents[1])})  # fmt: skip
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and done.stderr.splitlines()[-1].startswith(b"Error: ")


LISTENS = "import os, signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""A job in the background is started with the signal ignored."""


def test_regression_ctrl_c_while_modules_are_loaded_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(LISTENS + "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n")
    path = os.pathsep.join([str(tmp_path), str(Path(blrc.__file__).parents[1])])
    done = subprocess.run([sys.executable, "-m", "blrc", "--help"], check=False, timeout=300, capture_output=True,
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})  # fmt: skip
    assert (done.returncode, done.stderr) == (2, b"\nError: stopped\n")


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"import os, sys; os.rmdir({str(gone)!r}); from blrc.cli.main import main; main(['inspect', 'net.pt'])"
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=300, capture_output=True, cwd=gone,
                          env={**os.environ, "PYTHONPATH": str(Path(blrc.__file__).parents[1])})  # fmt: skip
    assert done.returncode == 2
    assert (
        done.stderr.decode()
        == "Error: the current folder cannot be found: No such file or directory; go to another one\n"
    )


def test_ctrl_c_is_a_message(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    script = LISTENS + "import blrc\nfrom blrc.cli.main import main\n"
    script += "def verify(*_, **__): os.kill(os.getpid(), signal.SIGINT); time.sleep(9)\nblrc.verify = verify\n"
    script += "main(['verify', 'x'])"
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=300, capture_output=True)
    assert (done.returncode, done.stderr.decode().split("\n")[-2]) == (2, "Error: stopped")
    assert signal.getsignal(signal.SIGINT) is before


def fails(*arguments: object) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 2, (arguments, result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    return result.stderr.splitlines()[-1]


@pytest.mark.timeout(120)
def test_every_option_that_is_a_path_takes_no_device_and_no_impossible_name(tmp_path: Path) -> None:
    """Commands are looked through, so that no path of a later option is forgotten."""
    model = tmp_path / "net.pt"
    encoding = encoding_of("bits", (4,))
    network = nn.Sequential(bnn.BinaryLinear(4, 3), bnn.StochasticSign(), bnn.SoftmaxLinear(3, 2))
    blrc.save(randomise(network, 0), path=model, input=encoding, calibration=raw_samples(encoding, 4, 0))
    blrc.export(model, folder=tmp_path / "out", targets="onnx")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    given = {
        ("export", "model"): model, ("export", "folder"): tmp_path / "new", ("verify", "folder"): tmp_path / "out",
        ("inspect", "model"): model, ("eval", "model"): model, ("eval", "data"): tmp_path / "data.npz",
        ("bench", "model"): tmp_path / "nothing", ("mnist", "output"): tmp_path / "t.pt",
        ("mnist", "data"): tmp_path / "nothing", ("cifar10", "output"): tmp_path / "t.pt",
        ("cifar10", "data"): tmp_path / "nothing",
    }  # fmt: skip
    tried = 0
    for prefix, command in leaves(main, ()):
        for param in command.params:
            if not isinstance(param.type, click.Path):
                continue
            for bad in ("a\0b", "\ud800", tmp_path / "fifo", "/dev/zero", tmp_path / "loop"):
                arguments: list[object] = [*prefix]
                for other in command.params:
                    value = bad if other is param else given.get((prefix[-1], str(other.name)))
                    if other.name == "targets":
                        arguments += ["--target", "onnx"]
                    elif value is not None:
                        arguments += [value] if isinstance(other, click.Argument) else [other.opts[0], value]
                line = fails(*arguments)
                assert line.startswith("Error: "), line
                tried += 1
    assert tried >= 5 * 14
    assert (tmp_path / "fifo").is_fifo()


def leaves(group: click.Group, prefix: tuple[str, ...]) -> Sequence[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with the words that call it."""
    context = click.Context(group)
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += leaves(command, (*prefix, name)) if isinstance(command, click.Group) else [((*prefix, name), command)]
    return found


def test_a_quote_in_cc_that_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    from blrc.targets.c.build.compiler import find_compiler

    for wanted in ("gcc '", '"', "cc 'x\" y"):
        with pytest.raises(BlrcError, match=r"No closing quotation; set CC to a command"):
            find_compiler(environment={"CC": wanted})


def test_what_does_not_fit_is_status_1(tmp_path: Path) -> None:
    model = EXAMPLES / "mnist" / "mnist.pt"
    result = CliRunner().invoke(main, ["export", str(model), "--target", "c", "-o", str(tmp_path / "o"), "--ram", "64"])
    assert result.exit_code == 1 and "does not fit" in result.stderr


def test_single_outputs_and_equal_samples(tmp_path: Path) -> None:
    """A label that is always 0 is refused; statistics of one input are warned of, in the manifest too."""
    one = nn.Sequential(bnn.BinaryLinear(4, 3), bnn.StochasticSign(), bnn.SoftmaxLinear(3, 1))
    with pytest.raises(BlrcError, match=r"layer '2': one output is no choice: its label would always be 0"):
        blrc.export(checkpoint_of(one, "bits", (4,)), folder=tmp_path / "one", targets="onnx")
    assert not (tmp_path / "one").exists()
    encoding = encoding_of("bits", (4,))
    two = nn.Sequential(
        bnn.BinaryLinear(4, 3), bnn.StochasticBatchNorm1d(3), bnn.StochasticSign(), bnn.SoftmaxLinear(3, 2)
    )
    samples = raw_samples(encoding, 4, 0)
    for name, calibration, warns in (("equal", samples[:1].repeat(4, 0), True), ("good", samples, False)):
        path = tmp_path / f"{name}.pt"
        blrc.save(randomise(two, 0), path=path, input=encoding, calibration=calibration)
        out = tmp_path / name
        result = CliRunner().invoke(main, ["export", str(path), "--target", "onnx", "-o", str(out)])
        assert result.exit_code == 0
        assert ("warning: " in result.stderr and "all calibration samples are equal" in result.stderr) == warns
        manifest = (out / f"{name}.manifest.json").read_text()
        assert ("all calibration samples are equal" in manifest) == warns
    with pytest.warns(UserWarning, match="all calibration samples are equal"):
        blrc.export(tmp_path / "equal.pt", folder=tmp_path / "api", targets="onnx")


class Ternary(bnn.Bernoulli):
    support = (-1, 0, 1)


def test_an_unknown_distribution_of_weights_is_refused_by_layer(tmp_path: Path) -> None:
    layer = bnn.BinaryLinear(4, 3)
    layer.weight = Ternary((3, 4))
    model = nn.Sequential(
        bnn.BinaryLinear(4, 4), bnn.StochasticSign(), layer, bnn.StochasticSign(), bnn.SoftmaxLinear(3, 2)
    )
    encoding = encoding_of("bits", (4,))
    with pytest.raises(
        BlrcError, match=r"layer '2': its weights: Ternary .*, which cannot be compiled; use Bernoulli itself"
    ):
        blrc.save(model, path=tmp_path / "net.pt", input=encoding, calibration=raw_samples(encoding, 4, 0))
    assert not list(tmp_path.iterdir())
