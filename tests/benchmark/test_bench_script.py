"""`make bench`: what its table and its JSON hold. No time is asserted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import bench

from blrc.benchmark.clock import Run, Time
from blrc.benchmark.peak import Peak
from blrc.benchmark.report import RATIOS
from blrc.benchmark.rivals.registry import FLOAT32, INT8, OURS, TORCH
from blrc.benchmark.show import figure
from blrc.program.legal import check
from blrc.targets.c.kernels.tiers import VARIABLE, allowed

MICRO = 1e-6
pytestmark = pytest.mark.needs("cc")


def test_shapes_are_those_that_were_agreed_on() -> None:
    assert list(bench.SHAPES) == list("abcdefgh")
    layers = {name: bench.layer(shape) for name, shape in bench.SHAPES.items() if not shape.network}
    macs = {name: check(program).ops[0].macs for name, program in layers.items()}
    # outputs x inputs x taps inside the map: 3 s - 2 of each of s rows and columns
    assert macs["a"] == 256 * 256 * (3 * 14 - 2) ** 2 and macs["d"] == 64 * 32 * (3 * 14 - 2) ** 2
    assert macs["b"] == 128 * 128 * (3 * 32 - 2) ** 2 and macs["c"] == 512 * 512 * (3 * 8 - 2) ** 2
    assert (macs["e"], macs["f"]) == (3136 * 512, 8192 * 1024)


@pytest.mark.nightly
def test_the_table_holds_every_contestant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    small = {
        "a": bench.Shape("conv", 4, 64, 32, 3),
        "e": bench.Shape("dense", 1, 65, 33),
        "g": bench.Shape("net", network="tiny"),
    }
    monkeypatch.setattr(bench, "SHAPES", small)
    monkeypatch.setitem(bench.NETWORKS, "tiny", ((6, 6, 1), bench.NETWORKS["mnist"][1][:1]))
    monkeypatch.setenv(VARIABLE, "portable")
    files = tmp_path / "bench.json", tmp_path / "bench.svg"
    words = ["a", "e", "g", "--rounds", "1", "--seconds", "0", "--json", str(files[0]), "--plot", str(files[1])]
    monkeypatch.setattr(sys, "argv", ["bench.py", *words])
    bench.main()
    with Peak() as peak:
        levels = allowed(peak.levels)
    plain = json.loads(files[0].read_text(encoding="utf-8"))
    assert plain["levels"] == list(levels) and list(plain["shapes"]) == ["a", "e", "g"]
    for row in plain["shapes"].values():
        assert list(row["us"]) == list(row["wall_us"]) == [*levels, OURS, FLOAT32, INT8, TORCH]
        assert set(row["peak_fraction"]) == set(row["peak_gmacs"]) == set(levels)
        assert all(set(row[key]) == set(levels) for key in RATIOS)
    assert [set(row.get("fixed_us", ())) for row in plain["shapes"].values()] == [set(levels), set(), set()]
    lines, rows = capsys.readouterr().out.splitlines(), plain["shapes"]
    shown = lines[2:5]
    assert [line.split()[0] for line in shown] == ["a", "e", "g"]
    assert all(line.count("%)") == len(levels) for line in shown)
    assert "\n".join(lines).endswith(bench.goals_table(rows, levels))
    assert files[1].read_bytes() == bench.drawn(plain["shapes"], tuple(plain["levels"])) != figure.draw({"devices": []})


@pytest.mark.nightly
def test_larq_takes_part_in_all_shapes_from_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[dict[str, Any]]] = []

    class Engine:
        version = "1.2.3"

        def __init__(self, networks: list[dict[str, Any]], python: str) -> None:
            asked.append(networks)

        def __enter__(self) -> Engine:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def run(self, index: int) -> Run:
            return lambda repeats: Time(repeats * MICRO * (index + 1), repeats * MICRO)

    monkeypatch.setattr(bench.lce, "Engine", Engine)
    monkeypatch.setattr(bench.lce, "interpreter", lambda: "python")
    small = {name: bench.Shape("dense", 1, 65, outputs) for name, outputs in (("e", 33), ("f", 34))}
    monkeypatch.setattr(bench, "SHAPES", small)
    monkeypatch.setenv(VARIABLE, "portable")
    found = bench.measure(["e", "f"], 1, 0)
    assert [[layer["outputs"] for layer in n["layers"]] for n in asked[0]] == [[33], [34]] and len(asked) == 1
    assert [found["shapes"][name]["us"]["larq"] for name in "ef"] == [1.0, 2.0]
    assert found["versions"]["larq-compute-engine"] == "1.2.3"
    assert "larq" in bench.table(found["shapes"], ("portable",)).splitlines()[0]


def test_what_a_cpu_before_avx2_takes_is_the_better_level() -> None:
    assert bench.before_avx2({"portable": 2, "popcnt": 3, "avx2": 9}) == {"portable": 3, "popcnt": 3, "avx2": 9}
    assert bench.before_avx2({"portable": 2, "popcnt": 1}) == {"portable": 2, "popcnt": 1}
    assert bench.before_avx2({"portable": 2}) == {"portable": 2}


def test_a_shape_that_there_is_not(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.py", "z"])
    with pytest.raises(SystemExit):
        bench.main()
    assert "no such shape: z; there are a, b" in capsys.readouterr().err
