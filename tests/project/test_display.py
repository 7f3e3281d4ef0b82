"""Tables fit the terminal, and lose no cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.display import NO_TERMINAL, brief, table, terminal_width

WORDS = st.text("abcdefg", min_size=1, max_size=9)


def test_columns_stand_under_each_other() -> None:
    assert table([("a", "b", "c"), ("long", "x", "10")], left=2) == ["a     b   c", "long  x  10"]


def test_a_table_that_is_too_wide_goes_on_below() -> None:
    rows = [("layer", "weights", "flash", "ram"), ("conv", "288", "176", "784")]
    first = ["layer  weights", "conv       288", ""]
    assert table(rows, width=17) == [*first, "layer  flash  ram", "conv     176  784"]
    assert table(rows, width=16) == [*first, "layer  flash", "conv     176", "", "layer  ram", "conv   784"]


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(WORDS, min_size=n, max_size=n), min_size=1, max_size=4)),
       st.integers(20, 60))  # fmt: skip
def test_no_line_is_too_wide_and_no_cell_is_lost(rows: list[list[str]], width: int) -> None:
    lines = table(rows, width=width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert all(words.count(cell) >= sum(row[1:].count(cell) for row in rows) for row in rows for cell in row)
    assert table(rows) == table(rows, width=NO_TERMINAL) and len(table(rows)) == len(rows)


def test_the_width_is_the_terminal_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_width() == 72
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("os.get_terminal_size", lambda _: (_ for _ in ()).throw(OSError))
    assert terminal_width() == NO_TERMINAL


def test_values_are_told_briefly() -> None:
    assert brief(np.zeros((9, 9), np.int8)) == "int8 (9, 9)"
    assert brief({str(i): i for i in range(7)}) == "<7 entries>"
    assert len(brief("x" * 5000)) < 80
