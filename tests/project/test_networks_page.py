"""docs/networks.md says which public architectures compile: each one is built and compiled again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from by_night import where

import blrc

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "pages"))
from architectures import ARCHITECTURES, PAPER, Architecture
from networks import PAGE, page, row, saved

NARROW = 0.125
BY_DAY = {"FINN CNV", "VGG-Small", "DS-CNN", "ResNet-8", "autoencoder"}
PARAMETERS = where(lambda each: each.title in BY_DAY, ARCHITECTURES)


def name(architecture: Architecture) -> str:
    return f"{architecture.title}, {architecture.kind}"


@pytest.mark.parametrize("architecture", PARAMETERS, ids=name)
def test_a_narrow_network_compiles_where_the_page_says_so(architecture: Architecture) -> None:
    """Widths change sizes, kernels and numbers in a refusal's text, and neither whether it is refused nor where."""
    taken, text = row(architecture, NARROW)
    start = text[: text.index("|", 2)]
    wanted = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(start)]
    kinds = [line for line in wanted if f"| {architecture.kind} |" in line]
    assert len(kinds) == 1
    if not taken:
        assert text.split("|")[-2].partition(":")[0] == kinds[0].split("|")[-2].partition(":")[0]  # the layer's name
    assert taken == (kinds[0].count("|") == text.count("|") == 7)


@pytest.mark.nightly
def test_the_page_is_what_the_networks_give() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(map(row, ARCHITECTURES)), "run python tools/pages/networks.py"


def compiles(architecture: Architecture) -> bool:
    """Return whether the page lists sizes of a network."""
    start = f"| {architecture.title} ({architecture.source}) | {architecture.kind} |"
    return any(line.startswith(start) and line.count("|") == 7 for line in PAGE.read_text("utf-8").splitlines())


OTHERS = [each for each in ARCHITECTURES if compiles(each) and each.source not in (PAPER, "the same")]
"""The networks of other papers; those of the method's own paper have tests of their own."""


@pytest.mark.nightly
@pytest.mark.parametrize("architecture", OTHERS, ids=name)
def test_narrow_networks_that_compile_are_exact(architecture: Architecture, tmp_path: Path) -> None:
    """Compare every layer of the export with the reference, and the reference with torch."""
    path = saved(architecture, tmp_path, NARROW)
    blrc.export(path, targets=("c", "onnx"), folder=tmp_path / "out")
    found = blrc.verify(tmp_path / "out", model=path, random=20)
    assert found.equal and found.agreement is not None and found.agreement.differences == 0
