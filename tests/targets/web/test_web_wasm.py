"""The WebAssembly module behind the page's own script, against the reference; and what the target refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_night import first
from numpy.typing import NDArray
from random_programs import gated, random_program, top_probability
from web_node import node

import blrc
from blrc.errors import BlrcError
from blrc.exports.door import open_export
from blrc.program import head, program_file, reference
from blrc.program.program import Program
from blrc.program.vectors import record
from blrc.targets.c.layout.layout import CPUS
from blrc.targets.options import EmitOptions
from blrc.targets.runtime_licence import RUNTIME_LICENCE
from blrc.targets.web.emit import PAGE, emit
from blrc.targets.web.wasm import find_tools
from blrc.verification.inputs.stimuli import random_inputs

ASK_ALL = """(async () => {
  const network = await loadNetwork(blrcModel);
  return given.map((raw) => {
    network.start(Uint8Array.from(raw));
    return blrcModel.members.map(() => network.add());
  });
})()"""

MODULE = """(async () => {
  const module = new WebAssembly.Module(bytesOf(blrcModel.wasm));
  const custom = ["name", "producers", "target_features", "sourceMappingURL"];
  return [WebAssembly.Module.imports(module), custom.flatMap((s) => WebAssembly.Module.customSections(module, s))];
})()"""


def files_of(program: Program, inputs: NDArray[Any], name: str = "net") -> Mapping[str, bytes]:
    return emit(program, EmitOptions(name, record(program, inputs), "0.0")).files


def write(files: Mapping[str, bytes], folder: Path) -> Path:
    """The page's data, written into `folder`."""
    path = folder / "model.js"
    path.write_bytes(files["web/model.js"])
    return path


def expected(program: Program, inputs: NDArray[Any]) -> list[list[dict[str, Any]]]:
    """What the page is to be told of each input after each member, by the reference."""
    scale = head.scale_of(program.score_scale)
    said: list[list[dict[str, Any]]] = [[] for _ in inputs]
    sums = head.Sums.start(len(inputs), program.classes)
    for member in range(len(program.members)):
        scores = reference.scores(program, inputs, member)
        sums = sums.add(scores, scale)
        log_p = head.log_probabilities(scores, scale)
        p = head.probabilities(log_p)
        answer = sums.answer()
        settled = sums.settled(len(program.members) - member - 1)
        for i, steps in enumerate(said):
            own = {"label": int(scores[i].argmax()), "log_p": log_p[i].tolist(), "p": p[i].tolist()}
            steps.append(
                {
                    "own": own,
                    "label": int(answer.label[i]),
                    "mean": int(answer.mean[i]),
                    "variance": int(answer.variance[i]),
                    "log_p": sums.log_p[i].tolist(),
                    "p": sums.p[i].tolist(),
                    "settled": bool(settled[i]),
                    "alone": bool(member == 0 and program.gate and p[i].max() >= program.gate),
                }
            )
    return said


@pytest.mark.needs("node", "clang-19", "wasm-ld-19")
@pytest.mark.parametrize(
    ("seed", "shape", "members", "gate"),
    [
        (1, (9, 7, 3), 4, True),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in (
                (0, (28, 28, 1), 3, False),
                (2, (5, 6, 1), 1, False),  # its scores are binary
                (5, (8, 8, 3), 2, False),
            )
        ),
    ],
)
def test_every_member_says_in_the_page_what_it_says_in_the_reference(
    seed: int, shape: tuple[int, int, int], members: int, gate: bool, tmp_path: Path
) -> None:
    program = random_program(seed, "uint8", shape, members=members)
    inputs = random_inputs(program.input, 40, seed)
    if gate:
        program = gated(program, int(np.median(top_probability(program, inputs))))
    answers = expected(program, inputs)
    assert {steps[0]["alone"] for steps in answers} == ({True, False} if gate else {False})
    model = write(files_of(program, inputs[:2]), tmp_path)
    assert node([model, "network.js"], ASK_ALL, inputs.reshape(len(inputs), -1).tolist()) == answers


@pytest.mark.needs("node", "clang-19", "wasm-ld-19")
def test_the_module_needs_nothing_and_says_nothing_of_where_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = random_program(0, "uint8", (6, 6, 1), members=2)
    inputs = random_inputs(program.input, 2, 0)
    files = files_of(program, inputs)
    elsewhere = tmp_path / "a longer path"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    monkeypatch.chdir(elsewhere)
    assert files_of(program, inputs) == files
    assert not list(elsewhere.iterdir())
    assert node([write(files, tmp_path), "network.js"], MODULE) == [[], []]


@pytest.mark.needs("node", "clang-19", "wasm-ld-19")
@pytest.mark.parametrize("name", first(1, ["name_", "web", "input", "x"]))
def test_any_name_of_a_model_compiles(name: str, tmp_path: Path) -> None:
    program = random_program(3, "uint8", (4, 4, 1), layers=1)
    inputs = random_inputs(program.input, 2, 0)
    model = write(files_of(program, inputs, name), tmp_path)
    assert node([model, "network.js"], ASK_ALL, inputs.reshape(2, -1).tolist()) == expected(program, inputs)


@pytest.mark.needs("node", "clang-19", "wasm-ld-19")
def test_samples_are_the_recorded_inputs_that_show_something(tmp_path: Path) -> None:
    program = random_program(1, "uint8", (6, 5, 3), members=3)
    inputs = np.concatenate([np.zeros((1, 6, 5, 3), np.uint8), random_inputs(program.input, 3, 0)])
    model = node([write(files_of(program, inputs), tmp_path)], "({...blrcModel, wasm: blrcModel.wasm.length})")
    last = [steps[-1] for steps in expected(program, inputs)]
    kept = ("label", "mean", "variance", "log_p")
    assert [{key: s[key] for key in kept} for s in model["samples"]] == [
        {key: s[key] for key in kept} for s in last[1:]
    ]
    raw = node(["network.js"], "given.map((text) => [...bytesOf(text)])", [s["input"] for s in model["samples"]])
    assert raw == inputs[1:].reshape(3, -1).tolist()
    assert (model["height"], model["width"], model["channels"], model["classes"]) == (6, 5, 3, program.classes)
    assert model["members"] == list(program.members)
    assert model["digest"] == program_file.digest(program)


@pytest.mark.needs("node", "clang-19", "wasm-ld-19")
def test_an_export_holds_the_page_and_says_what_compiled_it(tmp_path: Path) -> None:
    checkpoint = grey_checkpoint()
    done = blrc.export(checkpoint, folder=tmp_path / "out", targets=["c", "web"], name="net", packages=["arduino"])
    about = done.manifest.targets["web"]
    model = node(
        [tmp_path / "out" / "web" / "model.js", "network.js"], "[blrcModel.compiler, bytesOf(blrcModel.wasm).length]"
    )
    assert re.search(r"clang version 19\.", about["compiler"])
    assert model == [about["compiler"], about["wasm_bytes"]]
    written = {file.name: file.read_bytes() for file in (tmp_path / "out" / "web").iterdir()}
    assert set(written) == {file.name for file in PAGE.iterdir()} | {"model.js", RUNTIME_LICENCE}
    assert open_export(done.folder).manifest == done.manifest


@pytest.mark.nightly
@pytest.mark.needs("clang-19", "wasm-ld-19")
def test_kernels_of_another_cpu_are_none_of_the_page_s(tmp_path: Path) -> None:
    """They were compiled for WebAssembly too, and their headers were missed."""
    exports = [
        blrc.export(grey_checkpoint(), folder=tmp_path / cpu, targets=["c", "web"], name="net", cpu=cpu) for cpu in CPUS
    ]
    pages = [(done.folder / "web" / "model.js").read_bytes() for done in exports]
    assert pages == [pages[0]] * len(CPUS)


def grey_checkpoint() -> Any:
    from random_networks import checkpoint_of
    from torch import nn

    from blrc import nn as bnn

    model = nn.Sequential(
        bnn.BinaryConv2d(1, 8, 3),
        bnn.StochasticBatchNorm2d(8),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(8 * 16, 3),
    )
    return checkpoint_of(model, "uint8", (1, 6, 6))


def test_without_a_compiler_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BlrcError, match=r"clang and wasm-ld.*apt-get install clang-19 lld-19"):
        blrc.export(tmp_path / "not even read.pt", folder=tmp_path / "out", targets=["c", "web"])
    assert not (tmp_path / "out").exists()


def test_compiler_and_linker_are_of_one_version(tmp_path: Path) -> None:
    def install(*programs: str) -> None:
        for program in programs:
            (tmp_path / program).write_text(f"#!/bin/sh\necho {program} 1.2.3\necho more\n")
            (tmp_path / program).chmod(0o755)

    here = {"PATH": str(tmp_path)}
    install("clang-19", "wasm-ld", "clang-18")
    with pytest.raises(BlrcError, match="clang and wasm-ld"):
        find_tools(here)
    install("wasm-ld-18")
    assert find_tools(here).clang.endswith("/clang-18")
    install("clang")
    assert find_tools(here).linker.endswith("/wasm-ld")
    install("wasm-ld-19")
    tools = find_tools(here)
    assert (tools.compiler_version, tools.linker_version) == ("clang-19 1.2.3", "wasm-ld-19 1.2.3")


@pytest.mark.parametrize(
    ("kind", "shape", "complaint"),
    [
        ("bits", (28, 28, 1), "target web: the network takes bits"),
        ("int8", (28, 28, 1), "target web: the network takes int8"),
        ("uint8", (6, 6, 2), "6 x 6 pixels of 2 channels"),
        ("uint8", (1, 1, 3), "1 x 1 pixels of 3 channels"),
    ],
)
def test_what_a_page_cannot_show_is_refused(kind: str, shape: tuple[int, int, int], complaint: str) -> None:
    program = random_program(0, kind, shape)
    with pytest.raises(BlrcError, match=complaint):
        files_of(program, random_inputs(program.input, 2, 0))


def test_the_page_refers_to_nothing_outside_its_folder() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert set(loaded) == {"data:,", "model.js"} | {f.name for f in PAGE.iterdir() if f.suffix in (".js", ".css")}
    for file in PAGE.iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search(
            r"https?:|//[a-z]+\.|@import|url\(|\bfetch\(|XMLHttpRequest|\bimport\b", text.replace("file://", "")
        ), file


def test_every_id_that_the_scripts_look_up_is_in_the_page() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    scripts = "".join(file.read_text(encoding="utf-8") for file in PAGE.glob("*.js"))
    wanted = set(re.findall(r'\$\("([\w-]+)"\)', scripts))
    assert wanted
    assert wanted <= set(re.findall(r'\bid="([\w-]+)"', html))
