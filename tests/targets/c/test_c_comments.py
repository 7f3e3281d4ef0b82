"""Comments of generated C hold names that a stranger may have chosen, and never end before their end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.targets.c.text.text import comment

ODD = st.text(alphabet="*/\\?\n\r\t\"' a=\0\x1b\xe9(;", max_size=300)


def stripped(code: str) -> str:
    """Return what a compiler sees of a text: trigraphs and continued lines are resolved, then comments go."""
    code = code.replace("??/", "\\").replace("\\\n", "")
    return re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)


@given(ODD)
def test_nothing_leaves_a_comment(text: str) -> None:
    assert stripped(comment(text)) == "\n"
    assert "/*" not in comment(text)[2:] and "\0" not in comment(text)


@pytest.mark.parametrize(
    "name", ["*\\ int evil; \\*", "*\\\\", "\\*", "*/*/", "/**/", "??/\n int evil;", "*" * 200 + "\\"]
)
def test_regression_a_backslash_became_the_end_of_a_comment(name: str) -> None:
    """Backslashes became slashes after the ends of comments had been looked for: a layer's name was compiled."""
    assert stripped(comment(name)) == "\n"
