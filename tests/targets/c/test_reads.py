"""The hash of what a compiler reads: it changes with every file that is read, or there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from blrc.targets.c.build import compiler, reads


def write(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


PLAIN = {"net.c": '#include <stdint.h>\n#include "net.h"\n#include "other.c"\nint a;\n', "net.h": "", "other.c": ""}


def test_it_is_the_same_wherever_the_files_lie(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name, PLAIN) for name in "ab")
    (second / "unread.c").write_text("int b;\n")
    found = {reads.digest(["cc", f"-I{folder}"], folder / "net.c") for folder in (first, second)}
    assert len(found) == 1 and None not in found


@pytest.mark.parametrize("file", ["net.c", "net.h", "other.c", "stdint.h", "unread.h", "cstdint"])
def test_it_is_another_one_for_each_file_that_may_be_read(tmp_path: Path, file: str) -> None:
    """Headers that nothing includes by name may take the place of those that the system's include."""
    folder = write(tmp_path / "a", PLAIN)
    found = {reads.digest(["cc", f"-I{folder}"], folder / "net.c")}
    for text in ("/* 1 */\n", "/* 2 */\n"):
        (folder / file).write_text(PLAIN.get(file, "") + text)
        found.add(reads.digest(["cc", f"-I{folder}"], folder / "net.c"))
    assert len(found) == 3 and None not in found


def test_it_is_another_one_for_another_command_and_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {**PLAIN, "same.c": PLAIN["net.c"]})
    asked = [(["cc"], "net.c"), (["cc", "-DA"], "net.c"), (["gcc"], "net.c"), (["cc"], "same.c")]
    assert len({reads.digest([*command, f"-I{folder}"], folder / name) for command, name in asked}) == 4


@pytest.mark.parametrize(
    "line",
    [
        '#inclu\\\nde "v.c"',
        '#import "v.c"',
        "#include FILE",
        "#include NET_HOOKS",
        '/**/ #include "v.c"',
        '%:include "v.c"',
        '# include "v.c"',
        '??=include "v.c"',
        '#if __has_include("v.c")\n#endif',
        "#include <assert.h>",
        "int now = __TIME__[0];",
        "const char *at = __FILE__;",
    ],
)
def test_of_what_is_uncertain_there_is_none(tmp_path: Path, line: str) -> None:
    """Or it changes with the file that the compiler reads."""
    found = []
    for name in "ab":
        folder = write(tmp_path / name, {"net.c": f"{line}\n", "v.c": name})
        found.append(reads.digest(["cc", '-DNET_HOOKS="v.c"', f"-I{folder}"], folder / "net.c"))
    assert found == [None, None] or (None not in found and found[0] != found[1])


def test_folders_variables_and_what_is_missing_leave_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "a", PLAIN)
    command = ["cc", f"-I{folder}"]
    assert reads.digest(command, folder / "net.c") is not None
    assert reads.digest([*command, f"-I{tmp_path / 'nowhere'}"], folder / "net.c") is None
    assert reads.digest(command, folder / "nothing.c") is None
    with monkeypatch.context() as patch:
        patch.setenv("CPATH", str(tmp_path))
        assert reads.digest(command, folder / "net.c") is None
    (folder / "sys").mkdir()
    assert reads.digest(command, folder / "net.c") is None


@pytest.mark.needs("gcc")
def test_files_that_were_seen_are_not_preprocessed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLRC_CACHE", str(tmp_path / "cache"))
    gcc = tmp_path / "gcc"
    gcc.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\nexec gcc "$@"\n')
    gcc.chmod(0o755)
    for name in "ab":
        folder = write(tmp_path / name, PLAIN)
        compiler.compile_object((str(gcc),), ("-Wall",), folder / "net.c", folder / "net.o", folder)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [("-dM" in call, "-E" in call, "-c" in call) for call in calls] == [
        (True, True, False),
        (False, True, False),
        (False, False, True),
    ]
    assert (tmp_path / "b" / "net.o").read_bytes() == (tmp_path / "a" / "net.o").read_bytes()
