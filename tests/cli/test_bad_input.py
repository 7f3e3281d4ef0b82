"""Bad input on the command line: one clear line, a status that is not 0, no traceback, nothing written."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import shutil
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_files import content_of, evil_files, rewrite, tensor
from click.testing import CliRunner
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.cli.main import main
from blrc.exports.manifest import SUFFIX

SHAPE = (1, 6, 6)
Layers = dict[str, nn.Module]


def network(layers: Layers, shape: tuple[int, ...] = SHAPE, kind: str = "uint8", calibrated: bool = True) -> Any:
    """A function that writes a checkpoint of named layers, such as `blrc.save` refuses where the module cannot run."""

    def write(path: Path) -> Path:
        encoding = encoding_of(kind, shape)
        model = randomise(nn.Sequential(OrderedDict(layers)), 0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("blrc.frontend.saving.check_equal", lambda *_: None)
            blrc.save(model, path=path, input=encoding, calibration=raw_samples(encoding, 8, 0) if calibrated else None)
        return path

    return write


def good_layers() -> Layers:
    return {
        "conv": bnn.BinaryConv2d(1, 3, 3),
        "norm": bnn.StochasticBatchNorm2d(3),
        "sign": bnn.StochasticSign(),
        "flatten": nn.Flatten(),
        "scores": bnn.SoftmaxLinear(48, 3),
    }


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good checkpoint, ``net.pt``, and its export, ``out``; only read by tests."""
    folder = tmp_path_factory.mktemp("good")
    network(good_layers())(folder / "net.pt")
    blrc.export(folder / "net.pt", folder=folder / "out")
    return folder


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
        if not p.is_socket()
    }


def error_line(output: str) -> str:
    """The one line that the user gets; what was going on before it may stand above."""
    lines = output.splitlines()
    errors = [line for line in lines if line.startswith("Error: ")]
    assert len(errors) == 1, output
    assert lines[-1] == errors[0], output
    assert "Traceback" not in output
    return errors[0]


def fails(*arguments: object, status: int = 2) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == status, result.output
    return error_line(result.output)


def export_fails(model: Path, *more: object, out: Path | None = None, status: int = 2) -> str:
    """`export` fails, and the world around the checkpoint is as it was."""
    out = model.parent / "out" if out is None else out
    before = tree(model.parent) if model.parent.is_dir() else {}
    target = () if "--target" in more else ("--target", "c", "--target", "onnx")
    line = fails("export", model, *target, "-o", out, *more, status=status)
    assert before == (tree(model.parent) if model.parent.is_dir() else {})
    return line


# Checkpoints


def damaged_files(good: Path, folder: Path) -> dict[str, tuple[Path, list[str]]]:
    raw = (good / "net.pt").read_bytes()
    flipped = bytearray(raw)
    flipped[len(raw) // 2] ^= 4
    nan = torch.full((3,), 1.0)
    nan[2] = float("nan")
    contents = {
        "text": (b"hello\n", ["not a blrc checkpoint"]),
        "empty": (b"", ["not a blrc checkpoint"]),
        "truncated": (raw[:-1000], ["not a blrc checkpoint, or truncated"]),
        "flipped": (bytes(flipped), ["damaged", "SHA-256"]),
        **{
            f"evil_{kind}": (content, ["not plain tensors" if kind == "sealed" else "not a blrc checkpoint"])
            for kind, content in evil_files(folder, folder / "executed").items()
        },
    }
    files = {}
    for name, (content, words) in contents.items():
        (folder / f"{name}.pt").write_bytes(content)
        files[name] = (folder / f"{name}.pt", words)
    plain = content_of(good / "net.pt")
    for name, content, words in [
        ("newer", {**plain, "version": 7}, ["version 7", "up to 3", "update blrc"]),
        ("nan", tensor("norm.weight", nan)(plain), ["'norm'", "weight of channel 2 is NaN"]),
        ("inf", tensor("norm.running_var", nan / 0)(plain), ["'norm'", "running_var of channel 0 is NaN or infinite"]),
        ("alien", {"state_dict": plain["tensors"]}, ["not a blrc checkpoint"]),
    ]:
        files[name] = (rewrite(folder / f"{name}.pt", content), words)
    torch.save(nn.Linear(2, 2).state_dict(), folder / "torch.pt")
    files["torch"] = (folder / "torch.pt", ["not a blrc checkpoint", "blrc.save()"])
    files["missing"] = (folder / "missing.pt", ["no such file"])
    (folder / "folder.pt").mkdir()
    files["folder"] = (folder / "folder.pt", ["Is a directory"])
    files["under_a_file"] = (folder / "text.pt" / "net.pt", ["cannot read"])
    return files


def test_checkpoints_that_are_none(good: Path, tmp_path: Path) -> None:
    for path, words in damaged_files(good, tmp_path).values():
        line = export_fails(path, out=tmp_path / "out")
        assert str(path) in line
        for word in words:
            assert word in line
        # `verify --checkpoint` and `inspect` read it too.
        assert fails("verify", good / "out", "--checkpoint", path) == line
        assert fails("inspect", path) == line
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "out").exists()


def test_no_calibration(tmp_path: Path) -> None:
    path = network(good_layers(), calibrated=False)(tmp_path / "net.pt")
    line = export_fails(path)
    assert "holds no calibration samples" in line
    assert "calibration=samples" in line


# Layers and their order


def conv(inputs: int = 1, outputs: int = 3, kernel: Any = 3, **options: Any) -> nn.Module:
    return bnn.BinaryConv2d(inputs, outputs, kernel, **options)


def norm(channels: int = 3) -> nn.Module:
    return bnn.StochasticBatchNorm2d(channels)


def sign() -> nn.Module:
    return bnn.StochasticSign()


def pool(size: int = 2) -> nn.Module:
    return bnn.StochasticMaxPool2d(size)


def last(features: int = 48) -> Layers:
    return {"flat": nn.Flatten(), "scores": bnn.SoftmaxLinear(features, 3)}


ORDERS: dict[str, tuple[Layers, list[str]]] = {
    "no sign": ({"c": conv(), "n": norm(), **last()}, ["'flat'", "'c'", "after the sign"]),
    "no sign, conv": ({"c": conv(), "n": norm(), "d": conv(3), "s": sign(), **last(12)}, ["'d'", "StochasticSign"]),
    "no sign at the end": ({"c": conv(), "n": norm()}, ["'c'", "no sign follows", "SoftmaxLinear"]),
    "norm after sign": (
        {"c": conv(), "s": sign(), "n": norm(), **last()},
        ["'n'", "a binary layer and its sign"],
    ),
    "norm first": ({"n": norm(1), "c": conv(), "s": sign(), **last()}, ["'n'", "a binary layer and its sign"]),
    "norm behind flatten": (
        {"c": conv(), "f": nn.Flatten(), "n": bnn.StochasticBatchNorm1d(48), "s": sign(), **last()},
        ["'f'", "'c'", "move it after the sign"],
    ),
    "real layer in the middle": (
        {"c": conv(), "s": sign(), "f": nn.Flatten(), "l": nn.Linear(48, 8), "s2": sign(), "scores": nn.Linear(8, 3)},
        ["'s2'", "after the softmax layer 'l'", "must be the last"],
    ),
    "layer after softmax": (
        {"c": conv(), "s": sign(), **last(), "b": bnn.BinaryLinear(3, 3)},
        ["'b'", "after the softmax layer 'scores'"],
    ),
    "no softmax": ({"c": conv(), "s": sign()}, ["no softmax layer", "SoftmaxLinear"]),
    "softmax of raw input": (last(36), ["'scores'", "+-1 inputs", "binary layer and a sign"]),
    "pool of raw input": ({"p": pool(), "c": conv(1, 3, 1), "s": sign(), **last(27)}, ["'p'", "start with a binary"]),
    "sign of raw input": ({"s": sign(), "c": conv(), "s2": sign(), **last()}, ["'s'", "declare the input as bits"]),
    "wrong channels": ({"c": conv(), "s": sign(), "d": conv(4), "s2": sign(), **last()}, ["'d'", "4 input", "has 3"]),
    "wrong norm": ({"c": conv(), "n": norm(5), "s": sign(), **last()}, ["'n'", "5 channels", "has 3"]),
    "wrong features": ({"c": conv(), "s": sign(), **last(47)}, ["'scores'", "47 inputs", "has 48"]),
    "no flatten": (
        {"c": conv(), "s": sign(), "scores": bnn.SoftmaxLinear(48, 3)},
        ["'scores'", "needs a vector", "(3, 4, 4)", "nn.Flatten()"],
    ),
    "conv of a vector": (
        {"f": nn.Flatten(), "c": conv(), "s": sign(), "scores": bnn.SoftmaxLinear(3, 3)},
        ["'c'", "needs a map", "vector of 36"],
    ),
    "kernel too large": ({"c": conv(1, 3, 7), "s": sign(), **last()}, ["'c'", "(7, 7)", "6 x 6", "smaller kernel"]),
    "dilation too large": ({"c": conv(dilation=3), "s": sign(), **last()}, ["'c'", "does not fit", "6 x 6"]),
    "pool too large": ({"c": conv(), "p": pool(5), "s": sign(), **last()}, ["'p'", "(5, 5)", "4 x 4"]),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.filterwarnings("ignore:.*pixels are rounded to int8 codes:UserWarning")
def test_orders_without_an_exact_form_are_refused_by_name(name: str, tmp_path: Path) -> None:
    layers, words = ORDERS[name]
    line = export_fails(network(layers)(tmp_path / "net.pt"))
    for word in words:
        assert word in line


class Residual(nn.Module):
    def __init__(self, used: str) -> None:
        super().__init__()
        self.a, self.b, self.sign, self.sign2 = conv(), conv(), sign(), sign()
        self.scores = bnn.SoftmaxLinear(48, 3)
        self.used = used

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.sign(self.a(x))
        if self.used == "twice":
            first = self.sign(first)
        elif self.used == "branch":
            second = self.sign2(self.b(x))
            return self.scores(torch.flatten(second, 1))  # type: ignore[no-any-return]
        elif self.used == "sum":
            first = first + self.sign2(self.b(x))
        elif self.used == "condition" and first.sum() > 0:
            first = -first
        return self.scores(torch.flatten(first, 1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ("twice", ["'sign'", "used twice"]),
        ("sum", ["'add'", "no binary form"]),
        ("condition", ["Residual.forward cannot be followed", "conditions on data"]),
    ],
)
def test_networks_that_are_no_chain_are_refused_when_saved(used: str, words: list[str], tmp_path: Path) -> None:
    encoding = encoding_of("uint8", SHAPE)
    with pytest.raises(blrc.BlrcError) as error:
        blrc.save(Residual(used), path=tmp_path / "net.pt", input=encoding, calibration=None)
    assert all(word in str(error.value) for word in words)
    assert not list(tmp_path.iterdir())


def test_a_branch_is_refused(tmp_path: Path) -> None:
    encoding = encoding_of("uint8", SHAPE)
    samples = raw_samples(encoding, 8, 0)
    blrc.save(Residual("branch"), path=tmp_path / "net.pt", input=encoding, calibration=samples)
    line = export_fails(tmp_path / "net.pt")
    assert "'b'" in line
    assert "branches are not supported" in line


# Options


@pytest.mark.parametrize(
    ("options", "words", "status"),
    [
        (("--target", "fortran"), ["unknown target 'fortran'", "c, onnx"], 2),
        (("--target", "c", "--target", "C"), ["unknown target 'C'"], 2),
        (("--target", ""), ["unknown target ''"], 2),
        (("--members", "0"), ["--members '0'", "map, or a number"], 2),
        (("--members", "-1"), ["--members '-1'", "map, or a number"], 2),
        (("--members", "x"), ["--members 'x'", "map, or a number"], 2),
        (("--members", ""), ["--members ''"], 2),
        (("--members", "1366"), ["--members 1366", "1365 members at most"], 2),
        (("--members", "9" * 5000), ["--members"], 2),
        (("--members", "1", "--seed", "-1"), ["seed -1", "2^64 - 1"], 2),
        (("--members", "1", "--seed", str(2**64)), [f"seed {2**64}", "2^64 - 1"], 2),
        (("--seed", "-1"), ["seed -1"], 2),
        (("--seed", "x"), ["'x' is not a valid integer"], 2),
        (("--name", "1net"), ["'1net'", "start with a letter", "--name"], 2),
        (("--name", "int"), ["'int'", "keyword"], 2),
        (("--name", "class"), ["'class'", "keyword"], 2),
        (("--name", "a-b"), ["'a-b'", "letters, digits and underscores"], 2),
        (("--name", "../x"), ["'../x'"], 2),
        (("--name", "\u00e9"), ["letters, digits"], 2),
        (("--name", ""), ["''"], 2),
        (("--name", "string"), ["'string'", "would hide a header of"], 2),
        (("--name", "a" * 200), ["longer than"], 2),
        (("--name", "net\n"), ["letters, digits"], 2),
    ],
)
def test_options(options: tuple[str, ...], words: list[str], status: int, good: Path) -> None:
    line = export_fails(good / "net.pt", *options, out=good / "new", status=status)
    for word in words:
        assert word in line
    assert not (good / "new").exists()


@pytest.mark.parametrize(
    ("file", "words"),
    [("int.pt", ["'int'", "--name"]), ("2nd.pt", ["'2nd'", "--name"]), (".pt", ["'_pt'", "--name"])],
)
def test_names_from_the_file_name(file: str, words: list[str], good: Path, tmp_path: Path) -> None:
    shutil.copy(good / "net.pt", tmp_path / file)
    line = export_fails(tmp_path / file)
    assert all(word in line for word in words)


def test_no_target_and_no_folder(good: Path) -> None:
    assert "'--target'" in fails("export", good / "net.pt", "-o", good / "new", status=2)
    assert "'-o'" in fails("export", good / "net.pt", "--target", "c", status=2)
    assert "'MODEL'" in fails("export", "--target", "c", "-o", "x", status=2)


# The output folder


def test_a_folder_that_exists_is_left_alone(good: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(good / "out", out)
    before = tree(out)
    line = fails("export", good / "net.pt", "--target", "c", "-o", out)
    assert f"{out}: exists already" in line
    assert "--force" in line
    assert tree(out) == before
    (tmp_path / "empty").mkdir()
    assert (
        CliRunner()
        .invoke(main, ["export", str(good / "net.pt"), "--target", "c", "-o", str(tmp_path / "empty")])
        .exit_code
        == 0
    )


def test_force_replaces_the_exports_own_files_only(good: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(good / "out", out)
    (out / "main.c").write_text("int main(void) { return 0; }\n")
    (out / "mine").mkdir()
    (out / "mine" / "notes.txt").write_text("keep\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text("1")
    (out / "link").symlink_to("../elsewhere")
    written = (out / "net.c").read_bytes()
    (out / "net.c").write_text("edited\n")
    arguments = ["export", str(good / "net.pt"), "--target", "onnx", "-o", str(out), "--force", "--name", "other"]
    before = tree(tmp_path)
    assert "net.c: was changed since the export" in fails(*arguments)  # which may be somebody's work
    assert tree(tmp_path) == before
    (out / "net.c").write_bytes(written)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    names = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file() and "link" not in p.parts}
    assert names == {
        "main.c",
        "mine/notes.txt",
        "other.onnx",
        "other.program.npz",
        "other.vectors.npz",
        f"other{SUFFIX}",
    }
    assert (out / "link").is_symlink()
    assert (out / "link" / "x").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_force_does_not_touch_a_folder_that_is_no_export(good: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "net.c").write_text("precious\n")
    (tmp_path / "file").write_text("precious\n")
    for out, words in [("mine", "is no export"), ("file", "is a file, not a folder")]:
        before = tree(tmp_path)
        line = fails("export", good / "net.pt", "--target", "c", "-o", tmp_path / out, "--force")
        assert words in line
        assert tree(tmp_path) == before


def test_a_folder_that_cannot_be(good: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    for out in (tmp_path / "file" / "out", Path("/proc/blrc-out"), tmp_path / ("x" * 300)):
        line = fails("export", good / "net.pt", "--target", "c", "-o", out)
        assert out.name in line
        assert "cannot" in line
    assert tree(tmp_path) == {"file": b"1"}


@contextmanager
def as_nobody() -> Iterator[None]:
    """The superuser may do anything; as another user the system's own refusals can be seen."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_permission_denied(good: Path, tmp_path: Path) -> None:
    # pytest's folders are closed to other users, who must come as far as the one that refuses them.
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        if os.geteuid() == 0 and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o111)
    model = Path(shutil.copy(good / "net.pt", tmp_path / "net.pt"))
    model.chmod(0o644)
    for name in ("read_only", "closed", "unreadable"):
        (tmp_path / name).mkdir()
    shutil.copytree(good / "out", tmp_path / "closed" / "out")
    (tmp_path / "closed" / "data.npz").write_bytes(b"")
    (tmp_path / "unreadable" / "net.pt").write_bytes(b"")
    (tmp_path / "unreadable" / "net.pt").chmod(0)
    (tmp_path / "unreadable").chmod(0o755)
    (tmp_path / "read_only").chmod(0o555)
    (tmp_path / "closed").chmod(0)
    try:
        for arguments in [
            ("export", model, "--target", "c", "-o", tmp_path / "read_only" / "out"),
            ("export", model, "--target", "c", "-o", tmp_path / "closed" / "out"),
            ("export", model, "--target", "c", "-o", tmp_path / "closed" / "out", "--force"),
            ("export", model, "--target", "c", "-o", tmp_path / "closed"),
            ("export", tmp_path / "unreadable" / "net.pt", "--target", "c", "-o", tmp_path / "x"),
            ("export", tmp_path / "closed" / "net.pt", "--target", "c", "-o", tmp_path / "x"),
            ("verify", tmp_path / "closed" / "out"),
            ("verify", tmp_path / "closed"),
        ]:
            with as_nobody():
                line = fails(*arguments)
            assert "Permission denied" in line or "is no export" in line, line
        # The test data alone are closed.
        shutil.copytree(good / "out", tmp_path / "out")
        for data in ("data.npz", "folder"):
            with as_nobody():
                line = fails(
                    "verify", good / "out" if os.geteuid() else tmp_path / "out", "--data", tmp_path / "closed" / data
                )
            assert "Permission denied" in line
        assert list((tmp_path / "read_only").iterdir()) == []
    finally:
        for name in ("read_only", "closed"):
            (tmp_path / name).chmod(0o755)


# Writing that fails half-way


def test_a_file_size_limit_of_the_system(good: Path, tmp_path: Path) -> None:
    """The kernel itself refuses to write on, in the middle of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    shutil.copytree(good / "out", tmp_path / "old")
    before = tree(tmp_path)
    largest = max(p.stat().st_size for p in (good / "out").iterdir())
    for limit in (0, 1000, largest - 1):
        for out, more in ((tmp_path / "new", ()), (tmp_path / "old", ("--force",))):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                line = fails("export", good / "net.pt", "--target", "c", "--target", "onnx", "-o", out, *more)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert f"{out}: cannot write: File too large; nothing was changed" in line
            assert tree(tmp_path) == before


def test_a_full_disk(good: Path, tmp_path: Path) -> None:
    """A file system of 64 kB, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        line = fails("export", good / "net.pt", "--target", "c", "--target", "onnx", "-o", disk / "out")
        assert "cannot write: No space left on device; nothing was changed" in line
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_stopped_at_every_step_of_writing(
    stop: BaseException, force: bool, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step that writes fails once: what was there stays, and no temporary file."""
    if force:
        shutil.copytree(good / "out", tmp_path / "out")
        (tmp_path / "out" / "mine.txt").write_text("keep")
    before = tree(tmp_path)
    calls = {"count": 0, "fail": -1}

    def counted(what: str, path: Path) -> None:
        if what in ("make folder", "create", "write"):
            calls["count"] += 1
            if calls["count"] == calls["fail"]:
                raise stop

    arguments = ["export", str(good / "net.pt"), "--target", "onnx", "-o", str(tmp_path / "out")]
    arguments += ["--force"] if force else []
    done = False
    steps = 0
    while not done:
        steps += 1
        calls.update(count=0, fail=steps)
        with monkeypatch.context() as patch:
            patch.setattr("blrc.store.steps.before", counted)
            result = CliRunner().invoke(main, arguments)
        done = result.exit_code == 0
        if not done:
            assert isinstance(result.exception, SystemExit), result.exception
            assert tree(tmp_path) == before, f"after step {steps}"
            if isinstance(stop, OSError):
                assert "No space left on device; nothing was changed" in error_line(result.output)
            else:
                assert error_line(result.output) == "Error: stopped"
                assert "Traceback" not in result.output
    assert steps >= 6
    assert {p.name for p in tmp_path.iterdir()} == {"out"}


# verify


def test_folders_that_are_no_export(good: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("1")
    (tmp_path / "two").mkdir()
    manifest = good / "out" / f"net{SUFFIX}"
    for name in ("a", "b"):
        shutil.copy(manifest, tmp_path / "two" / f"{name}{SUFFIX}")
    for name, words in [
        ("none", "no such folder; export a model first"),
        ("file", "is a file; give the folder"),
        ("empty", "is no export"),
        ("two", "holds several manifests"),
    ]:
        line = fails("verify", tmp_path / name)
        assert str(tmp_path / name) in line
        assert words in line
    assert "'FOLDER'" in fails("verify", status=2)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"{}", b"[" * 100_000, b'{"format": 1}', b'{"format": 99}'],
    ids=lambda content: repr(content[:20]),
)
def test_manifests_that_are_none(content: bytes, good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "out", tmp_path / "out")
    (tmp_path / "out" / f"net{SUFFIX}").write_bytes(content)
    line = fails("verify", tmp_path / "out")
    assert f"net{SUFFIX}" in line
    assert "export again" in line
    # Nor does --force take it for an export whose files may go.
    before = tree(tmp_path)
    fails("export", good / "net.pt", "--target", "c", "-o", tmp_path / "out", "--force")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "change",
    [
        {"format": 3},
        {"name": 3},
        {"digest": None},
        {"members": "map"},
        {"targets": ["c"]},
        {"files": ["net.c"]},
        {"name": "other"},
        {"name": "../../net"},
    ],
    ids=repr,
)
def test_edited_manifests(change: dict[str, Any], good: Path, tmp_path: Path) -> None:
    shutil.copytree(good / "out", tmp_path / "out")
    path = tmp_path / "out" / f"net{SUFFIX}"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    assert "export" in fails("verify", tmp_path / "out")


def test_a_digest_that_does_not_match(good: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    blrc.export(good / "net.pt", folder=out, targets=["onnx"], name="net")
    path = out / f"net{SUFFIX}"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "digest": "0" * 64}))
    line = fails("verify", out, "--random", "1")
    assert "net.program.npz: has digest " in line and "but the manifest says 0000" in line


def data_files(folder: Path) -> dict[str, tuple[Path, list[str]]]:
    images, labels = np.zeros((4, *SHAPE), np.uint8), np.zeros(4, np.int64)
    arrays: dict[str, tuple[dict[str, Any], list[str]]] = {
        "float": ({"images": images.astype(np.float32), "labels": labels}, ["float32", "uint8"]),
        "int8": ({"images": images.astype(np.int8), "labels": labels}, ["int8", "uint8"]),
        "size": ({"images": images[:, :, :5], "labels": labels}, ["(5, 6, 1)", "(6, 6, 1)"]),
        "channels_last": ({"images": images.transpose(0, 2, 3, 1), "labels": labels}, ["(6, 1, 6)", "(6, 6, 1)"]),
        "flat": ({"images": images.reshape(4, -1), "labels": labels}, ["(1, 1, 36)"]),
        "three": ({"images": images[:, 0], "labels": labels}, ["(N, C, H, W)"]),
        "few_labels": ({"images": images, "labels": labels[:3]}, ["labels are int64 (3,)", "(4,)"]),
        "one_hot": ({"images": images, "labels": np.eye(4, dtype=np.int64)}, ["labels are int64 (4, 4)"]),
        "float_labels": ({"images": images, "labels": labels.astype(float)}, ["labels are float64", "integers"]),
        "large_label": ({"images": images, "labels": labels + 3}, ["from 3 to 3", "3 classes"]),
        "negative_label": ({"images": images, "labels": labels - 1}, ["from -1 to -1"]),
        "empty": ({"images": images[:0], "labels": labels[:0]}, ["holds no images"]),
        "scalar": ({"images": np.uint8(3), "labels": labels}, ["holds no images"]),
        "names": ({"x": images, "y": labels}, ["needs the arrays images and labels"]),
        "objects": ({"images": np.array([None] * 4), "labels": labels}, ["cannot be read as .npz"]),
    }
    files = {}
    for name, (content, words) in arrays.items():
        np.savez(folder / f"{name}.npz", **content)
        files[name] = (folder / f"{name}.npz", words)
    buffer = io.BytesIO()
    np.save(buffer, images)
    whole = (folder / "large_label.npz").read_bytes()
    for name, raw in [
        ("npy", buffer.getvalue()),
        ("text", b"hello"),
        ("nothing", b""),
        ("half", whole[: len(whole) // 2]),
    ]:
        (folder / f"{name}.npz").write_bytes(raw)
        files[name] = (folder / f"{name}.npz", ["cannot be read as .npz"])
    (folder / "folder.npz").mkdir()
    files["folder"] = (folder / "folder.npz", ["Is a directory"])
    files["missing"] = (folder / "missing.npz", ["No such file"])
    files["no folder"] = (folder / "nowhere", ["no such folder"])
    (folder / "mnist").mkdir()
    files["mnist"] = (folder / "mnist", ["read as MNIST", "uint8 (6, 6, 1)", ".npz"])
    return files


def test_data_of_the_wrong_kind(good: Path, tmp_path: Path) -> None:
    for path, words in data_files(tmp_path).values():
        line = fails("verify", good / "out", "--data", path)
        assert str(path) in line
        for word in words:
            assert word in line


def test_options_of_verify(good: Path) -> None:
    assert "-1" in fails("verify", good / "out", "--seed", "-1", status=2)
    assert "-1" in fails("verify", good / "out", "--random", "-1", status=2)
    assert "'x'" in fails("verify", good / "out", "--random", "x", status=2)


def test_no_compiler(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    line = fails("verify", good / "out", "--random", "1")
    assert "no C compiler found" in line
    assert "install gcc or clang" in line
    monkeypatch.setenv("CC", "/no/such/compiler -O3")
    line = fails("verify", good / "out", "--random", "1")
    assert "'/no/such/compiler -O3' not found" in line


# As a user sees it


def blrc_process(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "blrc", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=120,
    )


def test_in_a_process_of_its_own(good: Path, tmp_path: Path) -> None:
    files = damaged_files(good, tmp_path)
    for arguments, words in [
        (("export", files["evil_sealed"][0], "--target", "c", "-o", tmp_path / "out"), "not plain tensors"),
        (("verify", tmp_path), "is no export"),
    ]:
        done = blrc_process(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert words in error_line(done.stderr)
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "out").exists()
