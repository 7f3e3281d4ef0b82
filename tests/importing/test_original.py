"""Exports are compared with the ONNX file that they were imported from, run in ONNX Runtime."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx_chains import BREVITAS, FINN, File, imported, random_file, signs

import blrc
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.importing.declared import Declared
from blrc.program.program import Constant, Program
from blrc.verification.inputs.stimuli import adversarial_inputs, random_inputs
from blrc.verification.original.compare import compare_original
from blrc.verification.original.file import open_file
from blrc.verification.original.report import Against

FEATURES, HIDDEN, CLASSES = 9, 6, 3


def compared(path: Path, program: Program, declared: Declared | None = None, rounding: Any = "exact") -> Against:
    original = open_file(path, declared, rounding)
    raw = np.concatenate([adversarial_inputs(program.input), random_inputs(program.input, 200, 0)])
    return compare_original(program, original, [(raw, None)], lambda what, done, total: None)


def dense_file(seed: int = 0, gamma: float = 1.0, factor: float = 1.0, shift: float = 0.0) -> File:
    """A dense layer, a factor, a shift, a norm, a sign, and a dense layer of scores; inputs are bits."""
    rng = np.random.default_rng(seed)
    file = File(("N", FEATURES))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("MatMul", signs(rng, FEATURES, HIDDEN))
    file.node("Mul", np.float32(factor))
    file.node("Add", np.float32(shift))
    row = np.float32([gamma, 1, -1, 2, 0.5, 1])
    ones, zeros = np.ones(HIDDEN, np.float32), np.zeros(HIDDEN, np.float32)
    file.node("BatchNormalization", row, zeros, np.float32(0.3) * ones if shift == 0 else zeros, ones, epsilon=1e-5)
    file.node("BipolarQuant", np.float32(0.5), domain=BREVITAS)
    file.node("MatMul", signs(rng, HIDDEN, CLASSES))
    file.node("Mul", np.float32([0.3, 0.2, 0.1]))
    return file


def with_table(program: Program, name: str, table: NDArray[Any]) -> Program:
    return replace(program, constants={**program.constants, name: Constant((table,), (0,))})


@pytest.mark.parametrize("seed", range(16))
def test_a_random_network_is_its_original(seed: int, tmp_path: Path) -> None:
    file, kind, _ = random_file(seed)
    path = file.save(tmp_path / "net.onnx")
    options = {} if kind == "bits" else {"input": kind}
    _, program = imported(path, **options)
    found = compared(path, program, None if kind == "bits" else Declared(kind))
    assert found.same_program and not found.problems
    assert found.decisions > 0 and found.labels > 200
    assert all(layer.bits for layer in found.layers.values())
    assert found.farthest <= 1.001 * found.bound


def test_a_changed_threshold_is_named_with_layer_and_channel(tmp_path: Path) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    _, program = imported(path)
    op = program.ops[0]
    table = program.constant(f"{op.name}.thresholds").copy()
    table[4] += 2
    found = compared(path, with_table(program, f"{op.name}.thresholds", table))
    assert not found.same_program
    assert any(f"layer {op.name!r}, channel 4: at z = " in problem for problem in found.problems)
    assert any(
        f"layer {op.name!r}: " in problem and "bits are not the original's" in problem for problem in found.problems
    )
    wrong = [channel for channel in found.channels if not channel.explained]
    assert [(each.channel, each.exported - each.exact) for each in wrong] == [(4, 2)]


def test_a_changed_weight_is_named(tmp_path: Path) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    _, program = imported(path)
    op = program.ops[0]
    words = program.constant(f"{op.name}.weights").copy()
    words[2] ^= 1
    found = compared(path, with_table(program, f"{op.name}.weights", words))
    assert any("weights is not what the original gives, first in channel 2 (1 of 6)" in p for p in found.problems)
    assert found.layers[op.name].differ > found.layers[op.name].explained


def test_another_gamma_and_another_network_are_found(tmp_path: Path) -> None:
    _, program = imported(dense_file().save(tmp_path / "net.onnx"))
    found = compared(dense_file(gamma=-1.0).save(tmp_path / "gamma.onnx"), program)
    assert any("channel 0" in problem for problem in found.problems)
    found = compared(dense_file(seed=1).save(tmp_path / "other.onnx"), program)
    assert any("weights is not what the original gives" in problem for problem in found.problems)
    file, _, _ = random_file(0)
    found = compared(file.save(tmp_path / "layers.onnx"), program)
    assert len(found.problems) == 1 and "the original has other layers: " in found.problems[0]


def test_another_program_with_the_same_tables_is_found(tmp_path: Path) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    _, program = imported(path)
    found = compared(path, replace(program, gate=1))
    assert found.problems == ("reading the original gives another program; give what the export was made of",)


def test_scores_beyond_rounding_are_found(tmp_path: Path) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    _, program = imported(path)
    name = f"{program.ops[-1].name}.bias"
    found = compared(path, with_table(program, name, program.constant(name) + 40))
    assert any("scores are not the original's" in problem for problem in found.problems)


# 3 x float32(0.1) is 1.5e-8 less than float32(0.3), but float32 rounds it to that, so that the difference is 0.
TIE = {"factor": 0.1, "shift": -0.3}


def test_where_float32_and_rationals_differ_the_channels_are_listed_and_explained(tmp_path: Path) -> None:
    path = dense_file(**TIE).save(tmp_path / "net.onnx")
    _, program = imported(path)
    found = compared(path, program)
    assert found.same_program and not found.problems
    first = program.ops[0].name
    assert {(each.layer, each.z) for each in found.channels} == {(first, 3)}
    assert all(each.explained and each.exact != each.float32 for each in found.channels)
    layer = found.layers[first]
    assert layer.differ == layer.by_chain > 0


def test_export_by_float32_is_equal_to_the_original(tmp_path: Path) -> None:
    path = dense_file(**TIE).save(tmp_path / "net.onnx")
    exact = blrc.export(path, folder=tmp_path / "exact", targets="onnx")
    single = blrc.export(path, folder=tmp_path / "single", targets="onnx", rounding="float32")
    assert "rounding" not in exact.manifest.settings and single.manifest.rounding == "float32"
    assert (
        exact.program.constant(f"{exact.program.ops[0].name}.thresholds").tolist()
        != single.program.constant(f"{single.program.ops[0].name}.thresholds").tolist()
    )
    for done, differ in ((exact, True), (single, False)):
        report = blrc.verify(done.folder, original=path, model=path, random=300)
        assert report.equal, report
        assert report.original is not None and report.original.same_program
        assert report.moved is None
        assert any(layer.differ for layer in report.original.layers.values()) == differ


def test_rounded_sums_are_told_from_wrong_bits(tmp_path: Path) -> None:
    # Sums of +-0.1 in float32 are not 0 where as many are added as subtracted, and a sign shows it.
    rng = np.random.default_rng(0)
    file = File(("N", 64))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("MatMul", signs(rng, 64, 16) * np.float32(0.1))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("MatMul", signs(rng, 16, CLASSES))
    path = file.save(tmp_path / "net.onnx")
    _, program = imported(path)
    found = compared(path, program)
    layer = found.layers[program.ops[0].name]
    assert not found.problems and not found.channels
    assert layer.differ == layer.by_sums > 0
    assert "float32 rounded the sum" in str(layer)


def test_the_command_line_names_a_bit_that_is_not_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    other = dense_file(gamma=-1.0).save(tmp_path / "other.onnx")
    blrc.export(path, folder=tmp_path / "out", targets="onnx")
    with pytest.raises(SystemExit) as end:
        main(["verify", str(tmp_path / "out"), "--original", str(path), "--random", "50"])
    said = capsys.readouterr().out
    assert end.value.code == 0 and "importing it gives the same program" in said
    with pytest.raises(SystemExit) as end:
        main(["verify", str(tmp_path / "out"), "--original", str(other), "--random", "50", "--json"])
    plain = json.loads(capsys.readouterr().out)
    assert end.value.code == 1 and plain["original"]["problems"]
    assert "was made of another file" in plain["original"]["notes"][0]


def test_another_file_of_the_same_network_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    model = dense_file().model()
    model.producer_name = "a newer version"
    (tmp_path / "again.onnx").write_bytes(model.SerializeToString())
    blrc.export(path, folder=tmp_path / "out", targets="onnx")
    with pytest.raises(SystemExit) as end:
        main(["verify", str(tmp_path / "out"), "--original", str(tmp_path / "again.onnx"), "--random", "50"])
    said = capsys.readouterr().out
    assert end.value.code == 0 and "note: the export was made of another file, whose SHA-256 is " in said
    assert "importing it gives the same program" in said


def test_a_file_that_is_newer_than_onnx_runtime_is_refused_with_a_remedy(tmp_path: Path) -> None:
    file = dense_file()
    file.opset = 60
    path = file.save(tmp_path / "net.onnx")
    _, program = imported(path)
    with pytest.raises(BlrcError, match=r"refuses the original: .*opset.*; install a newer onnxruntime"):
        compared(path, program)


@pytest.mark.parametrize("opset", [7, 8])
def test_a_file_of_an_old_opset_is_converted_and_run(opset: int, tmp_path: Path) -> None:
    file = dense_file()
    file.opset = opset
    path = file.save(tmp_path / "net.onnx", listed=True)
    _, program = imported(path)
    found = compared(path, program)
    assert found.same_program and not found.problems and found.decisions > 0


def test_the_manifest_and_the_checkpoint_name_the_original(tmp_path: Path) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    held = blrc.import_onnx(path, output=tmp_path / "net.pt")
    again = blrc.load(tmp_path / "net.pt")
    assert held.original == again.original is not None
    done = blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="onnx")
    assert done.manifest.original is not None
    assert done.manifest.original["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_regression_an_original_in_float16_is_cut_at_its_own_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights = [np.where(rng.normal(size=shape) < 0, -1, 1).astype(np.float16) for shape in ((30, 20), (20, 4))]
    held = {"w": weights[0], "v": weights[1], "b": (3 * rng.normal(size=20) + 0.25).astype(np.float16)}
    held |= {"zero": np.float16(0), "one": np.float16(1), "minus": np.float16(-1)}
    steps = (("MatMul", "x w", "z"), ("Add", "z b", "a"), ("Greater", "a zero", "g"), ("Where", "g one minus", "s"))
    nodes = [helper.make_node(kind, given.split(), [out]) for kind, given, out in (*steps, ("MatMul", "s v", "y"))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, ["N", n]) for name, n in (("x", 30), ("y", 4))]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path / "half.onnx"
    path.write_bytes(model.SerializeToString())
    declared = Declared("bits")
    _, program = imported(path, input="bits")
    found = compared(path, program, declared)
    assert (
        found.same_program and not found.problems and found.decisions == 20 * 31 and found.same_labels == found.labels
    )


def test_the_manifest_keeps_what_was_counted(tmp_path: Path) -> None:
    path = dense_file(factor=-0.3, shift=0.6).save(tmp_path / "net.onnx")
    folder = tmp_path / "out"
    blrc.export(path, folder=folder, targets="onnx", name="net")
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    found = blrc.verify(folder, original=path, random=50).original
    assert found is not None and not found.notes
    after = {each.name: each.read_bytes() for each in folder.iterdir()}
    held = json.loads(after["net.manifest.json"])["settings"].pop("compared")
    assert held == {
        "original": found.original,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bits": sum(layer.bits for layer in found.layers.values()),
        "bits_that_differ": sum(layer.differ for layer in found.layers.values()),
        "bits_not_explained": 0,
        "decisions": found.decisions,
        "channels_that_differ": len(found.channels),
        "scores": found.scores,
        "labels": found.labels,
        "labels_that_differ": 0,
        "problems": 0,
    }
    assert held["bits"] > 0 and held["decisions"] > 0
    assert {name for name in before if before[name] != after[name]} == {"net.manifest.json"} and set(before) == set(
        after
    )
    assert blrc.verify(folder, original=path, random=50).equal  # the manifest is one that blrc reads
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == after


def test_counts_are_not_kept_in_a_manifest_that_somebody_changed(tmp_path: Path) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    blrc.export(path, folder=tmp_path / "out", targets="onnx", name="net")
    manifest = tmp_path / "out" / "net.manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    changed = manifest.read_bytes()
    report = blrc.verify(tmp_path / "out", original=path, random=50)
    assert report.equal and report.original is not None
    assert [note for note in report.original.notes if note.startswith("the counts could not be kept in the manifest: ")]
    assert manifest.read_bytes() == changed


@pytest.mark.parametrize("mean, std", [(0.0, 1.0), (0.25, 0.5)])
def test_pixels_are_given_to_the_original_as_it_takes_them(mean: float, std: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    file = File(("N", 1, 6, 6))
    file.node("Conv", signs(rng, 4, 1, 3, 3), kernel_shape=[3, 3])
    file.node("Add", np.float32([0.1, -0.7, 1.3, 0.2]).reshape(4, 1, 1))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    file.node("Flatten")
    file.node("MatMul", signs(rng, 16, CLASSES))
    path = file.save(tmp_path / "net.onnx")
    held = blrc.import_onnx(path, input="pixels", mean=[mean], std=[std])
    done = blrc.export(held, folder=tmp_path / "out", targets="onnx")
    report = blrc.verify(done.folder, original=path, random=300)
    assert report.equal, report
    assert report.original is not None
    differ = sum(layer.differ for layer in report.original.layers.values())
    assert report.original.labels - report.original.same_labels <= differ <= 4


def test_other_spellings_run_as_their_tools_define_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    file = File((4, FEATURES))
    file.node("MultiThreshold", np.float32([[0.25]]), domain=FINN, out_scale=2.0, out_bias=-1.0, data_layout="NC")
    file.node("MatMul", signs(rng, FEATURES, HIDDEN))
    file.node("Add", np.float32(rng.normal(size=HIDDEN)))
    file.node(
        "Quant", np.float32(0.5), np.float32(0.0), np.float32(1.0), domain=BREVITAS, signed=1, narrow=1,
        rounding_mode="ROUND",
    )  # fmt: skip
    file.node("MatMul", signs(rng, HIDDEN, CLASSES))
    file.node("Softmax", axis=1)
    path = file.save(tmp_path / "net.onnx")
    _, program = imported(path)
    assert not compared(path, program).problems


def test_an_original_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    path = dense_file().save(tmp_path / "net.onnx")
    done = blrc.export(path, folder=tmp_path / "out", targets="onnx")
    with pytest.raises(BlrcError, match=r"none\.onnx: no such file"):
        blrc.verify(done.folder, original=tmp_path / "none.onnx")
    with pytest.raises(BlrcError, match="--rounding 'half': expected exact or float32"):
        blrc.export(path, folder=tmp_path / "half", rounding="half")
