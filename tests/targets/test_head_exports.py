"""Networks with several heads in C, ONNX and packages: bit-exact, called as a user would, beside ONNX Runtime."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from by_night import first
from head_networks import HEADS, binarized, drawn_heads, saved, stochastic, written
from random_networks import raw_samples

import blrc
from blrc.app.export import Exported
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.net.encoding import device_layout
from blrc.program import reference
from blrc.targets.web.emit import check_input

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")


def exported(checkpoint: Checkpoint, folder: Path, targets: str = "c,onnx", **options: object) -> Exported:
    return blrc.export(
        checkpoint, folder=folder, targets=targets.split(","), name="net", force=True, **options,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_random_heads_are_equal_everywhere(tmp_path: Path, seed: int) -> None:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    checkpoint = saved(
        (stochastic, binarized, stochastic)[seed](drawn_heads(rng)), ("uint8", "bits", "int8")[seed], seed
    )
    members = ({"members": "map"}, {"members": "map"}, {"members": "3", "gate": 0.5})[seed]
    exported(checkpoint, tmp_path / "out", **members)
    path = written(checkpoint, tmp_path / "net.pt")
    report = blrc.verify(tmp_path / "out", random=60, model=path)
    assert report.equal, str(report)
    assert report.layers["predict"] > 0
    assert report.agreement is not None
    assert report.agreement.differences == 0
    if seed == 1:  # a binary last layer's scores are hardly rounded
        assert report.agreement.labels == report.agreement.same_labels


def test_the_onnx_file_has_an_output_for_each_head(tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    program = exported(checkpoint, tmp_path / "out", "onnx").program
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "net.onnx"))
    names = [f"{head}{part}" for head in HEADS for part in ("", ".label", ".log_p", ".mean", ".variance")]
    assert [output.name for output in session.get_outputs()] == [*names, "members"]
    raw = raw_samples(checkpoint.encoding, 30, 3)
    found = dict(zip([*names, "members"], session.run(None, {"input": raw}), strict=True))
    expected = reference.answer(program, device_layout(raw))
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["blrc.heads"]) == list(HEADS)
    assert (found["members"] == 1).all()
    for place, (each, part) in enumerate(zip(program.heads, program.parts, strict=True)):
        assert (found[each.name] == reference.scores(program, device_layout(raw))[:, part.place]).all()
        assert (found[f"{each.name}.label"] == found[each.name].argmax(axis=1)).all()
        assert (found[f"{each.name}.log_p"] == expected.log_p[:, part.place]).all()
        assert (found[f"{each.name}.mean"] == expected.mean[:, place]).all()
        scale = float(meta[f"blrc.score_scale.{each.name}"])
        p = torch.softmax(torch.from_numpy(found[each.name] * scale).double(), 1).amax(1).numpy()
        assert np.abs(found[f"{each.name}.mean"] / 65536 - p).max() < 1e-3
    for options in ({"onnx_outputs": "scores"}, {"onnx_form": "float"}):
        exported(checkpoint, tmp_path / "less", "onnx", **options)
        less = onnxruntime.InferenceSession(str(tmp_path / "less" / "net.onnx"))
        assert [output.name for output in less.get_outputs()] == list(HEADS)
        x = raw.astype(np.float32) if "onnx_form" in options else raw
        for name, value in zip(HEADS, less.run(None, {"input": x}), strict=True):
            assert (value == found[name]).all()
        assert blrc.verify(tmp_path / "less", random=20).equal
    onnx.checker.check_model(str(tmp_path / "out" / "net.onnx"), full_check=True)


PROGRAM = """
#include <stdio.h>
#include "net.h"

static uint32_t arena[(NET_ARENA_SIZE + 3) / 4];

int main(void)
{
    static const char *const names[NET_HEADS] = NET_HEADS_NAMES;
    uint8_t input[NET_INPUT_SIZE];
    int32_t scores[NET_CLASSES];
    net_ensemble members;
    net_answer answer[NET_HEADS];
    int i;

    printf("%s %d %d %d\\n", names[NET_HEAD_DIGIT], NET_HEAD_DIGIT, NET_START_DIGIT, NET_CLASSES_DIGIT);
    printf("%s %d %d %d\\n", names[NET_HEAD_PARITY], NET_HEAD_PARITY, NET_START_PARITY, NET_CLASSES_PARITY);
    while (fread(input, 1, sizeof input, stdin) == sizeof input) {
        const int first = net_classify(input, arena, scores);

        printf("%d %d %d", first, net_label(NET_HEAD_DIGIT, scores), net_label(NET_HEAD_PARITY, scores));
        printf(" %d", net_predict(input, arena, &members, 0, answer));
        for (i = 0; i < NET_HEADS; ++i) {
            printf(" %d %u %u", (int)answer[i].label, (unsigned)answer[i].mean, (unsigned)answer[i].members);
        }
        printf("\\n");
    }
    printf("%d %d %d\\n", net_label(0, 0), net_label(NET_HEADS, scores), net_selftest(arena));
    return 0;
}
"""


@pytest.mark.parametrize("compiler", first(1, [("gcc", "-std=c99", "-pedantic"), ("g++", "-std=c++11", "-x", "c++")]))
def test_c_is_called_as_its_header_says(tmp_path: Path, compiler: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    out = tmp_path / "out"
    program = exported(checkpoint, out, "c").program
    (out / "main.c").write_text(PROGRAM, encoding="ascii")
    sources = [str(path) for path in sorted(out.glob("*.c"))]
    warnings = WARNINGS if compiler[0] == "gcc" else ("-Wall", "-Wextra", "-Werror")
    subprocess.run([*compiler, "-O1", *warnings, *sources, "-o", str(tmp_path / "main")], check=True)
    raw = device_layout(raw_samples(checkpoint.encoding, 40, 3))
    done = subprocess.run([str(tmp_path / "main")], input=raw.tobytes(), capture_output=True, check=True)
    lines = done.stdout.decode("ascii").splitlines()
    assert lines[:2] == ["digit 0 0 10", "parity 1 10 2"]
    answer = reference.answer(program, raw)
    for line, label, mean in zip(lines[2:-1], answer.label.tolist(), answer.mean.tolist(), strict=True):
        digit, parity = label
        assert line == f"{digit} {digit} {parity} {digit} {digit} {mean[0]} 1 {parity} {mean[1]} 1"
    assert lines[-1] == "-1 -4 0"


def test_names_of_heads_meet_no_other_macro(tmp_path: Path) -> None:
    """A head called names defined the macro of all names once more."""
    torch.manual_seed(0)
    heads = ("names", "heads", "head", "label", "answer", "int", "NULL", "start", "classes", "log_p", "EOF")
    exported(saved(stochastic(dict.fromkeys(heads, 2))), tmp_path, "c")
    for compiler in (["gcc", "-std=c99", "-pedantic"], ["g++", "-std=c++11", "-x", "c++"]):
        command = [*compiler, *WARNINGS[:2], "-Werror", "-fsyntax-only", str(tmp_path / "net.c")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_wrong_head_fails_the_selftest(tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    exported(checkpoint, tmp_path, "c")
    source = tmp_path / "net.c"
    for wrong, result in ((("{0, 10, 12}", "{0, 9, 12}"), 1), (("at + label]", "label]"), 1), (("", ""), 0)):
        text = source.read_text(encoding="ascii")
        assert wrong[0] in text
        source.write_text(text.replace(*wrong), encoding="ascii")
        flags = ("-std=c99", "-DNET_SELFTEST_MAIN", "-Wno-stringop-overflow")
        files = [str(path) for path in sorted(tmp_path.glob("*.c"))]
        subprocess.run(["gcc", *flags, *files, "-o", str(tmp_path / "selftest")], check=True)
        done = subprocess.run([str(tmp_path / "selftest")], capture_output=True, check=False)
        assert done.returncode == result
        source.write_text(text, encoding="ascii")


def test_compiled_heads_answer_in_this_process(tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    raw = device_layout(raw_samples(checkpoint.encoding, 90, 3))
    with blrc.compile(checkpoint, members=5, gate=0.4, threads=2) as net:
        whole = net.answers(raw)
        expected = reference.answer(net.program, raw)
        for name in ("label", "log_p", "mean", "variance", "members"):
            assert (getattr(whole, name) == getattr(expected, name)).all()
        assert net(raw).shape == (90, 2)
        assert (net.scores(raw) == reference.scores(net.program, raw)).all()
        early = net.answers(raw, stop=True)
        assert (early.label == whole.label)[early.members > 1].all()
        assert (net(raw) == early.label).all()
        assert len(set(early.members.tolist())) > 1


@pytest.mark.nightly
def test_one_compiled_network_of_several_heads_answers_in_this_process() -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    raw = device_layout(raw_samples(checkpoint.encoding, 90, 3))
    with blrc.compile(checkpoint) as net:
        expected = reference.answer(net.program, raw)
        assert (net(raw) == expected.label).all()
        assert net(raw).shape == (90, 2)
        assert (net.scores(raw) == reference.scores(net.program, raw)).all()


def test_packages_report_every_head(tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    made = exported(checkpoint, tmp_path, "c", packages=["cmake", "arduino", "platformio", "zephyr", "esp-idf"])
    package = tmp_path / "cmake" / "net"
    assert "to 10 classes of digit and 2 classes of parity" in (package / "README.md").read_text(encoding="utf-8")
    files = [*sorted((package / "src").glob("*.c")), package / "examples" / "classify" / "main.c"]
    include = [f"-I{package / 'include'}", f"-I{package / 'src'}"]
    binary = tmp_path / "classify"
    subprocess.run(["gcc", "-std=c99", *WARNINGS, *include, *map(str, files), "-o", str(binary)], check=True)
    lines = subprocess.run([str(binary)], capture_output=True, check=True).stdout.decode("ascii").splitlines()
    answer = reference.answer(made.program, device_layout(checkpoint.samples()[:1]))
    assert lines[0] == f"digit: label {answer.label[0, 0]} (as recorded)"
    assert lines[2] == f"parity: label {answer.label[0, 1]} (as recorded)"
    assert lines[4] == "members asked: 1 of 1"
    for other in ("arduino", "platformio", "zephyr", "esp-idf"):
        texts = [path.read_text(encoding="utf-8") for path in (tmp_path / other).rglob("*") if path.is_file()]
        assert any("predict(net_image, arena, &members, 0, answer)" in text for text in texts)
        assert not any("HEADS(" in text or "ONE(" in text for text in texts)
    assert blrc.verify(tmp_path, random=20).equal


def test_what_is_not_taken_says_so(tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    program = exported(checkpoint, tmp_path / "out").program
    one = "target web: a page shows one answer, and the network has the heads digit, parity"
    with pytest.raises(BlrcError, match=one):
        check_input(program)


def test_a_page_of_several_heads_is_refused_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blrc.app.export.NEEDS", {})  # the compiler of pages need not be there
    monkeypatch.setattr("blrc.app.export.build", lambda *args: pytest.fail("lowered"))
    with pytest.raises(BlrcError, match=r"the network has the heads digit, parity; leave out --target web$"):
        blrc.export(saved(stochastic()), folder=tmp_path / "out", targets=["c", "web"])
    assert not [*tmp_path.iterdir()]


def test_inspect_and_the_manifest_name_the_heads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    found = blrc.inspect(checkpoint)
    assert found.heads == (("digit", 10), ("parity", 2))
    assert "heads digit (10 scores), parity (2 scores)" in str(found)
    manifest = exported(checkpoint, tmp_path).manifest
    assert manifest.settings["heads"] == ["digit", "parity"]
