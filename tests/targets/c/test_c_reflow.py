"""Lines of C that are broken keep every token, and every string whole."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from blrc.targets.c.text.reflow import reflow
from blrc.targets.c.text.text import WIDTH

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|[^\s\w]')
words = st.sampled_from(
    ["a", "blrc_operand", "f(x, y)", "(g(1) + h)", "i < n &&", '"two words"', '" %A0, Z+\\n\\t"', "b,"]
)


@given(st.lists(words, min_size=1, max_size=40))
def test_tokens_stay_and_strings_are_whole(parts: list[str]) -> None:
    line = f"    call({' '.join(parts)});"
    broken = reflow(line)
    assert TOKEN.findall(broken) == TOKEN.findall(line)
    assert all(len(each) <= WIDTH for each in broken.split("\n"))


def test_regression_a_string_that_ends_beyond_the_width_is_kept_whole() -> None:
    """AVR's assembler: the last string of the line began before the width and ended behind it."""
    long = '" NAME_OF_THE_MODEL_BLRC_LPM " %C0, Z+\\n\\t"'
    line = f'    __asm__({"x" * 90} " %B0, Z+\\n\\t" {long} "%D0");'
    assert '" %B0, Z+\\n\\t"' in reflow(line)
