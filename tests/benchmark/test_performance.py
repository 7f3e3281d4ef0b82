"""docs/performance.md says what its record says."""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path
from string import Template

import pytest

from blrc.targets.c.runtime_files import runtime_files

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools" / "pages"), str(ROOT / "benchmarks")]

import bench  # noqa: E402
import performance  # noqa: E402

PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


def test_no_number_of_the_page_is_typed_by_hand() -> None:
    assert performance.page(performance.record()) == PAGE


def test_other_figures_give_another_page() -> None:
    known = copy.deepcopy(performance.record())
    known["shapes"]["shapes"]["c"]["ratio_vs_ort_int8"]["avx512"] = 1234.5
    known["devices"]["devices"][0]["steps"][0]["instructions"] = 7654321
    known["mnist"]["host"]["rows"][-1]["wall_us"]["ort int8"] = 98765.4
    changed = performance.page(known)
    assert all(text in changed and text not in PAGE for text in ("**1234.5**", "7,654,321", "98,765.4"))


def test_every_figure_and_link_of_the_page_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert len([link for link in links if link.endswith(".svg")]) == 2
    assert all((ROOT / "docs" / link).is_file() for link in links)


def test_files_that_the_page_names_are_there() -> None:
    named = re.findall(r"`((?:blrc_[a-z0-9_]+\.[ch])|(?:blrc/[a-z/]+\.c))`", PAGE)
    assert len(named) >= 5
    for name in named:
        assert (ROOT / name).is_file() or name in runtime_files(), name


def test_the_record_has_every_shape_and_rival() -> None:
    known = performance.record()
    assert list(known["shapes"]["shapes"]) == list(bench.SHAPES)
    assert {device["name"] for device in known["devices"]["devices"]} == set(performance.MACHINES.split(","))
    assert all(device["steps"] and not device["detail"] for device in known["devices"]["devices"])
    assert not known["mnist"]["host"]["left_out"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", known["date"])


def test_the_template_has_no_other_names() -> None:
    template = Template((ROOT / "tools" / "pages" / "performance.md.tmpl").read_text(encoding="utf-8"))
    assert template.is_valid() and "$" not in PAGE


def test_figures_are_drawn_from_the_record() -> None:
    pytest.importorskip("matplotlib")
    assert set(performance.figures(performance.record())) == {
        file.name for file in (ROOT / "docs" / "performance").glob("*.svg")
    }
