"""`blrc verify` as a whole: equal where it is, and every edit of an export reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from by_night import first
from click.testing import CliRunner
from fake_engines import c_like_engine, flip_one, recount, reference_engine
from forged import relist
from numpy.typing import NDArray
from random_networks import binarized_network, checkpoint_of, deep_network
from random_programs import random_program

import blrc
from blrc.app.export import Exported, export
from blrc.cli.main import main
from blrc.frontend.checkpoint import Checkpoint
from blrc.net.encoding import device_layout
from blrc.program import program_file, reference
from blrc.program.head import Answer
from blrc.program.program import Conv, Program
from blrc.verification import engines, folder, report
from blrc.verification.engines import CompiledC
from blrc.verification.oracles.stopping import ties

KINDS = ["uint8", "int8", "bits"]


@pytest.fixture(scope="module", params=["bits", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in KINDS[:2])])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Checkpoint]:
    """The checkpoint of a random network, as a file, and its export to both targets in ``out``."""
    where = tmp_path_factory.mktemp(request.param)
    return where, _export(where, request.param)


@pytest.fixture(scope="module")
def pixels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Checkpoint]:
    where = tmp_path_factory.mktemp("pixels")
    return where, _export(where, "uint8")


def _export(where: Path, kind: str) -> Checkpoint:
    seed = KINDS.index(kind) + 1
    model, shape = deep_network(seed)
    checkpoint = checkpoint_of(model, kind, shape, seed)
    blrc.save(model, path=where / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration)
    export(where / "net.pt", folder=where / "out", members="1", seed=seed)
    return checkpoint


def labelled_file(path: Path, program: Program, checkpoint: Checkpoint, wrong: int) -> tuple[Path, int]:
    """An ``.npz`` of 25 calibration samples with the reference's labels, the first `wrong` of them made wrong."""
    assert checkpoint.calibration is not None
    images = checkpoint.calibration[:25]
    labels = reference.labels(reference.scores(program, device_layout(images)))
    labels[:wrong] = (labels[:wrong] + 1) % program.classes
    np.savez(path, images=images, labels=labels)
    return path, len(images)


def verify_json(*arguments: object) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["verify", *map(str, arguments), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.nightly
@pytest.mark.needs("cc", "size")
def test_a_binarized_nn_is_equal_everywhere(tmp_path: Path) -> None:
    model, shape = binarized_network(2)
    checkpoint = checkpoint_of(model, "uint8", shape, 2)
    blrc.save(
        model, path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration, compact=True
    )
    export(tmp_path / "net.pt", folder=tmp_path / "out")
    code, found = verify_json(tmp_path / "out", "--checkpoint", tmp_path / "net.pt", "--random", 30)
    assert (code, found["equal"], found["difference"], found["problems"]) == (0, True, None, [])
    assert found["layers"][-4]["name"] == "2"
    # Alone: 14 extreme inputs and 256 random ones, on three engines; the rest are whole inputs, whose scores ONNX
    # Runtime gives twice.
    whole = sum(sum(counts.values()) + counts["onnxruntime"] for counts in found["inputs"].values())
    assert found["layers"][-4]["values_compared"] == 7 * (whole + 3 * (14 + 256))


@pytest.mark.nightly
@pytest.mark.needs("cc", "size")
def test_random_networks_are_equal_everywhere(exported: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    where, checkpoint = exported
    program = program_file.load(where / "out" / "net.program.npz")
    data, count = labelled_file(tmp_path / "data.npz", program, checkpoint, 5)
    status, found = verify_json(
        where / "out", "--data", data, "--checkpoint", where / "net.pt", "--random", 30, "--seed", 4
    )
    assert status == 0
    assert found["equal"] is True
    assert found["problems"] == []
    assert found["difference"] is None
    assert found["digest"] == program_file.digest(program)
    assert found["accuracy"] == 80.0
    assert found["engines"] == ["C, -O3", "C, ASan+UBSan", "onnxruntime"]
    layers = [layer["name"] for layer in found["layers"]]
    assert layers == [*(op.name for op in program.ops), "label", "answer", "predict"]
    assert all(layer["values_compared"] > 0 for layer in found["layers"])
    assert found["values_compared"] == sum(layer["values_compared"] for layer in found["layers"])
    ran = found["inputs"]
    assert set(ran) == {"recorded vectors", "adversarial inputs", "test set", "random inputs"}
    assert ran["test set"] == dict.fromkeys(found["engines"], count)
    assert ran["random inputs"] == dict.fromkeys(found["engines"], 30)
    whole = sum(counts["onnxruntime"] for counts in ran.values())
    assert found["layers"][-2]["values_compared"] == 3 * whole * (program.classes + 3)
    stopped = 2 * whole * (3 * program.classes + 5) + len(ties(program)[1])  # only C stops; one of them shows the ties
    assert found["layers"][-1]["values_compared"] == stopped
    for op in program.ops:
        if isinstance(op, Conv):
            assert 0 < found["edges"][op.name]["reached"] <= found["edges"][op.name]["wanted"]
    agreement = found["agreement"]
    assert agreement["differences"] == 0
    assert agreement["labels"] == count
    assert 0 < agreement["same_labels"] <= count
    assert found["flash"] > 0
    assert found["ram"] > 0


@pytest.fixture
def fake_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Instead of compiling, the reference answers for the C: for tests of everything but the C."""

    def compile_c(where: Path, name: str, progress: Any, builds: Any) -> CompiledC:
        program = program_file.load(where / f"{name}.program.npz")
        return CompiledC((c_like_engine(program, "C"),), 1, 2, ())

    monkeypatch.setattr(folder, "compile_c", compile_c)
    yield


def copy(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source / "out", target / "out"))


@pytest.mark.usefixtures("fake_c")
def test_the_unchanged_export_is_equal_with_the_stand_in(pixels: tuple[Path, Checkpoint]) -> None:
    report = blrc.verify(pixels[0] / "out", random=3)
    assert report.equal
    assert report.problems == ()


@pytest.mark.usefixtures("fake_c")
def test_regression_c_alone_can_be_equal(pixels: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    """The codes of a pixel network exist nowhere in the C, so its encoding was never compared and never equal."""
    export(pixels[1], folder=tmp_path / "out", targets=["c"])
    report = blrc.verify(tmp_path / "out", random=3)
    assert report.engines == ("C",)
    assert report.equal, report.problems
    assert report.layers["input.encode"] == 0


def test_onnx_alone_needs_no_compiler(
    pixels: tuple[Path, Checkpoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    export(pixels[1], folder=tmp_path / "out", targets=["onnx"])
    report = blrc.verify(tmp_path / "out", random=3)
    assert report.equal
    assert (report.flash, report.ram) == (None, None)


# A wrong answer of an engine


def spoiled_onnx(monkeypatch: pytest.MonkeyPatch, value: str, index: tuple[int, ...], only: int) -> None:
    """ONNX Runtime's answer to the batch of `only` inputs gets one wrong element: a bit flipped in its dump."""

    def engine(model: bytes, program: Program) -> engines.Engine:
        real = engines.onnx_engine(model, program)

        def run(raw: NDArray[Any], member: int) -> dict[str, NDArray[Any]]:
            values = dict(real.run(raw, member))
            if len(raw) == only and value in values:
                values[value] = flip_one(values[value].copy(), index)
            return values

        def answer(raw: NDArray[Any]) -> tuple[Answer, Any]:
            said, scores = real.answer(raw)
            if len(raw) == only and hasattr(said, value):
                said = replace(said, **{value: flip_one(getattr(said, value).copy(), index)})
            return said, scores

        return replace(real, run=run, answer=answer)

    monkeypatch.setattr(folder, "onnx_engine", engine)


@pytest.fixture(scope="module")
def onnx_only(pixels: tuple[Path, Checkpoint], tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export(pixels[1], folder=tmp_path_factory.mktemp("onnx") / "out", targets=["onnx"])


def test_one_flipped_bit_in_a_dump_is_named(onnx_only: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    program = onnx_only.program
    ops = [op for op in program.ops if isinstance(op, Conv)]
    assert any(op.pool is not None for op in ops)
    raw = folder.random_inputs(program.input, 13, 9)
    values = reference.run(program, raw)
    for op in ops:
        place = (op.y.shape[0] - 1, op.y.shape[1] - 1)
        channel = op.y.shape[2] - 2
        with monkeypatch.context() as patch:
            spoiled_onnx(patch, op.y.name, (11, *place, channel), only=13)
            found = blrc.verify(onnx_only.folder, random=13, seed=9)
        assert not found.equal
        z = recount(program, op, values[op.x.name][11], place, channel)
        threshold = int(program.constant(op.thresholds)[channel])
        bit = int(values[op.y.name][(11, *place, channel)])
        assert bit == (z >= threshold)
        assert found.difference == (
            f"onnxruntime differs on random inputs, sample 11: member 'map', op {op.name!r}, position {place}, "
            f"channel {channel}, z {z}, threshold {threshold}: expected {bit}, found {1 - bit}"
        )
        text = report.to_text(found)
        assert f"FIRST DIFFERENCE: {found.difference}" in text.splitlines()
        assert text.splitlines()[-1] == "bit-exact: NO"


def test_a_wrong_score_and_a_wrong_label_are_named(onnx_only: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    program = onnx_only.program
    scores = reference.scores(program, folder.random_inputs(program.input, 13, 9))
    with monkeypatch.context() as patch:
        spoiled_onnx(patch, program.output.name, (4, 0, 0, 6), only=13)
        found = blrc.verify(onnx_only.folder, random=13, seed=9)
    right = int(scores[4, 6])
    assert not found.equal
    assert found.difference == (
        f"onnxruntime differs on random inputs, sample 4: member 'map', op {program.ops[-1].name!r}, "
        f"position (0, 0), channel 6: expected {right}, found {right + 1}"
    )
    with monkeypatch.context() as patch:
        spoiled_onnx(patch, "label", (12,), only=13)
        found = blrc.verify(onnx_only.folder, random=13, seed=9)
    label = int(scores[12].argmax())
    assert not found.equal
    assert found.difference is not None
    assert f"sample 12: member 'map', op 'label', position (0, 0), channel 0: expected {label}" in found.difference
    with monkeypatch.context() as patch:
        spoiled_onnx(patch, "log_p", (7, 3), only=13)
        found = blrc.verify(onnx_only.folder, random=13, seed=9)
    assert found.difference is not None
    assert "sample 7: member 'map', op 'log_p', position (0, 0), channel 3: expected " in found.difference


def test_the_command_line_exits_with_1_at_a_difference(onnx_only: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled_onnx(monkeypatch, "label", (2,), only=3)
    status, found = verify_json(onnx_only.folder, "--random", 3)
    assert status == 1
    assert found["equal"] is False
    assert "op 'label'" in found["difference"]
    result = CliRunner().invoke(main, ["verify", str(onnx_only.folder), "--random", "3"])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "bit-exact: NO"


# Edited exports


@pytest.mark.needs("cc", "size")
def test_an_edited_table_of_trusted_c_is_named(pixels: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    where = copy(pixels[0], tmp_path)
    table = where / "net_weights.c"
    lines = table.read_text().splitlines()
    at = next(
        i for i, line in enumerate(lines) if ("_scores" in line and "=" in line) or ("bias" in line and "=" in line)
    )
    at = next(i for i in range(at, len(lines)) if lines[i].strip()[:1] in tuple("-0123456789"))
    first, rest = lines[at].split(",", 1)
    lines[at] = f"{int(first, 0) + 1}, {rest}"
    table.write_text("\n".join(lines) + "\n")
    relist(where, "net_weights.c")
    with pytest.raises(blrc.BlrcError, match=r"net_weights\.c: is not what this blrc writes"):
        blrc.verify(where, random=3)
    found = blrc.verify(where, random=3, trust_code=True)
    assert not found.equal
    assert found.skipped[0].startswith("code: the folder's own")
    assert found.difference is not None
    assert found.difference.startswith("C, -O3 differs on ")


@pytest.mark.usefixtures("fake_c")
def test_an_edited_onnx_file_is_named_if_it_is_trusted(pixels: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    where = copy(pixels[0], tmp_path)
    good = (where / "net.onnx").read_bytes()
    model = onnx.load_from_string(good)
    binary = (t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT8)
    weights = max(binary, key=lambda t: len(t.raw_data))
    spoiled = bytearray(weights.raw_data)
    spoiled[0] ^= 2  # weights are 0 or 2
    weights.raw_data = bytes(spoiled)
    (where / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(blrc.BlrcError, match=r"net\.onnx: was changed since the export"):
        blrc.verify(where, random=200)
    relist(where, "net.onnx")
    with pytest.raises(blrc.BlrcError, match=r"net\.onnx: is not what this blrc writes"):
        blrc.verify(where, random=200)
    found = blrc.verify(where, random=200, trust_code=True)
    assert not found.equal
    assert found.difference is not None
    assert found.difference.startswith("onnxruntime differs on ")
    for damaged in (good[:-200], b"", b"hello"):
        (where / "net.onnx").write_bytes(damaged)
        relist(where, "net.onnx")
        found = blrc.verify(where, random=1, trust_code=True)
        assert not found.equal
        assert any("ONNX" in problem for problem in found.problems), found.problems
    (where / "net.onnx").unlink()
    with pytest.raises(blrc.BlrcError, match=r"net\.onnx: cannot be read \(No such file"):
        blrc.verify(where, random=1, trust_code=True)


@pytest.mark.usefixtures("fake_c")
def test_regression_a_program_of_unknown_members_is_one_line(pixels: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    where = copy(pixels[0], tmp_path)
    path = where / "net.program.npz"
    for members in (("mean",), ("sample x:1",), ("sample 1",)):
        other = replace(program_file.load(path), members=members)
        program_file.save(other, path)
        relist(where, path.name)
        relist(where, digest=program_file.digest(other), members=list(members))
        with pytest.raises(blrc.BlrcError, match=f"out: its program has members {members[0]}; export it again"):
            blrc.verify(where, model=pixels[0] / "net.pt", random=1, trust_code=True)


@pytest.mark.usefixtures("fake_c")
@pytest.mark.parametrize("every", first(1, [3, 1]))
def test_edited_vectors_are_reported(pixels: tuple[Path, Checkpoint], tmp_path: Path, every: int) -> None:
    """By day some arrays, the inputs among them."""
    where = copy(pixels[0], tmp_path)
    path = where / "net.vectors.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name in sorted(arrays, key=lambda name: name != "inputs")[::every]:
        edited = {key: value.copy() for key, value in arrays.items()}
        edited[name].reshape(-1)[0] += 1
        np.savez(path, allow_pickle=False, **edited)
        relist(where, path.name)
        if name == "inputs":  # other inputs are another self-test
            with pytest.raises(blrc.BlrcError, match=r"net_selftest\.c: is not what this blrc writes"):
                blrc.verify(where, random=1)
        else:
            assert blrc.verify(where, random=1).problems[0].startswith(f"{path}: ")


@pytest.mark.usefixtures("fake_c")
def test_a_checkpoint_of_another_network_is_a_problem(pixels: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    where, checkpoint = pixels
    other = replace(checkpoint, source="other.pt")
    model = other.model()
    model.state_dict()["1.0.weight.logits"].neg_()
    assert checkpoint.calibration is not None
    blrc.save(model, path=tmp_path / "other.pt", input=checkpoint.encoding, calibration=checkpoint.calibration)
    status, found = verify_json(where / "out", "--checkpoint", tmp_path / "other.pt", "--random", 1)
    assert status == 1
    assert found["equal"] is False
    assert len(found["problems"]) == 1
    assert found["problems"][0].startswith("the checkpoint gives program ")
    assert found["agreement"] is None


@pytest.mark.usefixtures("fake_c")
def test_without_targets_nothing_is_called_equal(pixels: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    where = copy(pixels[0], tmp_path)
    path = where / "net.manifest.json"
    whole = json.loads(path.read_bytes())
    path.write_text(json.dumps({**whole, "targets": {}}))
    with pytest.raises(blrc.BlrcError, match="which this blrc does not write"):
        blrc.verify(where, random=1)
    files = {name: entry for name, entry in whole["files"].items() if name.endswith(".npz")}
    path.write_text(json.dumps({**whole, "targets": {}, "files": files}))
    with pytest.raises(blrc.BlrcError, match="it holds no target that could be compared"):
        blrc.verify(where, random=1)


@pytest.mark.usefixtures("fake_c")
def test_a_program_that_is_not_its_networks_is_a_problem(
    pixels: tuple[Path, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "first_other_bits", lambda program, net, raw, member: "0.4")
    found = blrc.verify(pixels[0] / "out", model=pixels[0] / "net.pt", random=1)
    assert not found.equal
    assert found.problems == (
        "member 'sample 1:0', layer '0.4': the program's bits are not those of the network it was lowered from",
    )


def test_a_layer_that_no_engine_gave_is_a_problem(onnx_only: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = onnx_only.program.ops[1].y.name
    monkeypatch.setattr(
        folder, "onnx_engine", lambda model, program: reference_engine(program, "blind", hidden=(hidden,))
    )
    found = blrc.verify(onnx_only.folder, random=2)
    assert not found.equal
    assert found.difference is None
    assert found.problems == (f"blind: nothing of {onnx_only.program.ops[1].name!r} was compared",)


def test_no_random_inputs_on_request(onnx_only: Exported) -> None:
    found = blrc.verify(onnx_only.folder, random=0)
    assert found.equal
    assert set(found.inputs) == {"recorded vectors", "adversarial inputs"}


def test_the_default_number_of_random_inputs() -> None:
    small = random_program(0, "bits", (2, 2, 1))
    assert folder.default_random(small) == 10_000
    assert small.macs > 0
