"""Networks that give values in C, ONNX and packages: bit-exact, called as a user would, and what their numbers mean."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from by_night import first
from head_networks import binarized, stochastic
from random_networks import encoding_of, leveled_network, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import Exported
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.saving import from_model, write
from blrc.net.encoding import device_layout
from blrc.net.heads import Unit
from blrc.program import reference
from blrc.targets.options import check_heads

SHAPE = (2, 7, 6)
UNIT = Unit(12.5, -3.25)
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")


def valued(outputs: Any = UNIT, kind: str = "uint8", model: nn.Module | None = None, shape: Any = SHAPE) -> Checkpoint:
    """The checkpoint of random weights before three values."""
    torch.manual_seed(0)
    model = nn.Sequential(*stochastic({"a": 1}).trunk, bnn.SoftmaxLinear(36, 3)) if model is None else model
    encoding = encoding_of(kind, shape)
    samples = raw_samples(encoding, 40, 0)
    return from_model(randomise(model, 0, ties=False), encoding, samples, source="drawn.pt", outputs=outputs)


def exported(checkpoint: Checkpoint, folder: Path, targets: str = "c,onnx", **options: Any) -> Exported:
    return blrc.export(checkpoint, folder=folder, targets=targets.split(","), name="net", force=True, **options)


def real(program: Any, integers: Any) -> Any:
    """What integers (N, values) stand for, in exact fractions of the checkpoint's scale and the declared unit."""
    scale = Fraction(program.score_scale) * Fraction(UNIT.scale)
    return np.array([[float(int(v) * scale + Fraction(UNIT.offset)) for v in row] for row in integers])


@pytest.mark.parametrize("case", first(2, ["members", "binary heads", "one value", "levels"]))
def test_values_are_equal_everywhere(tmp_path: Path, case: str) -> None:
    options: dict[str, Any] = {}
    checkpoint = valued()
    if case == "members":
        options = {"members": 3}
    elif case == "binary heads":
        checkpoint = valued({"a": UNIT, "b": "values"}, "bits", binarized({"a": 1, "b": 2}))
    elif case == "one value":
        checkpoint = valued(kind="int8", model=nn.Sequential(*stochastic({"a": 1}).trunk, bnn.SoftmaxLinear(36, 1)))
    else:
        model, shape = leveled_network(1)
        checkpoint = valued("values", "uint8", model, shape)
    exported(checkpoint, tmp_path / "out", **options)
    write(checkpoint, tmp_path / "net.pt")
    report = blrc.verify(tmp_path / "out", random=40, model=tmp_path / "net.pt")
    assert report.equal, str(report)
    assert report.layers["predict"] > 0 and report.layers["answer"] > 0 and "label" not in report.layers
    assert report.agreement is not None and report.agreement.labels == report.agreement.differences == 0
    assert "labels" not in str(report) and report.accuracy is None


def test_the_onnx_file_gives_values_and_their_unit(tmp_path: Path) -> None:
    checkpoint = valued()
    raw = raw_samples(checkpoint.encoding, 30, 3)
    for members, names in ((1, ["scores", "values"]), (3, ["scores", "sum", "values"])):
        program = exported(checkpoint, tmp_path / "out", "onnx", members=members).program
        session = onnxruntime.InferenceSession(str(tmp_path / "out" / "net.onnx"))
        assert [output.name for output in session.get_outputs()] == names
        found = dict(zip(names, session.run(None, {"input": raw}), strict=True))
        each = np.stack([reference.scores(program, device_layout(raw), k) for k in range(members)], axis=1)
        assert np.array_equal(found["scores"].reshape(each.shape), each)
        assert members == 1 or np.array_equal(found["sum"], each.sum(axis=1))
        exact = np.mean([real(program, each[:, k]) for k in range(members)], axis=0)
        assert found["values"].dtype == np.float32
        assert np.abs(found["values"] - exact).max() <= 2.0**-20 * (np.abs(exact).max() + 3.25)
        meta = session.get_modelmeta().custom_metadata_map
        assert meta["blrc.outputs"] == "values" and "blrc.score_scale" not in meta
        assert (float(meta["blrc.scale"]), float(meta["blrc.offset"])) == (program.units[0].scale, -3.25)
        onnx.checker.check_model(str(tmp_path / "out" / "net.onnx"), full_check=True)
    for options in ({"onnx_outputs": "scores"}, {"onnx_form": "float"}):
        exported(checkpoint, tmp_path / "less", "onnx", **options)
        less = onnxruntime.InferenceSession(str(tmp_path / "less" / "net.onnx"))
        assert [output.name for output in less.get_outputs()] == ["scores"]
        assert blrc.verify(tmp_path / "less", random=20).equal


def test_the_onnx_file_gives_values_of_each_head(tmp_path: Path) -> None:
    checkpoint = valued({"a": UNIT, "size": "values"}, model=stochastic({"a": 1, "size": 2}))
    exported(checkpoint, tmp_path, "onnx", members=2)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    names = ["a", "size", "a.sum", "a.values", "size.sum", "size.values"]
    assert [output.name for output in session.get_outputs()] == names
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["blrc.heads"]) == ["a", "size"] and float(meta["blrc.offset.a"]) == -3.25
    raw = raw_samples(checkpoint.encoding, 10, 1)
    found = dict(zip(names, session.run(None, {"input": raw}), strict=True))
    assert np.array_equal(found["size.sum"], found["size"].sum(axis=1)) and found["size.values"].shape == (10, 2)
    assert blrc.verify(tmp_path, random=20).equal


def test_a_real_value_that_is_off_is_a_difference(tmp_path: Path) -> None:
    from blrc.targets.onnx.session import OnnxRun

    program = exported(valued(), tmp_path, "onnx").program
    model = onnx.load(str(tmp_path / "net.onnx"))
    raw = device_layout(raw_samples(valued().encoding, 10, 1))
    OnnxRun(model.SerializeToString(), program).classify(raw)
    for constant in model.graph.initializer:
        if constant.name.startswith("float32/offset"):
            constant.CopyFrom(onnx.numpy_helper.from_array(np.array(-3.2501, np.float32), constant.name))
    with pytest.raises(BlrcError, match="'values' is not what the sums stand for"):
        OnnxRun(model.SerializeToString(), program).classify(raw)


PROGRAM = """
#include <stdio.h>
#include "net.h"

static uint32_t arena[(NET_ARENA_SIZE + 3) / 4];

int main(void)
{
    uint8_t input[NET_INPUT_SIZE];
    int32_t values[NET_VALUES], means[NET_VALUES];
    uint64_t variances[NET_VALUES];
    net_ensemble members;
    int i;

    printf("%.17g %.17g %d\\n", NET_SCALE, NET_OFFSET, NET_VALUES);
    while (fread(input, 1, sizeof input, stdin) == sizeof input) {
        const int status = SINGLE;

        printf("%d %d", status, net_predict(input, arena, &members, means, variances));
        for (i = 0; i < NET_VALUES; ++i) {
            printf(" %d %d %llu", SINGLY, (int)means[i], (unsigned long long)variances[i]);
        }
        printf("\\n");
    }
    printf("%d %d", net_predict(input, arena, 0, means, 0), net_result(&members, 0, 0));
    printf(" %d", net_add(&members, input, arena));
    printf(" %d", net_result(&members, means, 0));
    net_init(&members);
    printf(" %d %d\\n", net_result(&members, means, 0), net_selftest(arena));
    return (int)values[0] * 0;
}
"""
CALLS = {1: ("net_values(input, arena, values)", "(int)values[i]"), 4: ("(values[0] = 0)", "0")}


@pytest.mark.parametrize("compiler", first(1, [("gcc", "-std=c99", "-pedantic"), ("g++", "-std=c++11", "-x", "c++")]))
@pytest.mark.parametrize("members", [1, 4])
def test_c_is_called_as_its_header_says(tmp_path: Path, members: int, compiler: tuple[str, ...]) -> None:
    checkpoint, out = valued(), tmp_path / "out"
    program = exported(checkpoint, out, "c", members=members).program
    single, singly = CALLS[members]
    text = (
        PROGRAM.replace("SINGLE", single)
        .replace("SINGLY", singly)
        .replace("const int status = (", "const int status = (int)(")
    )
    (out / "main.c").write_text(text, encoding="ascii")
    sources = [str(path) for path in sorted(out.glob("*.c"))]
    warnings = (*WARNINGS, "-Wno-unused-but-set-variable") if compiler[0] == "gcc" else ("-Wall", "-Wextra", "-Werror")
    subprocess.run([*compiler, "-O1", *warnings, *sources, "-o", str(tmp_path / "main")], check=True)
    raw = device_layout(raw_samples(checkpoint.encoding, 40, 3))
    done = subprocess.run([str(tmp_path / "main")], input=raw.tobytes(), capture_output=True, check=True)
    lines = done.stdout.decode("ascii").splitlines()
    scale, offset, values = lines[0].split()
    assert (float(scale), float(offset), values) == (program.units[0].scale, -3.25, "3")
    each = np.stack([reference.scores(program, raw, k) for k in range(members)]).astype(object)
    for i, line in enumerate(lines[1:-1]):
        expected = []
        for v in range(3):
            column = [int(x) for x in each[:, i, v]]
            mean = Fraction(sum(column), members)
            variance = sum((x - mean) ** 2 for x in column) / members
            expected += [column[0] if members == 1 else 0, (mean + Fraction(1, 2)).__floor__(), variance.__floor__()]
        assert list(map(int, line.split())) == [0, 0, *expected]
    assert lines[-1] == "-1 -1 -3 0 -4 0"


def test_a_wrong_value_fails_the_selftest(tmp_path: Path) -> None:
    exported(valued(), tmp_path, "c", members=3)  # the values of two differ by an even number, so no mean is rounded
    source, runtime = tmp_path / "net.c", tmp_path / "net_blrc.c"
    for file, wrong, result in (
        (source, ("ensemble->sum[i])", "ensemble->sum[0])"), 1),
        (runtime, ("mean + 1 : mean", "mean : mean"), 1),
        (runtime, ("size * size", "size"), 1),
        (source, ("", ""), 0),
    ):
        text = file.read_text(encoding="ascii")
        assert wrong[0] in text
        file.write_text(text.replace(*wrong), encoding="ascii")
        files = [str(path) for path in sorted(tmp_path.glob("*.c"))]
        subprocess.run(["gcc", "-std=c99", "-DNET_SELFTEST_MAIN", *files, "-o", str(tmp_path / "selftest")], check=True)
        done = subprocess.run([str(tmp_path / "selftest")], capture_output=True, check=False)
        assert done.returncode == result, wrong
        file.write_text(text, encoding="ascii")


def test_compiled_networks_give_real_values_in_this_process() -> None:
    checkpoint = valued()
    raw = device_layout(raw_samples(checkpoint.encoding, 90, 3))
    for members in (1, 3):
        with blrc.compile(checkpoint, members=members, threads=2) as net:
            expected = reference.answer(net.program, raw)
            for found in (net.answers(raw), net.answers(raw, stop=True)):
                for name in ("label", "log_p", "mean", "variance", "members"):
                    assert np.array_equal(getattr(found, name), getattr(expected, name))
            fewer = net.answers(raw, members=1)
            assert np.array_equal(fewer.log_p, reference.scores(net.program, raw))
            exact = [real(net.program, reference.scores(net.program, raw, k)) for k in range(members)]
            values = net(raw)
            assert values.shape == (90, 3) and values.dtype == np.float64
            assert np.allclose(values, np.mean(exact, axis=0), rtol=1e-12, atol=1e-12)
            assert net(raw[:0]).shape == (0, 3)
            assert "label" not in net.run(raw[:2])


def test_packages_report_every_value(tmp_path: Path) -> None:
    made = exported(valued(), tmp_path, "c", packages=["cmake", "arduino", "platformio", "zephyr", "esp-idf"])
    package = tmp_path / "cmake" / "net"
    assert "to 3 values" in (package / "README.md").read_text(encoding="utf-8")
    files = [*sorted((package / "src").glob("*.c")), package / "examples" / "classify" / "main.c"]
    include = [f"-I{package / 'include'}", f"-I{package / 'src'}"]
    binary = tmp_path / "classify"
    subprocess.run(["gcc", "-std=c99", *WARNINGS, *include, *map(str, files), "-o", str(binary)], check=True)
    lines = subprocess.run([str(binary)], capture_output=True, check=True).stdout.decode("ascii").splitlines()
    answer = reference.answer(made.program, device_layout(valued().samples()[:1]))
    assert lines[:3] == [f"value: {value} (as recorded)" for value in answer.mean[0].tolist()]
    assert lines[3] == "members asked: 1 of 1"
    for other in ("arduino", "platformio", "zephyr", "esp-idf"):
        texts = [path.read_text(encoding="utf-8") for path in (tmp_path / other).rglob("*") if path.is_file()]
        assert any("predict(net_image, arena, &members, values, 0)" in text for text in texts)
        words = ("VALUES(", "LABELS(", "ONE(", "name_answer", "net_answer", "is_final", "net_classify")
        assert not [
            word
            for word in words
            for text in texts
            if word in text.replace("net_classify LANGUAGES", "").replace("project(net_classify", "")
        ]
    assert blrc.verify(tmp_path, random=20).equal


@pytest.mark.parametrize("members", [1, 5])
@pytest.mark.needs("arm-none-eabi-gcc")
def test_the_bounds_on_flash_and_stack_hold(tmp_path: Path, members: int) -> None:
    from blrc.targets.c.machines.emulated import EmulatedBuild
    from blrc.targets.c.machines.table import find

    made = exported(valued(), tmp_path, "c", members=members)
    memory: Any = made.manifest.targets["c"]["memory"]
    with EmulatedBuild(tmp_path, "net", find("cortex-m4")) as build:
        assert build.flash <= memory["flash_bytes"] <= build.flash + 400
        assert build.stack <= max(memory["stack"].values())


def test_what_speaks_of_labels_refuses_values(tmp_path: Path) -> None:
    checkpoint = valued()
    with pytest.raises(BlrcError, match="target web: a page shows a label, and the network gives values"):
        check_heads(["c", "web"], [], gives_values=True)
    with pytest.raises(BlrcError, match=r"gives values; a gate \(--gate\) stops at a likely label"):
        exported(checkpoint, tmp_path / "gate", "c", members=2, gate=0.5)
    assert not [*tmp_path.iterdir()]


def test_inspect_knows_values() -> None:
    checkpoint = valued()
    assert blrc.inspect(checkpoint).stack > 0
    labels = blrc.inspect(replace(checkpoint, values=()))
    assert blrc.inspect(checkpoint).code < labels.code + 400


def test_many_or_hostile_units_reach_c_and_back(tmp_path: Path) -> None:
    """Decimal constants give the same float64: 1/3, the smallest scale, a large offset."""
    for unit in (Unit(1 / 3, -1 / 3), Unit(2.0**-100, 0.1), Unit(1e30, -1e37)):
        program = exported(valued(unit), tmp_path, "c").program
        lines = (tmp_path / "net.h").read_text(encoding="ascii").splitlines()
        found = [float(line.split()[2].strip("()")) for line in lines if "NET_SCALE" in line or "NET_OFFSET" in line]
        assert found == [program.units[0].scale, unit.offset]
