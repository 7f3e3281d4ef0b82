"""`export` writes the same bytes for the same request, and one folder that is complete."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from random_networks import binarized_network, checkpoint_of, deep_network
from random_programs import top_probability
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.exports.door import read_manifest
from blrc.exports.manifest import SUFFIX, Listed
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.members import parse_gate, parse_members
from blrc.frontend.sample import MAP, Member, binary_layers, sampled_layers
from blrc.net.encoding import device_layout
from blrc.program import program_file, reference
from blrc.targets.onnx.session import OnnxRun


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    model, shape = deep_network(1)
    return checkpoint_of(model, "uint8", shape, 1)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_folder_is_complete(checkpoint: Checkpoint, tmp_path: Path) -> None:
    said: list[str] = []
    done = blrc.export(checkpoint, folder=tmp_path / "new" / "out", name="net", say=said.append)
    assert done.folder == tmp_path / "new" / "out"
    files = tree(done.folder)
    assert {"net.c", "net.h", "net.onnx", "net.program.npz", "net.vectors.npz", f"net{SUFFIX}"} < set(files)
    assert read_manifest(done.folder) == done.manifest
    assert done.manifest.files == {
        name: Listed(len(content), hashlib.sha256(content).hexdigest())
        for name, content in files.items()
        if not name.endswith(SUFFIX)
    }
    loaded = program_file.load(done.folder / "net.program.npz")
    assert program_file.digest(loaded) == done.manifest.digest == program_file.digest(done.program)
    assert done.manifest.members == ("map",)
    assert set(done.manifest.targets) == {"c", "onnx"}
    for name in ("net.c", "net.h", "net_weights.c"):
        assert done.manifest.digest[:16] in files[name].decode().lower(), name
    assert any(done.manifest.digest in line for line in said)
    assert not list((tmp_path / "new").glob(".*"))


def test_the_same_request_gives_the_same_bytes(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """Also from a file, from another folder, in another order of targets, and in another process."""
    model = checkpoint.model()
    assert checkpoint.calibration is not None
    blrc.save(model, path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration)
    blrc.export(checkpoint, folder=tmp_path / "a", name="net", members="1", seed=7)
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "b" / "c", targets=["onnx", "c", "onnx"], members="1", seed=7)
    command = [sys.executable, "-m", "blrc", "export", "net.pt", "--target", "c", "--target", "onnx", "-o", "d"]
    environment = {**os.environ, "PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "1", "TZ": "Asia/Tokyo"}
    root = str(Path(blrc.__file__).parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    subprocess.run([*command, "--members", "1", "--seed", "7"], cwd=tmp_path, env=environment, check=True)
    first = tree(tmp_path / "a")
    assert tree(tmp_path / "b" / "c") == first
    assert tree(tmp_path / "d") == first
    # A compact checkpoint holds the same network.
    blrc.save(
        model, path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration, compact=True
    )
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "e", members="1", seed=7)
    assert tree(tmp_path / "e") == first
    assert str(tmp_path).encode() not in b"".join(first.values())


def test_members(checkpoint: Checkpoint, tmp_path: Path) -> None:
    digests = set()
    for i, (members, seed) in enumerate([("map", 0), ("map", 5), ("1", 0), ("1", 5), ("1", 2**64 - 1)]):
        done = blrc.export(checkpoint, folder=tmp_path / str(i), targets=["onnx"], members=members, seed=seed)
        assert done.program.members == ("map" if members == "map" else f"sample {seed}:0",)
        digests.add(done.manifest.digest)
    assert len(digests) == 4
    assert parse_members("map", 3) == [MAP]
    assert parse_members("1", 3) == [Member(3, 0)]
    assert parse_members("016", 3)[:2] == [Member(3, 0), Member(3, 1)]
    assert len(parse_members("16", 3)) == 16
    small, large = (build(checkpoint, parse_members(n, 3))[0] for n in ("2", "3"))
    for name, constant in small.constants.items():
        for member in range(2):  # a member is the same whatever their number
            assert np.array_equal(small.constant(name, member), large.constant(name, member))
        assert len(constant.of_member) == 2


def test_a_choice_of_layers_is_exported_and_lowered_again(checkpoint: Checkpoint, tmp_path: Path) -> None:
    assert checkpoint.calibration is not None
    blrc.save(
        checkpoint.model(), path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration
    )
    kinds = binary_layers(checkpoint)
    done = blrc.export(
        tmp_path / "net.pt", folder=tmp_path / "out", targets=["onnx"], members="3", seed=4, sample="conv", freeze="0.1"
    )
    convolutions = [name for name, kind in kinds.items() if kind == "binary_conv2d"]
    assert done.program.members[2] == f"sample 4:2 layers {','.join(convolutions)} freeze 1/10"
    stored = {name: len(done.program.constants[f"{name}.weights"].tables) for name in kinds}
    assert all(count == (3 if name in convolutions else 1) for name, count in stored.items())
    report = blrc.verify(tmp_path / "out", model=tmp_path / "net.pt", random=20)
    assert report.equal
    # A checkpoint without that layer cannot have given the program.
    blrc.save(
        nn.Sequential(bnn.BinaryLinear(9, 8), bnn.StochasticSign(), bnn.SoftmaxLinear(8, 3)),
        path=tmp_path / "other.pt",
        input=blrc.pixels((9,), mean=(0.5,), std=(0.5,)),
        calibration=np.zeros((4, 9), np.uint8),
    )
    with pytest.raises(BlrcError, match=r"other.pt: cannot sample '.*its binary layers are '0'"):
        blrc.verify(tmp_path / "out", model=tmp_path / "other.pt", random=0)
    with pytest.raises(BlrcError, match="map samples nothing"):
        blrc.export(checkpoint, folder=tmp_path / "map", sample="conv")
    with pytest.raises(BlrcError, match="map samples nothing"):
        blrc.export(checkpoint, folder=tmp_path / "map", freeze=0.1)


@pytest.mark.needs("cc", "size")
@pytest.mark.nightly
def test_a_gate_is_exported_and_verified(checkpoint: Checkpoint, tmp_path: Path) -> None:
    assert checkpoint.calibration is not None
    blrc.save(
        checkpoint.model(), path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration
    )
    raw = device_layout(checkpoint.calibration)
    tops = np.sort(top_probability(build(checkpoint, [MAP])[0], raw))
    probability = Fraction(int(tops[20]), 65536)
    done = blrc.export(
        tmp_path / "net.pt", folder=tmp_path / "out", members="2", seed=4, sample="conv", gate=probability, name="net"
    )
    names = [str(member) for member in parse_members("2", 4, sampled_layers(checkpoint, "conv"))]
    assert done.program.members == ("map", *names)
    assert done.program.gate == tops[20]
    assert done.manifest.settings["gate"] == {"q16": int(tops[20]), "probability": float(probability)}
    kinds = binary_layers(checkpoint)
    assert done.manifest.settings["sampled_layers"] == [n for n in kinds if kinds[n] == "binary_conv2d"]
    # Layers that stay at MAP are MAP's own: one table for all three.
    assert all(len(done.program.constants[f"{n}.weights"].tables) == 1 for n in kinds if kinds[n] == "binary_linear")
    expected = reference.answer(done.program, raw)
    assert set(expected.members.tolist()) == {1, 3}
    np.savez(tmp_path / "data.npz", images=checkpoint.calibration, labels=expected.label)
    report = blrc.verify(tmp_path / "out", data=tmp_path / "data.npz", model=tmp_path / "net.pt", random=20)
    assert report.equal, (report.difference, report.problems)
    assert report.accuracy == 100.0


def test_the_command_takes_the_choices(checkpoint: Checkpoint, tmp_path: Path) -> None:
    assert checkpoint.calibration is not None
    blrc.save(
        checkpoint.model(), path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration
    )

    def run(*options: str) -> Result:
        folder = str(tmp_path / f"out{len(options)}")
        return CliRunner().invoke(
            main, ["export", str(tmp_path / "net.pt"), "--target", "onnx", "-o", folder, *options]
        )

    layer = next(iter(binary_layers(checkpoint)))
    done = run("--members", "2", "--seed", "7", "--sample", layer, "--freeze", "0.05", "--gate", "0.9")
    assert done.exit_code == 0, done.output
    program = program_file.load(tmp_path / "out10" / "net.program.npz")
    text = f"layers {layer} freeze 1/20"
    assert program.members == ("map", f"sample 7:0 {text}", f"sample 7:1 {text}")
    assert program.gate == 58983
    refused = run("--members", "2", "--sample", "nope")
    assert refused.exit_code == 2
    assert "cannot sample 'nope': its binary layers are" in refused.output


def test_gates_without_a_meaning(checkpoint: Checkpoint, tmp_path: Path) -> None:
    for gate in ("0", "-0.1", "1.01", "x", "nan", "1/0", 2.0, True):
        with pytest.raises(BlrcError, match="expected a probability above 0 and at most 1"):
            parse_gate(gate)
    assert parse_gate(None) == 0
    assert parse_gate("0.99") == parse_gate(0.99) == 64881
    assert parse_gate(1) == 65536
    with pytest.raises(BlrcError, match="map samples nothing; add --members 16"):
        blrc.export(checkpoint, folder=tmp_path / "out", gate=0.5)
    with pytest.raises(BlrcError, match="1365 members at most"):
        blrc.export(checkpoint, folder=tmp_path / "out", members="1365", gate=0.5)
    assert len(parse_members("1364", 0, gate=1)) == 1365
    assert not list(tmp_path.iterdir())


def test_one_target_alone(checkpoint: Checkpoint, tmp_path: Path) -> None:
    blrc.export(checkpoint, folder=tmp_path / "c", targets=["c"], name="net")
    blrc.export(checkpoint, folder=tmp_path / "onnx", targets=["onnx"], name="net")
    both = tree(blrc.export(checkpoint, folder=tmp_path / "both", name="net").folder)
    one, other = tree(tmp_path / "c"), tree(tmp_path / "onnx")
    assert "net.onnx" not in one
    # One name need not stand in a list: its letters were taken for targets.
    assert tree(blrc.export(checkpoint, folder=tmp_path / "text", targets="onnx", name="net").folder) == other
    assert not [name for name in other if name.endswith((".c", ".h"))]
    for name, content in {**one, **other}.items():
        if not name.endswith(SUFFIX):
            assert both[name] == content
    assert set(both) == {*one, *other}


def test_a_network_without_random_weights_has_no_members(tmp_path: Path) -> None:
    """Two equal members were written, whose variance of 0 reads as full certainty."""
    model, shape = binarized_network(1)
    source = checkpoint_of(model, "uint8", shape, 1)
    with pytest.raises(BlrcError, match=r"no weight of it is random .* export it with --members map"):
        blrc.export(source, folder=tmp_path / "out", members="2")
    images = np.zeros((4, *source.encoding.shape), np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=np.zeros(4, np.int64))
    with pytest.raises(BlrcError, match=r"no weight of it is random .* evaluate it with --members map"):
        blrc.evaluate(source, data=tmp_path / "data.npz", members="stochastic,map,2")
    assert not (tmp_path / "out").exists()


def test_weights_of_the_onnx_file_as_bits(checkpoint: Checkpoint, tmp_path: Path) -> None:
    assert checkpoint.calibration is not None
    blrc.save(
        checkpoint.model(), path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration
    )
    line = ["export", str(tmp_path / "net.pt"), "--target", "onnx", "--onnx-weights", "bits", "-o"]
    done = CliRunner().invoke(main, [*line, str(tmp_path / "bits")])
    assert done.exit_code == 0, done.output
    blrc.export(checkpoint, folder=tmp_path / "bytes", targets="onnx", name="net")
    sizes = {name: (tmp_path / name / "net.onnx").stat().st_size for name in ("bits", "bytes")}
    about = {name: read_manifest(tmp_path / name).targets["onnx"] for name in sizes}
    assert {name: (found["weights"], found["bytes"]) for name, found in about.items()} == {
        name: (name, size) for name, size in sizes.items()
    }
    assert blrc.verify(tmp_path / "bits", random=20).equal


@pytest.mark.parametrize("option", [("--onnx-form", "float"), ("--onnx-outputs", "scores")])
def test_other_forms_of_the_onnx_file_are_verified(
    option: tuple[str, str], checkpoint: Checkpoint, tmp_path: Path
) -> None:
    assert checkpoint.calibration is not None
    blrc.save(
        checkpoint.model(), path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration
    )
    line = ["export", str(tmp_path / "net.pt"), "--target", "onnx", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*line, *option])
    assert done.exit_code == 0, done.output
    about = read_manifest(tmp_path / "out").targets["onnx"]
    assert (about["form"], about["outputs"]) == ("float" if option[0] == "--onnx-form" else "integer", "scores")
    assert blrc.verify(tmp_path / "out", random=20).equal
    assert "[integer|float]" in CliRunner().invoke(main, ["export", "--help"]).output


@pytest.mark.parametrize(("file", "name"), [("my-net v2.pt", "my_net_v2"), ("x.y.pt", "x_y"), ("Net", "Net")])
def test_the_name_comes_from_the_file(file: str, name: str, checkpoint: Checkpoint, tmp_path: Path) -> None:
    assert checkpoint.calibration is not None
    blrc.save(checkpoint.model(), path=tmp_path / file, input=checkpoint.encoding, calibration=checkpoint.calibration)
    assert blrc.export(tmp_path / file, folder=tmp_path / "out", targets=["onnx"]).manifest.name == name
    assert (tmp_path / "out" / f"{name}.onnx").is_file()


def test_mistakes(checkpoint: Checkpoint, tmp_path: Path) -> None:
    for arguments, words in [
        ({"targets": []}, r"unknown target \(none\); known: c, onnx, web"),
        ({"targets": ["c", "rust"]}, "unknown target 'rust'"),
        ({"members": "2000"}, "1365 members at most"),
        ({"seed": -1}, "seed -1"),
        ({"name": "1"}, "start with a letter"),
        ({"targets": ["c"], "onnx_weights": "bits"}, "--onnx-weights bits is about the ONNX file"),
        ({"onnx_form": "float", "onnx_outputs": "all"}, "--onnx-form float has no head"),
        ({"onnx_outputs": "label"}, "--onnx-outputs label: expected all or scores"),
    ]:
        with pytest.raises(BlrcError, match=words):
            blrc.export(checkpoint, folder=tmp_path / "out", **arguments)  # type: ignore[arg-type]
    for numbers in ({"seed": -1}, {"random": -1}):
        with pytest.raises(BlrcError, match="must not be negative"):
            blrc.verify(tmp_path, **numbers)
    assert not list(tmp_path.iterdir())


# Names of layers that mean something elsewhere: to the program, to C, to ONNX, in a comment, in a path.
AWKWARD = [
    ["encode", "codes", "scores", "label", "table"],
    ["int", "INT", "Int", "for", "main"],
    ["*/ #error", 'a"b', "\\", "%s%n", "??/"],
    ["a b", "a-b", "a_b", "\u00e9t\u00e9", "1"],
    ["/", "~x", "//", "\\n", "\u65e5\u672c"],
    ["blrc", "arena", "input_", "x", "net"],
]


@pytest.mark.needs("cc", "size")
@pytest.mark.parametrize("names", AWKWARD, ids=repr)
def test_any_name_of_a_layer_compiles(names: list[str], tmp_path: Path) -> None:
    model = nn.Sequential(
        OrderedDict(
            zip(
                names,
                [
                    bnn.BinaryLinear(9, 8),
                    bnn.StochasticSign(),
                    bnn.BinaryLinear(8, 7),
                    bnn.StochasticSign(),
                    bnn.SoftmaxLinear(7, 3),
                ],
                strict=True,
            )
        )
    )
    done = blrc.export(checkpoint_of(model, "uint8", (9,), 0), folder=tmp_path / "out", name="net")
    assert [op.name for op in done.program.ops] == ["input.encode", names[0], names[2], names[4]]
    objects = tmp_path / "objects"
    objects.mkdir()
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only"]
    sources = sorted(str(p) for p in done.folder.glob("*.c"))
    compiled = subprocess.run(
        ["cc", *strict, f"-I{done.folder}", *sources], capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stderr[:2000]
    raw = np.random.default_rng(0).integers(0, 256, (20, 1, 1, 9)).astype(np.uint8)
    found = OnnxRun((done.folder / "net.onnx").read_bytes(), done.program).run(raw)
    for name, values in reference.run(done.program, raw).items():
        np.testing.assert_array_equal(found[name], values)


def test_settings_are_those_of_the_checkpoint(checkpoint: Checkpoint, tmp_path: Path) -> None:
    done = blrc.export(checkpoint, folder=tmp_path / "out", targets=["onnx"])
    plain: dict[str, Any] = json.loads((done.folder / f"net{SUFFIX}").read_bytes())["settings"]
    encoding = checkpoint.encoding
    assert plain["calibration_samples"] == 40
    assert plain["input"] == {
        "kind": encoding.kind,
        "shape": list(encoding.shape),
        "scale": encoding.scale,
        "mean": list(encoding.mean),
        "std": list(encoding.std),
    }


@pytest.mark.nightly
def test_public_modules_come_with_the_package_when_they_are_named() -> None:
    """As the README names them, and without PyTorch before."""
    code = (
        "import sys, blrc; assert not {'torch', 'numpy'} & set(sys.modules);"
        "print(blrc.datasets.mnist.__name__, blrc.datasets.cifar10.__name__, blrc.models.mnist('bnn')[0], blrc.nn)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mnist cifar10 SteConv2d")
    assert all(hasattr(blrc, name) for name in blrc.__all__)
