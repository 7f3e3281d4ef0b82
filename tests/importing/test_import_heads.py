"""ONNX files with several outputs: the heads' scores and labels are those of ONNX Runtime; odd files are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from onnx import helper
from onnx_chains import BREVITAS, File, plain, signs

import blrc
from blrc.app.export import build
from blrc.app.import_onnx import look
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP
from blrc.net.encoding import device_layout
from blrc.program import reference
from blrc.program.heads import labels
from blrc.program.program import Constant, Program
from blrc.verification.inputs.stimuli import random_inputs
from blrc.verification.original.compare import compare_original
from blrc.verification.original.file import open_file
from blrc.verification.original.report import Against

SIZES = {"digit": 7, "parity": 2, "colour": 4}


def trunk(rng: np.random.Generator, features: int = 24) -> File:
    file = File(("N", 2, 6, 6))
    file.node("BipolarQuant", np.float32(1), domain=BREVITAS)
    file.node("Conv", signs(rng, 5, 2, 3, 3), kernel_shape=[3, 3])
    file.node("Add", rng.normal(size=(1, 5, 1, 1)) + 0.5)
    file.node("BipolarQuant", np.float32(1), domain=BREVITAS)
    file.node("Flatten")
    file.node("MatMul", signs(rng, 80, features))
    file.node("Add", rng.normal(size=features) + 0.5)
    file.node("BipolarQuant", np.float32(1), domain=BREVITAS)
    return file


def heads(file: File, rng: np.random.Generator, real: bool) -> dict[str, str]:
    """Add a last layer for each of `SIZES`, with softmax or argmax behind some; return the outputs' tensors."""
    found, bits = {}, file.at
    for name, size in SIZES.items():
        features = 24
        weights = rng.normal(size=(features, size)).astype(np.float32) if real else signs(rng, features, size)
        at = file.node("MatMul", weights, on=bits)
        at = file.node("Mul", np.float32(0.37), on=at)
        at = file.node("Add", rng.normal(size=size), on=at)
        found[name] = file.node("Softmax", on=at, axis=1) if name == "parity" else at
    return found


def model_of(file: File, outputs: dict[str, str]) -> Any:
    """The file with outputs of these names."""
    model = file.model()
    del model.graph.output[:]
    for name, tensor in outputs.items():
        model.graph.node.append(helper.make_node("Identity", [tensor], [name], f"give_{name}"))
        model.graph.output.append(helper.make_empty_tensor_value_info(name))
    return model


def saved(model: Any, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def by_runtime(model: Any, x: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(plain(model).SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x}), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_each_output_is_what_onnx_runtime_gives(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    real = seed % 2 == 0
    file = trunk(rng)
    model = model_of(file, heads(file, rng, real))
    checkpoint = blrc.import_onnx(saved(model, tmp_path / "net.onnx"))
    assert [name for name, _ in checkpoint.heads] == list(SIZES)
    program = build(checkpoint, [MAP])[0]
    assert [each.classes for each in program.heads] == list(SIZES.values())
    raw = rng.integers(0, 2, (80, 2, 6, 6)).astype(np.uint8)
    scores = reference.scores(program, device_layout(raw).astype(bool))
    label = labels(scores, program.parts)
    found = by_runtime(model, 2 * raw.astype(np.float32) - 1)
    sure = 0
    for place, (name, each) in enumerate(zip(SIZES, program.heads, strict=True)):
        theirs, ours = found[name].astype(np.float64), scores[:, program.parts[place].place] * each.score_scale
        bound = 25 * each.score_scale / 2 + 1e-4
        if name == "parity":
            assert np.abs(np.exp(ours) / np.exp(ours).sum(axis=1, keepdims=True) - theirs).max() < bound
            theirs = np.log(theirs)
        else:
            assert np.abs(ours - theirs).max() < bound
        ordered = np.sort(theirs, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 2 * bound
        assert (label[:, place] == theirs.argmax(axis=1))[clear].all()
        sure += int(clear.sum())
    assert sure > 150


def test_outputs_of_the_same_scores_are_one_head(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = trunk(rng)
    scores = file.node("MatMul", rng.normal(size=(24, 3)))
    outputs = {"scores": scores, "probabilities": file.node("Softmax", on=scores, axis=1)}
    checkpoint = blrc.import_onnx(saved(model_of(file, outputs), tmp_path / "net.onnx"))
    assert checkpoint.heads == ()
    other = file.node("MatMul", rng.normal(size=(24, 3)), on="t7")
    path = saved(
        model_of(file, {"label": file.node("ArgMax", on=scores, axis=1), "p": scores, "q": other}), tmp_path / "b.onnx"
    )
    assert [name for name, _ in blrc.import_onnx(path).heads] == ["label", "q"]


def test_names_may_be_given(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = trunk(rng)
    found = heads(file, rng, True)
    path = saved(model_of(file, {"12": found["digit"], "net/parity:0": found["parity"]}), tmp_path / "net.onnx")
    with pytest.raises(BlrcError, match=r"head '12': its name becomes a part of names in C.*--heads of blrc import"):
        blrc.import_onnx(path)
    assert [n for n, _ in blrc.import_onnx(path, heads=["digit", "parity"]).heads] == ["digit", "parity"]
    for names, words in ((["a"], "1 names of heads were given"), (["a", "A"], "macros in C do not tell apart")):
        with pytest.raises(BlrcError, match=words):
            blrc.import_onnx(path, heads=names)
    done = CliRunner().invoke(main, ["import", str(path), "--heads", "digit, parity", "--dry-run"])
    assert done.exit_code == 0
    assert "output 12: the scores of 7 classes, with real weights" in done.output
    assert "output net/parity:0: the scores of 2 classes, with real weights" in done.output


def refused(model: Any, tmp_path: Path, words: str) -> None:
    path = saved(model, tmp_path / "net.onnx")
    with pytest.raises(BlrcError, match=words) as raised:
        blrc.import_onnx(path)
    assert "\n" not in str(raised.value)
    assert look(path).refusals


@pytest.mark.parametrize("others", ["the same", "strict", "another"])
def test_signs_of_the_same_sums_are_told_apart(tmp_path: Path, others: str) -> None:
    """Heads behind other thresholds of the same layer were computed from the bits of the first."""
    rng = np.random.default_rng(1)
    file = File(("N", 24))
    file.node("BipolarQuant", np.float32(1), domain=BREVITAS)
    file.node("MatMul", signs(rng, 24, 16))
    sums = file.node("Add", rng.normal(size=16) + (0.5 if others == "the same" else 0.0))
    first = file.node("Sign", on=sums)
    second = {
        "the same": lambda: first,
        "strict": lambda: file.node("BipolarQuant", np.float32(1), on=sums, domain=BREVITAS),
        "another": lambda: file.node("Sign", on=file.node("Add", np.float32(2.5), on=sums)),
    }[others]()
    a = file.node("MatMul", rng.normal(size=(16, 3)).astype(np.float32), on=first)
    b = file.node("MatMul", rng.normal(size=(16, 4)).astype(np.float32), on=second)
    model = model_of(file, {"a": a, "b": b})
    if others != "the same":
        refused(model, tmp_path, "head 'b': does not read the bits that head 'a' reads")
        return
    program = build(blrc.import_onnx(saved(model, tmp_path / "net.onnx")), [MAP])[0]
    raw = rng.integers(0, 2, (80, 24)).astype(np.uint8)
    scores = reference.scores(program, device_layout(raw).astype(bool))
    found = by_runtime(model, 2 * raw.astype(np.float32) - 1)
    for part, each in zip(program.parts, program.heads, strict=True):
        bound = 17 * each.score_scale / 2 + 1e-4
        assert np.abs(scores[:, part.place] * each.score_scale - found[each.name]).max() < bound


def test_outputs_that_are_no_heads_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = trunk(rng)
    bits = file.at
    found = heads(file, rng, False)
    refused(
        model_of(file, {"digit": found["digit"], "bits": bits}), tmp_path, "2 outputs, and not each is a head: .*bits"
    )
    real = file.node("MatMul", rng.normal(size=(24, 3)), on=bits)
    refused(
        model_of(file, {"digit": found["digit"], "real": real}), tmp_path, "head 'real': has real weights, and head"
    )
    early = file.node("MatMul", signs(rng, 80, 3), on="t4")
    same_bits = "head 'early': does not read the bits that head 'digit' reads; several heads have to read the same bits"
    refused(model_of(file, {"digit": found["digit"], "early": early}), tmp_path, same_bits)
    deep = file.node("MatMul", signs(rng, 24, 24), on=bits)
    deep = file.node("BipolarQuant", np.float32(1), domain=BREVITAS, on=deep)
    deep = file.node("MatMul", signs(rng, 24, 3), on=deep)
    refused(model_of(file, {"digit": found["digit"], "deep": deep}), tmp_path, "head 'deep': does not read the bits")
    added = file.alone("Add", [found["digit"], file.node("MatMul", signs(rng, 24, 7), on=bits)])
    refused(model_of(file, {"digit": found["digit"], "added": added}), tmp_path, "Add_")


@pytest.mark.parametrize("real", [False, True])
def test_an_export_is_compared_with_every_head_of_its_original(tmp_path: Path, real: bool) -> None:
    rng = np.random.default_rng(3)
    file = trunk(rng)
    path = saved(model_of(file, heads(file, rng, real)), tmp_path / "net.onnx")
    names = ["number", "even", "hue"]
    program = build(blrc.import_onnx(path, heads=names), [MAP])[0]
    raw = random_inputs(program.input, 200, 0)
    original = open_file(path, None, "exact", names)
    assert [end.shape for end in original.ends] == [(size,) for size in SIZES.values()]

    def compared(ours: Program) -> Against:
        return compare_original(ours, original, [(raw, None)], lambda what, done, total: None)

    found = compared(program)
    assert found.same_program and not found.problems and found.scores == 200 * sum(SIZES.values())
    assert found.labels == 200 and (real or found.same_labels == 200)
    for place, head in enumerate(program.heads):  # a bias of one head alone, and the scale of one
        at = program.parts[place].place.start
        bias = program.constant(program.ops[-1].bias).copy()  # type: ignore[attr-defined]
        bias[at] += 3 * np.abs(bias).max() + 5000
        name = program.ops[-1].bias  # type: ignore[attr-defined]
        other = replace(program, constants={**program.constants, name: Constant((bias,), (0,))})
        assert any("scores are not the original's" in problem for problem in compared(other).problems)
        wrong = [replace(each, score_scale=each.score_scale * (1.5 if each is head else 1)) for each in program.heads]
        other = replace(program, heads=tuple(wrong), score_scale=wrong[0].score_scale)
        assert any(f"scale of head {head.name!r} is" in problem for problem in compared(other).problems)


def test_the_command_compares_heads_with_the_original(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    file = trunk(rng)
    path = saved(model_of(file, heads(file, rng, False)), tmp_path / "net.onnx")
    blrc.export(path, folder=tmp_path / "out", targets="onnx")
    done = CliRunner().invoke(main, ["verify", str(tmp_path / "out"), "--original", str(path), "--random", "50"])
    assert done.exit_code == 0, done.output
    assert "importing it gives the same program" in done.output and " 0 differ" in done.output


def test_outputs_of_a_file_may_be_values_which_a_softmax_would_change(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = trunk(rng)
    ends = heads(file, rng, real=True)
    model = model_of(file, {name: ends[name] for name in ("digit", "colour")})
    path = saved(model, tmp_path / "net.onnx")
    units = {"digit": blrc.values(scale=2.0, offset=1.0), "colour": "values"}
    found = blrc.import_onnx(path, outputs=units)
    program, _ = build(found, [MAP])
    raw = random_inputs(program.input, 50, 1)
    held = by_runtime(model, (2 * raw.astype(np.float32) - 1).transpose(0, 3, 1, 2))
    digit, colour = held["digit"], held["colour"]
    real = program.real(reference.scores(program, raw))
    scales = [unit.scale for unit in program.units]
    assert np.abs(real[:, :7] - (2 * digit + 1)).max() <= scales[0] * 25 / 2 + 1e-5
    assert np.abs(real[:, 7:] - colour).max() <= scales[1] * 25 / 2 + 1e-5
    ended = saved(model_of(file, ends), tmp_path / "ended.onnx")
    with pytest.raises(BlrcError, match=r"left out: the device gives probabilities itself.*would change them"):
        blrc.import_onnx(ended, outputs="values")
    assert blrc.import_onnx(ended).values == ()
    written = ["import", str(path), "-o", str(tmp_path / "net.pt"), "--outputs", "values"]
    assert CliRunner().invoke(main, written).exit_code == 0
    assert len(blrc.load(tmp_path / "net.pt").values) == 2
