"""Plain data, tables, figures and the command of `blrc bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from blrc.benchmark.clock import Time
from blrc.benchmark.devices import Choice, Device, StepCost
from blrc.benchmark.host import Host, Other, Row
from blrc.benchmark.report import to_plain
from blrc.benchmark.rivals.published import SOURCE, Int8
from blrc.benchmark.rivals.registry import FLOAT32, INT8
from blrc.benchmark.run import bench
from blrc.benchmark.show import figure
from blrc.benchmark.show.text import to_text
from blrc.benchmark.subject import Subject, load
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.targets.c.kernels.tiers import VARIABLE

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"
MICRO = 1e-6


@pytest.fixture(scope="module")
def subject() -> Subject:
    return load(TINY)


def found() -> Host:
    """One binary layer of 2 million multiply-adds: 20 us at level avx2, where the peak would take 10."""
    layer = {
        "portable": Time(40 * MICRO, 41 * MICRO),
        "avx2": Time(20 * MICRO, 22 * MICRO),
        FLOAT32: Time(100 * MICRO, 110 * MICRO),
        INT8: Time(50 * MICRO, 55 * MICRO),
    }
    rows = (
        Row("first", "conv_codes", 1_000_000, False, layer),
        Row("conv", "conv_tiles", 2_000_000, True, layer),
        Row("network", "", 3_000_000, False, layer),
    )
    others = (Other("--optimize ram", "portable", Time(30 * MICRO, 31 * MICRO), 616, 7),)
    peaks = {"portable": 1e11, "avx2": 2e11}
    return Host(("portable", "avx2"), 9, peaks, rows, others, {"torch float32": "torch not installed"}, {"blrc": "1"})


def device() -> Device:
    int8 = Int8({"cortex-m4": 12_000}, 1_000_000, 5_000)
    steps = (StepCost("conv", "conv_rows", 2_000, 1_000, 6_500), StepCost("pool", "pool_or", 0, 10))
    choices = (Choice("", 2_500, 300, 40, 50), Choice("--optimize ram", None, None, 30, None, "too large"))
    return Device("cortex-m4", "Cortex-M4", 4_000, "gcc 12", steps, choices, int8)


def test_ratios_and_fractions(subject: Subject) -> None:
    plain = to_plain(subject, found(), ())
    first, conv, network = plain["host"]["rows"]
    assert conv["ratio_vs_ort_fp32"] == {"portable": 2.5, "avx2": 5.0}
    assert conv["ratio_vs_ort_int8"] == {"portable": 1.25, "avx2": 2.5}
    assert conv["us"]["avx2"] == 20 and conv["wall_us"]["avx2"] == 22
    assert conv["peak_fraction"] == {"portable": 0.5, "avx2": 0.5}
    assert first["peak_fraction"] == {} and network["peak_fraction"] == {"portable": 0.75, "avx2": 0.75}
    assert plain["host"]["peak_gmacs"] == {"portable": 100.0, "avx2": 200.0}
    other = {"options": "--optimize ram", "level": "portable", "us": 30.0, "wall_us": 31.0, "arena": 616, "tables": 7}
    assert plain["host"]["others"] == [other]
    assert "devices" not in plain and json.loads(json.dumps(plain)) == plain


def lines_of(text: str, start: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(start)]


def test_tables_of_times(subject: Subject) -> None:
    text = to_text(to_plain(subject, found(), ()))
    assert lines_of(text, "conv ")[0] == [
        "conv",
        "conv_tiles",
        "2.000",
        "40.0",
        "(2.5)",
        "20.0",
        "(5.0)",
        "100.0",
        "50.0",
    ]
    assert lines_of(text, "conv ")[1] == ["conv", "50", "%", "50", "%"]
    assert lines_of(text, "avx2 ") == [["avx2", "20.0", "22.0", "5.00", "2.50", "150.0", "75", "%"]]
    assert lines_of(text, "ort int8") == [["ort", "int8", "50.0", "55.0", "2.00", "1.00", "60.0", "-"]]
    assert lines_of(text, "--optimize ram") == [["--optimize", "ram", "portable", "30.0", "31.0", "616", "7"]]
    assert "torch float32: torch not installed" in text and "9 interleaved rounds" in text
    assert not lines_of(text, "first ")[1:]  # the popcount peak is no limit for 8-bit operands


def test_without_rivals_there_are_no_ratios(subject: Subject) -> None:
    whole = found()
    rows = tuple(Row(r.what, r.kernel, r.macs, r.binary, {"portable": r.times["portable"]}) for r in whole.rows)
    plain = to_plain(subject, Host(("portable",), 1, {}, rows, (), {}, {}), ())
    assert "ratio_vs_ort_fp32" not in plain["host"]["rows"][0]
    assert lines_of(to_text(plain), "portable")[0][1:5] == ["40.0", "41.0", "-", "-"]


def test_tables_of_instructions(subject: Subject) -> None:
    text = to_text(to_plain(subject, None, [device()]))
    assert lines_of(text, "conv ") == [["conv", "conv_rows", "0.002", "1,000", "0.500", "6,500", "6.5"]]
    assert lines_of(text, "pool ") == [["pool", "pool_or", "0.000", "10", "-", "-", "-"]]
    assert lines_of(text, "network") == [["network", "0.004", "2,500", "0.625", "12,000", "4.8"]]
    assert lines_of(text, "this one") == [["this", "one", "2,500", "300", "40", "50"]]
    assert lines_of(text, "--optimize ram ") == [["--optimize", "ram", "-", "-", "30", "-"]]
    assert "--optimize ram: too large" in text and text.endswith(f"int8: {SOURCE}")


def test_a_machine_that_could_do_nothing(subject: Subject) -> None:
    text = to_text(to_plain(subject, None, [Device("avr", "ATmega2560", 4_000, detail="install avr-gcc")]))
    assert text.endswith("ATmega2560: instructions (not compiled)\ninstall avr-gcc")
    known = Int8({"cortex-m4": 12_000}, 1_000_000, 5_000)
    other = to_text(to_plain(subject, None, [Device("avr", "ATmega2560", 4_000, detail="none", int8=known)]))
    assert SOURCE not in other and "int8 network" not in other  # it was counted on other machines


def test_figures_are_the_same_bytes_for_the_same_data(subject: Subject) -> None:
    pytest.importorskip("matplotlib")
    for plain in (to_plain(subject, found(), ()), to_plain(subject, None, [device()])):
        first = figure.draw(plain)
        assert first == figure.draw(plain) and first.startswith(b"<?xml")
    faster = to_plain(subject, found(), ())
    faster["host"]["rows"][1]["us"]["avx2"] /= 2
    assert figure.draw(faster) != figure.draw(to_plain(subject, found(), ()))


def test_the_command_writes_what_it_shows(x86_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv(VARIABLE, "portable")
    monkeypatch.setattr("blrc.benchmark.run.SECONDS", 0)
    drawn = tmp_path / "new" / "x.svg"
    words = ["bench", str(x86_folder), "--rounds", "1", "--no-others", "--json", "--plot", str(drawn)]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0
    plain: dict[str, Any] = json.loads(result.stdout)
    assert drawn.read_bytes() == figure.draw(plain)
    assert plain["host"]["rounds"] == 1 and plain["cpu"] == "x86-64"


def test_mistakes_are_said_before_anything_is_measured(tmp_path: Path) -> None:
    for words, said in (
        ({"model": TINY, "on": "cortex-m9"}, "no machine cortex-m9"),
        ({"model": TINY, "rounds": 0}, "rounds 0: must be at least 1"),
        ({"model": tmp_path / "none"}, "none: "),
        ({"model": TINY, "plot": TINY / "x.svg"}, "cannot write"),
    ):
        with pytest.raises(BlrcError, match=said):
            bench(**words)
