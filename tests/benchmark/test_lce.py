"""Larq Compute Engine beside us: what it is asked to build, and how the process that runs it is spoken to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from shapes_only import HALF, SAME, network

from blrc.benchmark.clock import Time
from blrc.benchmark.host import measure
from blrc.benchmark.rivals import lce
from blrc.benchmark.rivals.lce import LCE, VARIABLE, Engine, interpreter, missing
from blrc.benchmark.rivals.twins import is_product
from blrc.benchmark.subject import load
from blrc.errors import BlrcError
from blrc.program.ops.binarize import Binarize
from blrc.program.ops.flatten import Flatten
from blrc.program.program import Conv, Scores, Value, Window
from blrc.targets.c.kernels import tiers

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"

FAKE = """
import json, sys
networks = json.load(open(sys.argv[1]))
print("ready 1.2.3", flush=True)
for line in sys.stdin:
    index, repeats = map(int, line.split())
    if index >= len(networks):
        sys.exit("no such network")
    print(0.5 * repeats, len(networks[index]["layers"]) * repeats, flush=True)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An interpreter whose worker answers at once: half a second of CPU a run, a wall second a layer."""
    worker = tmp_path / "worker.py"
    worker.write_text(FAKE, encoding="utf-8")
    monkeypatch.setattr(lce, "WORKER", worker)
    monkeypatch.setenv(VARIABLE, sys.executable)
    return sys.executable


def conv(outputs: int, binary: bool, norm: bool = True, padding: str = "same", kernel: int = 3) -> dict[str, Any]:
    return {
        "kind": "conv",
        "outputs": outputs,
        "kernel": [kernel, kernel],
        "stride": [1, 1],
        "padding": padding,
        "binary": binary,
        "norm": norm,
    }


POOL = {"kind": "pool", "kernel": [2, 2], "stride": [2, 2]}


def test_a_whole_network() -> None:
    program = network((32, SAME, HALF), (64, SAME, None), (512, None, None), shape=(28, 28, 1))
    dense = conv(512, True, padding="valid", kernel=14)
    layers = [conv(32, False), POOL, conv(64, True), dense, {"kind": "dense", "outputs": 10}]
    assert lce.network(program.ops) == {"input": [28, 28, 1], "layers": layers}


def test_bits_are_made_and_packed_for_free() -> None:
    binarize = Binarize("b", Value("input", "uint8", (4, 5, 6)), Value("bits", "bits", (4, 5, 6)), "thresholds")
    flatten = Flatten("f", binarize.y, Value("flat", "bits", (1, 1, 120)))
    scores = Scores("s", flatten.y, Value("scores", "int32", (1, 1, 10)), "w", "b")
    layers = [{"kind": "flatten"}, {"kind": "dense", "outputs": 10}]
    assert lce.network([binarize, flatten, scores]) == {"input": [4, 5, 6], "layers": layers}
    assert lce.network([binarize]) is None and lce.network([flatten]) is None


def test_a_bare_layer_has_neither_norm_nor_pool() -> None:
    program = network((32, SAME, HALF), (64, SAME, HALF), shape=(28, 28, 1))
    op = program.ops[2]
    assert isinstance(op, Conv) and not is_product(op)
    assert lce.network([op], bare=True) == {"input": [14, 14, 32], "layers": [conv(64, True, norm=False)]}
    assert lce.network([op]) == {"input": [14, 14, 32], "layers": [conv(64, True), POOL]}


@pytest.mark.parametrize(
    "window",
    [
        Window((3, 3), padding=(1, 0, 1, 0)),
        Window((3, 3), padding=(2, 2, 2, 2)),
        Window((2, 2), padding=(1, 1, 1, 1)),
        Window((3, 3), (2, 2), (1, 1, 1, 1)),  # TensorFlow pads at the other end there
        Window((3, 3), dilation=(2, 2)),
    ],
)
def test_what_it_cannot_build_is_left_out(window: Window) -> None:
    program = network((32, window, None), shape=(28, 28, 1))
    assert lce.network(program.ops) is None
    assert lce.network(network((32, SAME, Window((2, 2), (2, 2), (1, 1, 1, 1))), shape=(28, 28, 1)).ops) is None


def test_each_network_tells_its_own_time(fake: str) -> None:
    with Engine([{"layers": []}, {"layers": [1, 2, 3]}], fake) as engine:
        assert engine.version == "1.2.3"
        assert [engine.run(1)(4), engine.run(0)(2)] == [Time(2.0, 12.0), Time(1.0, 0.0)]
        with pytest.raises(BlrcError, match="cannot be timed: no such network"):
            engine.run(2)(1)


@pytest.mark.nightly
def test_it_takes_part_where_an_interpreter_is_named(fake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tiers.VARIABLE, "portable")
    monkeypatch.setattr("blrc.benchmark.host.RIVALS", {})
    found = measure(load(TINY), 1, False, 0)
    # its second convolution has a stride of 1 in height and 2 in width, with padding; to flatten costs nothing
    assert [LCE in row.times for row in found.rows] == [True, False, False, True, True, False]
    assert found.rows[0].times[LCE] == Time(0.5, 2.0)  # with its pool
    assert found.versions["larq-compute-engine"] == "1.2.3" and LCE not in found.left_out


def test_without_one_it_is_said_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert interpreter() is None and "pip install larq-compute-engine" in str(missing())
    assert interpreter({VARIABLE: ""}) is None and interpreter({VARIABLE: "x"}) == "x"


def test_an_interpreter_without_it_is_an_error_with_its_reason() -> None:
    with pytest.raises(BlrcError, match=r"No module named '(larq|tensorflow)"):
        Engine([{"input": [1, 1, 1], "layers": []}], sys.executable)
    with pytest.raises(BlrcError, match="no-python: cannot be started"):
        Engine([], "no-python")
