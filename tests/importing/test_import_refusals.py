"""What an import cannot take is refused by node, with the reason and what to do; all reasons of a file at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper
from onnx_chains import BREVITAS, File, signs

import blrc
from blrc.cli.main import main
from blrc.errors import BlrcError

RNG = np.random.default_rng(0)


def start(features: int = 12) -> File:
    """Return a file whose input has become bits."""
    file = File(("N", features))
    file.node("Sub", np.float32(0.5))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    return file


def end(file: File, features: int = 12) -> File:
    file.node("MatMul", signs(RNG, features, 3))
    return file


def hidden(file: File) -> File:
    """Add a binary layer of 12 channels."""
    file.node("MatMul", signs(RNG, 12, 12))
    return file


def decided(file: File) -> File:
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    return file


def norm(gamma: float = 1.0, variance: float = 1.0, eps: float = 1e-5) -> Callable[[File], Any]:
    rows = [np.full(12, value, dtype=np.float32) for value in (gamma, 0.1, 0.2, variance)]
    return lambda file: file.node("BatchNormalization", *rows, epsilon=eps)


def square(file: File) -> None:
    file.nodes.append(helper.make_node("Mul", [file.at, file.at], ["squared"], "Mul_twice"))
    file.at = "squared"


CASES: dict[str, tuple[Callable[[File], Any], str]] = {
    "real weights": (lambda f: f.node("MatMul", RNG.normal(size=(12, 12))), "BipolarQuant_3 .*the sums of MatMul_2"),
    "levels that are rounded down": (
        lambda f: (hidden(f), f.node("Quant", 1.0, 0.0, 2.0, domain=BREVITAS, signed=1, narrow=1,
                                     rounding_mode="FLOOR")),
        "it rounds up or down alone; round to the nearest number",
    ),
    "9-bit activations": (
        lambda f: (hidden(f), f.node("Quant", 1.0, 0.0, 9.0, domain=BREVITAS, signed=1, narrow=1)),
        "it gives 511 levels, from -255 to 255; use at most 8 bits",
    ),
    "shortcut": (square, "Mul_twice .Mul.: it joins two branches"),
    "average": (lambda f: (hidden(f), f.node("ReduceMean")), "it averages what is not bits; average behind a sign"),
    "unknown": (lambda f: (hidden(f), f.node("Erf")), "Erf has no exact form here; replace it .* by one of: Add"),
    "foreign": (
        lambda f: f.node("Quant", 1.0, 0.0, 1.0, domain="org.example"),
        "Quant of the domain 'org.example' has no exact form",
    ),
    "negative slope": (lambda f: (hidden(f), f.node("PRelu", np.float32([-0.5]))), "slope is negative in 1 channels"),
    "NaN": (lambda f: (hidden(f), norm(gamma=np.nan)(f)), "its scale holds NaN or infinite values"),
    "eps 0": (lambda f: (hidden(f), norm(variance=0.0, eps=0.0)(f)), "variance . epsilon is not positive"),
    "scale 0": (lambda f: f.node("BipolarQuant", 0.0, domain=BREVITAS), "its scale is 0, which is not positive"),
    "scale below 0": (lambda f: f.node("BipolarQuant", -1.0, domain=BREVITAS), "scale is -1, which is not positive"),
    "divisor 0": (lambda f: (hidden(f), f.node("Div", 0.0)), "it divides by 0"),
    "scale by channel": (lambda f: f.node("Mul", np.arange(1, 13)), "bits of each channel another size"),
    "no sign": (hidden, "its input are sums without a sign"),
    "shape": (lambda f: f.node("MatMul", signs(RNG, 11, 12)), "it is made for 11 inputs, but has 12"),
    "cycle": (lambda f: f.nodes.append(helper.make_node("Add", [f.at, "later"], ["y"], "A")) or setattr(f, "at", "y"),
              "A .Add.: it reads later, which nothing before it computes"),
    "constant bits": (lambda f: f.node("Add", 3.0), "BipolarQuant_.*both values of its input give the same"),
    "batch": (lambda f: f.node("Reshape", f.constant([3, -1], np.int64)), "which mixes samples"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_refusal_names_node_reason_and_remedy(case: str, tmp_path: Path) -> None:
    add, complaint = CASES[case]
    file = start()
    add(file)
    if case == "no sign":
        hidden(file)
    path = end(decided(file)).save(tmp_path / "net.onnx")
    with pytest.raises(BlrcError, match=complaint) as raised:
        blrc.import_onnx(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


def test_a_gamma_of_zero_is_a_constant_bit(tmp_path: Path) -> None:
    file = start()
    hidden(file)
    norm(gamma=0.0)(file)
    found = blrc.import_onnx(end(decided(file)).save(tmp_path / "net.onnx"))
    assert [node.kind for node in found.nodes] == ["ste_linear", "plain_norm1d", "ste_sign", "ste_linear"]


def test_padding_that_is_no_bit_is_refused(tmp_path: Path) -> None:
    file = File(("N", 2, 5, 5))
    file.node("Greater", 0.5)
    file.node("Cast", to=TensorProto.FLOAT)
    file.node("Add", 1.0)
    file.node("Conv", signs(RNG, 3, 2, 3, 3), pads=[1] * 4)
    with pytest.raises(BlrcError, match="it pads bits that are 1 or 2 with 0"):
        blrc.import_onnx(file.save(tmp_path / "a.onnx"))
    file = File(("N", 2, 5, 5))
    file.node("Sub", 0.5)
    file.node("BipolarQuant", 1.0, domain=BREVITAS)
    file.node("Pad", file.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64), np.float32(2.0))
    with pytest.raises(BlrcError, match="it pads with 2, and only zeros"):
        blrc.import_onnx(file.save(tmp_path / "b.onnx"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: m.graph.initializer.remove(m.graph.initializer[2]), "it has 2 inputs|nothing before it computes"),
        (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "initialiser c0 is there twice"),
        (lambda m: m.graph.initializer[2].dims.__setitem__(0, 2**40), "has a shape .* too large"),
        (lambda m: m.graph.initializer[2].dims.__setitem__(0, 7), "is damaged: its data do not fit"),
        (lambda m: m.opset_import[0].__setattr__("version", 3), "opset 3 is not taken; export .* an opset"),
        (lambda m: m.graph.input.append(helper.make_tensor_value_info("z", 1, [1])), "it has 2 inputs .x, z."),
        (lambda m: m.graph.input[0].type.tensor_type.shape.dim[1].__setattr__("dim_value", 2**40), "more than 1677"),
        (lambda m: m.graph.output.append(helper.make_empty_tensor_value_info("t1")), "the network has 2 outputs"),
        (lambda m: m.graph.initializer[2].external_data.add(key="location", value="weights"), "lies in another file"),
        (lambda m: m.functions.add(name="f"), "it defines functions of its own"),
    ],
)  # fmt: skip
def test_damaged_files_end_in_one_line(change: Callable[[Any], Any], complaint: str, tmp_path: Path) -> None:
    model = end(start()).model()
    change(model)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BlrcError, match=complaint) as raised:
        blrc.import_onnx(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


def test_what_is_no_onnx_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    with pytest.raises(BlrcError, match="no such file; give the path of an ONNX file"):
        blrc.import_onnx(path)
    for content in (b"", b"hello", end(start()).model().SerializeToString()[:-9]):
        path.write_bytes(content)
        with pytest.raises(BlrcError, match="no ONNX file"):
            blrc.import_onnx(path)


def test_a_dry_run_lists_every_node_and_all_refusals(tmp_path: Path) -> None:
    file = start()
    for bits in (12.0, 13.0):
        hidden(file)
        file.node("Quant", 1.0, 0.0, bits, domain=BREVITAS, signed=1, narrow=0)
    path = end(file).save(tmp_path / "net.onnx")
    done = CliRunner().invoke(main, ["import", str(path), "--dry-run"])
    lines = done.output.splitlines()
    assert done.exit_code == 1 and len([line for line in lines if line.startswith("REFUSED Quant_")]) == 2
    assert lines[2].startswith("MatMul_2 (MatMul): a binary dense layer, 12 to 12") and lines[-1] == "2 of 8 refused"
    done = CliRunner().invoke(main, ["import", str(path), "--dry-run", "--json"])
    assert json.loads(done.output)["refused"] == 2
    done = CliRunner().invoke(main, ["import", str(path), "-o", str(tmp_path / "net.pt")])
    assert done.exit_code == 2 and "(1 more refused: 'blrc import --dry-run' lists all)" in done.stderr
    assert not (tmp_path / "net.pt").exists()


def test_refusals_of_a_long_file_are_listed_again_at_its_end(tmp_path: Path) -> None:
    file = start()
    for _ in range(12):
        file.node("Identity")
        file.node("Dropout")
    file.node("Sin")
    path = end(hidden(file)).save(tmp_path / "net.onnx")
    lines = CliRunner().invoke(main, ["import", str(path), "--dry-run"]).output.splitlines()
    refused = [line for line in lines if line.startswith("REFUSED ")]
    count = len(refused) // 2
    assert count >= 1 and refused[:count] == refused[count:] == lines[-count:]
    assert lines[-count - 1].endswith(" refused:")


def test_an_import_is_an_ordinary_checkpoint(tmp_path: Path) -> None:
    file = hidden(start())
    file.node("Mul", RNG.normal(size=12).astype(np.float32))
    path = end(decided(file)).save(tmp_path / "net.onnx")
    done = CliRunner().invoke(main, ["import", str(path), "-o", str(tmp_path / "net.pt")])
    assert done.exit_code == 0 and "the raw input is bits: 1 where the network's input >= 0.5" in done.output
    written, held = blrc.load(tmp_path / "net.pt"), blrc.import_onnx(path)
    assert written.nodes == held.nodes and written.encoding == held.encoding
    assert all((written.tensors[key] == value).all() for key, value in held.tensors.items())
    first = blrc.export(tmp_path / "net.pt", folder=tmp_path / "a", targets=["c"])
    second = blrc.export(path, folder=tmp_path / "b", targets=["c"])
    assert first.manifest.digest == second.manifest.digest
