"""`blrc import` and `blrc export` of an ONNX file, from its nodes to verified C."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
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
    again = run("verify", tmp_path / "from_file", "--checkpoint", path, "--random", 20, "--json")
    assert again.exit_code == 0, again.output  # the manifest says what the input is


def test_options_of_files_are_refused_for_a_checkpoint(tmp_path: Path) -> None:
    path = network(np.random.default_rng(5), below).save(tmp_path / "net.onnx")
    run("import", path, "-o", tmp_path / "net.pt", "--input", "pixels")
    for words in (
        ("export", tmp_path / "net.pt", "--input", "pixels", "--target", "c", "-o", tmp_path / "out"),
        ("inspect", tmp_path / "net.pt", "--input", "pixels"),
        ("bench", tmp_path / "net.pt", "--std", "1"),
        ("eval", tmp_path / "net.pt", "--data", tmp_path, "--mean", "0"),
    ):
        failed = run(*words)
        assert failed.exit_code != 0 and "--scale are about ONNX files" in failed.output + failed.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_a_file_is_inspected_timed_and_evaluated_without_a_checkpoint(tmp_path: Path) -> None:
    path = network(np.random.default_rng(5), below).save(tmp_path / "net.onnx")
    run("import", path, "-o", tmp_path / "net.pt", "--input", "pixels")
    images = np.random.default_rng(1).integers(0, 256, (40, 3, 6, 7), dtype=np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=np.arange(40) % 4)
    pixels = ("--input", "pixels", "--json")
    both = ((path, *pixels[:2]), (tmp_path / "net.pt",))
    inspected = [json.loads(run("inspect", *words, "--json").stdout) for words in both]
    assert inspected[0]["layers"] == inspected[1]["layers"] and len(inspected[0]["layers"]) >= 3
    timed = run("bench", path, *pixels, "--rounds", 1, "--no-others")
    assert timed.exit_code == 0, timed.output
    evaluated = [
        json.loads(run("eval", *words, "--json", "--data", tmp_path / "data.npz", "--members", "map").stdout)
        for words in both
    ]
    assert evaluated[0]["members"] == evaluated[1]["members"]


def test_a_file_that_does_not_say_its_input_is_refused_by_every_command(tmp_path: Path) -> None:
    path = network(np.random.default_rng(5), lambda file: None).save(tmp_path / "net.onnx")
    for words in (("inspect", path), ("bench", path), ("eval", path, "--data", tmp_path)):
        failed = run(*words)
        assert failed.exit_code != 0 and f"{path}: " in failed.stderr and "--input" in failed.stderr
        assert failed.stderr.count("\n") == 1, failed.stderr
