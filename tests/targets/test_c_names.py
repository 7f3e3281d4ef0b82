from __future__ import annotations

import re
from pathlib import Path

import pytest
from c_exports import export
from hypothesis import given
from hypothesis import strategies as st
from random_programs import random_program

from blrc.errors import BlrcError
from blrc.targets.c import text
from blrc.targets.c.names import KEYWORDS, check_name, identifiers
from blrc.verification.stimuli import random_inputs


@pytest.mark.parametrize("name", ["mnist", "A", "net_2", "x1__y", "n" * 48])
def test_good_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "must be letters"),
        ("1st", "must be letters"),
        ("_net", "must be letters"),
        ("my-net", "must be letters"),
        ("netz\n", "must be letters"),
        ("größe", "must be letters"),
        ("n" * 49, "longer than 48"),
        ("while", "keyword"),
        ("class", "keyword"),
        ("stdint", "hide a standard header"),
        ("String", "hide a standard header"),
    ],
)
def test_bad_names_say_why(name: str, complaint: str) -> None:
    with pytest.raises(BlrcError, match=complaint):
        check_name(name)


@given(st.lists(st.text(max_size=8)), st.lists(st.sampled_from(["x", "y", "arena"]), max_size=2))
def test_identifiers_are_legal_and_unique_in_any_case(names: list[str], taken: list[str]) -> None:
    result = identifiers(names, taken)
    assert set(result) == set(names)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", identifier) for identifier in result.values())
    assert not set(result.values()) & (KEYWORDS | set(taken))
    assert len({identifier.lower() for identifier in result.values()}) == len(result)


def test_a_prefix_makes_room_for_digits() -> None:
    assert identifiers(["3", "4.conv"], before_digits="") == {"3": "3", "4.conv": "4_conv"}


def test_plain_names_stay_as_they_are() -> None:
    assert identifiers(["conv1", "block.0/conv", "3", "int", "Conv1"]) == {
        "conv1": "conv1",
        "block.0/conv": "block_0_conv",
        "3": "op_3",
        "int": "int_2",
        "Conv1": "Conv1_2",
    }


@given(st.text())
def test_a_comment_ends_only_at_its_end(content: str) -> None:
    comment = text.comment(content)
    assert comment.startswith("/*") and comment.endswith("*/\n")
    assert "*/" not in comment[2:-3] and "/*" not in comment[1:]
    assert "\\" not in comment and "??" not in comment
    assert comment.isascii()


def test_a_name_that_holds_the_runtimes_is_refused() -> None:
    """net_blrc beside net: two different files net_blrc.h."""
    with pytest.raises(BlrcError, match="'_blrc' is part of the runtime's file names"):
        check_name("net_blrc")


@pytest.mark.parametrize("name", ["FILENAME", "netNAME", "name_", "TYPE"])
def test_templates_are_filled_in_one_pass(name: str) -> None:
    """What a value holds is not replaced again, whatever comes first."""
    values = {"TYPE": "uint8_t", **text.model(name), "NAME_LONG": "longest first"}
    filled = text.fill("name_run(NAME_MOST, TYPE) /* NAME_LONG */", values)
    assert filled == f"{name}_run({name.upper()}_MOST, uint8_t) /* longest first */"


@pytest.mark.parametrize("name", ["net_weights", "net_Ensemble", "NET_VECTORS", "net_selftest", "net_weights_2"])
def test_a_name_of_another_model_s_file_is_refused(name: str) -> None:
    """net_weights.h would be the header of one and the tables of the other, net."""
    with pytest.raises(BlrcError, match=f"a model '{name[:3]}' has a file {name}"):
        check_name(name)


def test_every_file_of_a_model_is_refused_as_a_name(tmp_path: Path) -> None:
    program = random_program(1, members=2)
    export(program, tmp_path, random_inputs(program.input, 1, 0))
    stems = {path.stem for path in tmp_path.glob("net_*.[ch]")}
    assert {"net_weights", "net_ensemble"} < stems
    for stem in stems:
        with pytest.raises(BlrcError, match="give a"):
            check_name(stem)
