"""docs/kernels.md is what the records say."""

from __future__ import annotations

from kernels_page import PAGE, page

from blrc.targets.c.kernels.registry import KERNELS


def test_the_page_of_kernels_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tools/kernels_page.py"
    assert page().count("\n### ") == len(KERNELS) > 20
