from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from c_exports import export
from hypothesis import given
from hypothesis import strategies as st
from random_programs import Builder, random_program

import blrc
from blrc.errors import BlrcError
from blrc.program.program import Value, Window
from blrc.targets.c.build import compiler as build
from blrc.targets.c.text import text
from blrc.targets.naming.names import KEYWORDS, check_name, identifiers
from blrc.targets.naming.taken import KINDS, taken
from blrc.verification.inputs.stimuli import random_inputs


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
        ("While", "keyword"),
        ("nullptr", "keyword"),
        ("typeof_unqual", "keyword"),
        ("stdint", "stdint.h would hide a header of"),
        ("String", "String.h would hide a header of"),
        ("vector", "would hide a header of .*C\\+\\+"),
        ("Arduino", "would hide a header of the Arduino core"),
        ("pgmspace", "would hide a header of .*avr-libc"),
        ("esp_log", "would hide a header of ESP-IDF"),
        ("core_cm4", "would hide a header of CMSIS"),
        ("sdkconfig", "would hide a header of ESP-IDF's build"),
        ("arm_neon", "would hide a header of .*gcc"),
        ("m", "libm.a would hide a library of"),
        ("mtx", "a function or macro of .* begins with it"),
        ("Aux", "is a device on Windows"),
        ("com3", "is a device on Windows"),
        ("linux", "compilers define a macro"),
        ("main", "ESP-IDF has a package of that name"),
        ("Threads", "would hide a header of glibc"),
        ("ZLIB", "CMake has a package of that name"),
        ("stdout", "identifier of every C program"),
    ],
)
def test_bad_names_say_why(name: str, complaint: str) -> None:
    with pytest.raises(BlrcError, match=complaint):
        check_name(name)


def test_features_would_hide_a_header_of_libc() -> None:
    """--name features: every header of glibc includes <features.h>, and found the model's."""
    with pytest.raises(
        BlrcError, match=r"^name 'features': features\.h would hide a header of glibc.*; give.* --name$"
    ):
        check_name("features")


def test_a_checkpoint_s_file_name_that_is_refused_asks_for_a_name(tmp_path: Path) -> None:
    model = shutil.copy(Path(__file__).parents[2] / "golden" / "tiny.pt", tmp_path / "features.pt")
    with pytest.raises(BlrcError, match=r"features\.h would hide .* give another --name"):
        blrc.export(model, folder=tmp_path / "out", targets="c")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_that_is_taken_is_refused_in_any_case(kind: str) -> None:
    names = taken()[kind]
    assert len(names) > 40
    for name in names:
        for spelled in (name, name.upper(), name.capitalize()):
            with pytest.raises(BlrcError, match="give"):
                check_name(spelled)


PACKAGES = {
    "glibc": ("libc6-dev", "libc6-dev-arm64-cross", "libc6-dev-armhf-cross", "libc6-dev-s390x-cross"),
    "avr-libc": ("avr-libc",),
    "Arduino": ("arduino-core-avr",),
}


@pytest.mark.needs("dpkg")
@pytest.mark.parametrize("owner", PACKAGES)
def test_every_header_of_the_installed_packages_is_refused(owner: str) -> None:
    """What `.ci/run` installs, listed by the package manager and not by the script that wrote the data."""
    for package in PACKAGES[owner]:
        listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False)
        if listed.returncode != 0 and os.environ.get("CI") != "true":
            pytest.skip(f"{package} is not installed")
        check_headers(re.findall(r"/([^/\n]+)\.h$", listed.stdout, re.MULTILINE))


COMPILERS = (
    "gcc",
    "clang",
    "clang-19",
    "avr-gcc",
    "arm-none-eabi-gcc",
    "riscv64-unknown-elf-gcc",
    "aarch64-linux-gnu-gcc",
)


@pytest.mark.parametrize("compiler", [pytest.param(name, marks=pytest.mark.needs(name)) for name in COMPILERS])
def test_every_header_of_a_compiler_is_refused(compiler: str) -> None:
    """Of the folders on its include path which are its own."""
    command = [compiler, "-xc", "-E", "-Wp,-v", "/dev/null"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    folders = [Path(line.strip()) for line in said.splitlines() if line.startswith(" ")]
    own = [folder for folder in folders if {"gcc", "gcc-cross", "clang"} & set(folder.parts)]
    check_headers(path.stem for folder in own for path in folder.glob("*.h"))


def check_headers(names: Iterable[str]) -> None:
    possible = {name for name in names if re.fullmatch(r"[A-Za-z]\w{,47}", name, re.ASCII)}
    assert len(possible) > 5
    for name in sorted(possible):
        with pytest.raises(BlrcError, match="give"):
            check_name(name)


@pytest.mark.needs("gcc")
def test_a_layer_may_be_called_what_compilers_define(tmp_path: Path) -> None:
    """Its map was a variable called linux, which GNU C replaces by 1."""
    assert identifiers(["linux", "INT8_MAX", "errno"]) == {
        "linux": "linux_2",
        "INT8_MAX": "INT8_MAX_2",
        "errno": "errno_2",
    }
    builder = Builder(Value("input", "bits", (3, 3, 4)), np.random.default_rng(0), members=1)
    for name in ("linux", "unix", "errno"):
        builder.conv(name, Window((1, 1)), None, groups=1, per_group=4)
    program = builder.finish(np.int8)
    folder = export(program, tmp_path, random_inputs(program.input, 1, 0))
    build.run_tool(["gcc", "-std=gnu17", "-fsyntax-only", str(folder / "net.c")], "compiling")


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


@pytest.mark.parametrize(
    "name", ["net_weights", "net_Weights", "NET_SELFTEST", "net_image", "net_selftest", "net_weights_2"]
)
def test_a_name_of_another_model_s_file_is_refused(name: str) -> None:
    """net_weights.c would be the steps of one and the tables of the other, net."""
    with pytest.raises(BlrcError, match=f"a model '{name[:3]}' has a file {name}"):
        check_name(name)


def test_every_file_of_a_model_is_refused_as_a_name(tmp_path: Path) -> None:
    program = random_program(1, members=2)
    export(program, tmp_path, random_inputs(program.input, 1, 0))
    stems = {path.stem for path in tmp_path.glob("net_*.[ch]")}
    assert stems == {"net_weights", "net_selftest", "net_blrc"}
    for stem in stems:
        with pytest.raises(BlrcError, match="give a"):
            check_name(stem)
