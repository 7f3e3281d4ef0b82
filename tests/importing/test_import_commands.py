"""`blrc import` and `blrc export` of an ONNX file, from its nodes to verified C."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result
from test_import_inputs import below, network

from blrc.cli.main import main


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_file_is_looked_at_imported_exported_and_verified(tmp_path: Path) -> None:
    path = network(np.random.default_rng(5), below).save(tmp_path / "net.onnx")
    looked = run("import", path, "--dry-run", "--json", "--input", "pixels")
    assert looked.exit_code == 0 and json.loads(looked.stdout)["refused"] == 0
    assert run("import", path, "-o", tmp_path / "net.pt", "--input", "pixels").exit_code == 0
    for model, folder, options in (
        (path, "from_file", ("--input", "pixels")),
        (tmp_path / "net.pt", "from_checkpoint", ()),
    ):
        done = run("export", model, "--target", "c", "--name", "net", "-o", tmp_path / folder, *options)
        assert done.exit_code == 0, done.output
    same = [(tmp_path / folder / "net.program.npz").read_bytes() for folder in ("from_file", "from_checkpoint")]
    assert same[0] == same[1]
    verified = run("verify", tmp_path / "from_file", "--original", path, "--random", 60, "--json")
    assert verified.exit_code == 0, verified.output
    assert json.loads(verified.stdout)["original"]["labels"] >= 60


def test_options_of_files_are_refused_for_a_checkpoint(tmp_path: Path) -> None:
    path = network(np.random.default_rng(5), below).save(tmp_path / "net.onnx")
    run("import", path, "-o", tmp_path / "net.pt", "--input", "pixels")
    failed = run("export", tmp_path / "net.pt", "--input", "pixels", "--target", "c", "-o", tmp_path / "out")
    assert failed.exit_code != 0 and "--scale are about ONNX files" in failed.output + failed.stderr
    assert not (tmp_path / "out").exists()
