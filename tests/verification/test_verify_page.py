"""`blrc verify` of an exported page, whose scripts Node runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from by_night import first
from forged import plain, relist
from random_networks import checkpoint_of
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint

pytestmark = pytest.mark.needs("node", "clang-19", "wasm-ld-19")


def checkpoint() -> Checkpoint:
    model = nn.Sequential(
        bnn.BinaryConv2d(1, 8, 3),
        bnn.StochasticBatchNorm2d(8),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(8 * 16, 3),
    )
    return checkpoint_of(model, "uint8", (1, 6, 6))


@pytest.mark.parametrize("gate", first(1, ["0.9", None]))
def test_a_page_answers_as_the_reference_does(gate: str | None, tmp_path: Path) -> None:
    blrc.export(checkpoint(), folder=tmp_path / "out", targets=["web"], members="3", name="net", gate=gate)
    report = blrc.verify(tmp_path / "out", random=300)
    assert report.equal
    assert report.engines == ("page, in Node",)
    assert report.inputs["random inputs"] == {"page, in Node": 300}
    compared = {name for name, count in report.layers.items() if count}
    assert compared == {"label", "answer"}
    assert report.skipped == ("layers: a page only answers; export with --target c as well, and they are compared",)


def test_a_page_of_another_network_is_not_run_and_differs_if_it_is_trusted(tmp_path: Path) -> None:
    for seed in (0, 1):
        blrc.export(checkpoint(), folder=tmp_path / str(seed), targets=["web"], members="2", seed=seed, name="net")
    out = tmp_path / "0"
    shutil.copy(tmp_path / "1" / "web" / "model.js", out / "web" / "model.js")
    with pytest.raises(BlrcError, match=r"web/model\.js: was changed since the export"):
        blrc.verify(out, random=20)
    relist(out, "web/model.js")
    with pytest.raises(BlrcError, match=r"web/model\.js: is not what this blrc writes"):
        blrc.verify(out, random=20)
    report = blrc.verify(out, random=20, trust_code=True)
    assert not report.equal
    assert report.difference is not None
    assert report.difference.startswith("page, in Node differs on recorded vectors, sample ")


def test_scripts_that_blrc_would_not_have_written_are_not_run(tmp_path: Path) -> None:
    blrc.export(checkpoint(), folder=tmp_path / "out", targets=["web"], name="net")
    script, marker = tmp_path / "out" / "web" / "network.js", tmp_path / "ran"
    script.write_text(f'process.getBuiltinModule("fs").writeFileSync("{marker}", "");\nsyntax error')
    relist(tmp_path / "out", "web/network.js")
    with pytest.raises(BlrcError, match=r"web/network\.js: is not what this blrc writes"):
        blrc.verify(tmp_path / "out", random=20)
    web = plain(tmp_path / "out")["targets"]["web"]
    relist(tmp_path / "out", targets={"web": {**web, "compiler": "clang of somebody else"}})
    with pytest.raises(BlrcError, match=r"web/network\.js: is not what this blrc writes"):
        blrc.verify(tmp_path / "out", random=20)
    assert not marker.exists()
    report = blrc.verify(tmp_path / "out", random=20, trust_code=True)
    assert not report.equal
    assert any(problem.startswith("running the page in Node failed") for problem in report.problems)


def test_a_module_that_another_compiler_made_is_not_run(tmp_path: Path) -> None:
    blrc.export(checkpoint(), folder=tmp_path / "out", targets=["onnx", "web"], name="net")
    web = plain(tmp_path / "out")["targets"]["web"]
    relist(tmp_path / "out", targets={**plain(tmp_path / "out")["targets"], "web": {**web, "compiler": "clang 3"}})
    report = blrc.verify(tmp_path / "out", random=20)
    assert not report.equal and not report.differs
    assert report.engines == ("onnxruntime",)
    assert report.unchecked[0].startswith("page: its module was compiled by 'clang 3', here is ")


def test_without_tools_the_page_is_reported_as_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blrc.export(checkpoint(), folder=tmp_path / "out", targets=["onnx", "web"], name="net")
    monkeypatch.setenv("PATH", str(tmp_path))
    report = blrc.verify(tmp_path / "out", random=20)
    assert not report.equal and not report.differs
    assert report.engines == ("onnxruntime",)
    assert report.unchecked[0].startswith("page: its module cannot be compared (target web: clang and wasm-ld")
