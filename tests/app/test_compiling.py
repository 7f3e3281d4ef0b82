"""`blrc.compile`: from a folder, a program or a checkpoint to the same function."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from random_networks import checkpoint_of, deep_network, raw_samples

import blrc
from blrc.errors import BlrcError
from blrc.net.encoding import device_layout
from blrc.program import program_file, reference

QUICK = ("-O1",)


@pytest.fixture(scope="module")
def source() -> blrc.Checkpoint:
    model, shape = deep_network(1)
    return checkpoint_of(model, "uint8", shape, 4)


@pytest.fixture(scope="module")
def exported(source: blrc.Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiling") / "out"
    blrc.export(source, folder=folder, targets=["c"], members="2", seed=3, name="net")
    return folder


@pytest.mark.slow("compiles many models")
def test_every_kind_of_model_gives_the_same(source: blrc.Checkpoint, exported: Path, tmp_path: Path) -> None:
    path = exported / "net.program.npz"
    program = program_file.load(path)
    raw = device_layout(raw_samples(source.encoding, 30, 1))
    expected = reference.answer(program, raw)
    for model, options in (
        (exported, {}),
        (str(exported), {}),
        (program, {}),
        (path, {}),
        (str(path), {}),
        (source, {"members": "2", "seed": 3}),
    ):
        with blrc.compile(model, flags=QUICK, **options) as net:
            np.testing.assert_array_equal(net(raw), expected.label)
            np.testing.assert_array_equal(net.answers(raw).variance, expected.variance)


@pytest.mark.nightly
def test_a_checkpoint_s_file_is_compiled_at_map(source: blrc.Checkpoint, tmp_path: Path) -> None:
    model, _ = deep_network(1)
    blrc.save(model, path=tmp_path / "in a-file.pt", input=source.encoding, calibration=source.samples())
    raw = device_layout(raw_samples(source.encoding, 9, 1))
    with blrc.compile(tmp_path / "in a-file.pt", flags=QUICK) as net:
        assert net.program.members == ("map",)
        assert net.name == "in_a_file"
        np.testing.assert_array_equal(net.scores(raw), reference.scores(net.program, raw))


def test_a_folder_whose_c_was_changed_is_not_compiled(exported: Path, tmp_path: Path) -> None:
    for file in exported.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "net.c").write_text('#error "it is this file"\n', encoding="ascii")
    with pytest.raises(BlrcError, match=r"net\.c: was changed since the export"):
        blrc.compile(tmp_path, flags=QUICK)
    (tmp_path / "net.c").unlink()
    with pytest.raises(BlrcError, match=r"net.c: cannot be read .* export again"):
        blrc.compile(tmp_path, flags=QUICK)


def test_a_folder_is_compiled_without_torch(exported: Path) -> None:
    heavy = "sorted({'torch', 'onnx', 'onnxruntime'} & set(sys.modules))"
    script = f"import sys, blrc; print(blrc.compile(sys.argv[1], flags=('-O1',)), {heavy})"
    done = subprocess.run([sys.executable, "-c", script, str(exported)], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("2 members> []\n")


def test_what_cannot_be_compiled_is_said(source: blrc.Checkpoint, exported: Path, tmp_path: Path) -> None:
    blrc.export(source, folder=tmp_path / "onnx", targets=["onnx"])
    program = program_file.load(exported / "net.program.npz")
    for model, options, message in (
        (tmp_path / "onnx", {}, r"onnx: holds no C; export it again with --target c"),
        (tmp_path, {}, r"is no export"),
        (tmp_path / "nothing.pt", {}, r"nothing\.pt"),
        (tmp_path / "nothing.program.npz", {}, r"nothing\.program\.npz"),
        (exported, {"members": "3"}, r"net: its networks are made already; choose members where it is exported"),
        (program, {"gate": 0.9}, "made already"),
        (exported / "net.program.npz", {"sample": "conv"}, "made already"),
        (program, {"freeze": "0.1"}, "made already"),
        (source, {"members": "none"}, "--members 'none'"),
        (source, {"threads": 0}, "threads 0"),
    ):
        with pytest.raises(BlrcError, match=message):
            blrc.compile(model, flags=QUICK, **options)
