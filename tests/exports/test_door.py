"""The door: a folder that does not fit is refused by every command before anything is compiled, run or written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from by_night import first, night
from click.testing import CliRunner
from forged import plain, relist

import blrc
from blrc.benchmark.subject import load as load_subject
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.exports import again, directory, door, recorded
from blrc.exports.again import code_of, library_of, private_copy, vectors_of
from blrc.exports.door import check_digest, open_export, previous_files
from blrc.exports.manifest import SUFFIX
from blrc.program import reference
from blrc.program.vectors import differences
from blrc.reading.schema import MisfitError
from blrc.targets.options import EmitOptions
from blrc.version import VERSION

TINY = Path(__file__).parents[1] / "golden" / "tiny.pt"
MANIFEST = f"tiny{SUFFIX}"


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """C, ONNX and a package: files in the folder and in folders of it."""
    return blrc.export(
        TINY, folder=tmp_path_factory.mktemp("door") / "out", targets=["c", "onnx"], packages="cmake"
    ).folder


@pytest.fixture
def out(export: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(export, tmp_path / "out"))


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*command: object, **_: object) -> NoReturn:
        pytest.fail(f"was run: {command}")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(subprocess, "Popen", run)


def tree(folder: Path) -> dict[str, Any]:
    """Everything below a folder, links and special files as they are."""
    found: dict[str, Any] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            mode = os.lstat(path)
            link = str(path.readlink()) if path.is_symlink() else None
            content = path.read_bytes() if path.is_file() and not link and mode.st_size < 2**20 else mode.st_size
            found[str(path.relative_to(folder))] = (mode.st_mode, link, content)
    return found


def everybody_refuses(out: Path, force: bool = True) -> str:
    """Each command ends with status 2 and one line, and changes nothing; what verify says."""
    before = tree(out.parent)
    said = []
    commands = [["verify", out, "--random", "1"], ["verify", out, "--on", "host"], ["bench", out]]
    commands += [["export", TINY, "--target", "c", "-o", out, "--force"]] if force else []
    for command in commands:
        result = CliRunner().invoke(main, list(map(str, command)))
        assert isinstance(result.exception, SystemExit), result.exception
        lines = [line for line in result.output.splitlines() if line.startswith("Error: ")]
        assert (result.exit_code, len(lines)) == (2, 1), result.output
        assert result.output.splitlines()[-1] == lines[0]
        said.append(lines[0])
    with pytest.raises(BlrcError):
        blrc.compile(out)
    assert tree(out.parent) == before
    return said[0]


def fits(out: Path) -> None:
    opened = open_export(out)
    assert code_of(opened, vectors_of(opened)).files.keys() == opened.manifest.files.keys()


def test_an_export_fits(export: Path) -> None:
    fits(export)
    opened = open_export(export)
    assert set(opened.contents) == {"tiny.program.npz", "tiny.vectors.npz"}
    for name, content in code_of(opened, vectors_of(opened)).files.items():
        assert (export / name).read_bytes() == content
    assert library_of(opened) == {
        name: (export / name).read_bytes()
        for name in opened.manifest.files
        if name.endswith((".c", ".h")) and "/" not in name and not name.endswith("_selftest.c")
    }


@pytest.mark.filterwarnings("ignore:.*all calibration samples are equal")
def test_regression_an_export_with_a_warning_in_its_manifest_fits(tmp_path: Path) -> None:
    """Its settings have notes, which its readers did not know; and these named the checkpoint's path."""
    source = blrc.load(TINY)
    assert source.calibration is not None
    equal = replace(source, calibration=np.repeat(source.calibration[:1], 4, axis=0))
    out = blrc.export(equal, folder=tmp_path / "out", targets=["c"]).folder
    fits(out)
    [note] = plain(out)["settings"]["notes"]
    assert note.startswith("all calibration samples are equal") and "tiny" not in note
    for notes in ("x", [3], None, ["x"] * 100):
        relist(out, settings={**plain(out)["settings"], "notes": notes})
        with pytest.raises(BlrcError, match=r"settings\.notes"):
            open_export(out)


def test_a_link_to_the_folder_itself_is_fine(export: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(export)
    fits(tmp_path / "link")


def test_what_is_not_listed_is_not_read(out: Path) -> None:
    os.mkfifo(out / "tiny_extra.c")
    (out / "tiny_evil.c").symlink_to("/dev/zero")
    (out / "other").mkdir(mode=0)
    fits(out)
    with private_copy(code_of(opened := open_export(out), vectors_of(opened)).files) as private:
        assert set(tree(private)) - {"cmake"} >= opened.manifest.files.keys()
        assert not {"tiny_extra.c", "tiny_evil.c", "other"} & set(tree(private))
        assert private.stat().st_mode & 0o777 == 0o700


# Files that are not what the manifest lists


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _socket(path: Path) -> None:
    path.unlink()
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


def _linked(target: str) -> Callable[[Path], None]:
    def link(path: Path) -> None:
        content = path.read_bytes()
        path.unlink()
        (path.parent / "moved-away").write_bytes(content)
        path.symlink_to(target)

    return link


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _sparse(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(2**40)


SPOILED: dict[str, Callable[[Path], None]] = {
    "FIFO": _fifo,
    "socket": _socket,
    "a link to its own content": _linked("moved-away"),
    "a link to an endless device": _linked("/dev/zero"),
    "a link to nothing": _linked("nowhere"),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name))[-1],
    "a folder": _folder,
    "missing": Path.unlink,
    "a flipped bit": _flipped,
    "longer": lambda path: _append(path),
    "a hundred times longer, and sparse": _sparse,
    "empty": lambda path: path.write_bytes(b"") and None,
}


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n")


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
@pytest.mark.parametrize("name", ["tiny.c", "tiny.program.npz", "cmake/tiny/src/tiny.c"])
def test_a_file_that_is_not_as_listed_is_refused_by_everybody(out: Path, name: str, spoil: Any) -> None:
    spoil(out / name)
    assert f"{out / name}: " in everybody_refuses(out)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_a_manifest_that_is_no_file_of_the_folder_is_refused_by_everybody(out: Path, spoil: Any) -> None:
    if spoil is not _flipped:  # which may be in a hash
        spoil(out / MANIFEST) if spoil is not SPOILED["longer"] else (out / MANIFEST).write_text("{}")
        assert str(out) in everybody_refuses(out)


def test_every_listed_file_is_checked(out: Path) -> None:
    for name in plain(out)["files"]:
        good = (out / name).read_bytes()
        _flipped(out / name)
        with pytest.raises(BlrcError, match=f"{name}: was changed since the export"):
            open_export(out)
        (out / name).write_bytes(good)
    fits(out)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("folder", ["cmake", "cmake/tiny", "cmake/tiny/src"])
def test_a_listed_file_reached_through_a_linked_folder_is_refused(out: Path, folder: str) -> None:
    (out / folder).rename(out.parent / "elsewhere")
    (out / folder).symlink_to(out.parent / "elsewhere")
    assert f"{out / folder}: is a symbolic link, and should be a folder" in everybody_refuses(out)


@pytest.mark.parametrize("descriptors", [True, False])
def test_paths_serve_where_there_are_no_descriptors(
    out: Path, descriptors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_HERE", descriptors)
    fits(out)
    (out / "cmake" / "tiny").rename(out.parent / "elsewhere")
    (out / "cmake" / "tiny").symlink_to(out.parent / "elsewhere")
    with pytest.raises(BlrcError, match="cmake/tiny: is a symbolic link"):
        open_export(out)


def test_what_is_changed_after_it_was_opened_is_not_used(out: Path) -> None:
    opened = open_export(out)
    expected = code_of(opened, vectors_of(opened)).files
    for name in plain(out)["files"]:
        (out / name).unlink()
    (out / "tiny.c").write_text("#error changed")
    assert code_of(opened, vectors_of(opened)).files == expected


# Manifests of forgers, whose hashes fit


@pytest.mark.usefixtures("nothing_runs")
def test_regression_force_does_not_delete_files_outside_of_the_folder(out: Path) -> None:
    """`export --force` removed ../victim/thesis.txt where the manifest listed it."""
    thesis = out.parent / "victim" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    entry = {"size": 13, "sha256": hashlib.sha256(b"years of work").hexdigest()}
    for name in ("../victim/thesis.txt", str(thesis), "cmake/../../victim/thesis.txt"):
        relist(out, files={**plain(out)["files"], name: entry})
        assert "no plain name of a file in the folder" in everybody_refuses(out)
        whole = plain(out)
        shas = {file: entry["sha256"] for file, entry in whole["files"].items()}
        (out / MANIFEST).write_text(json.dumps({**whole, "format": 1, "files": shas}))
        assert "another version" in everybody_refuses(out)
        del whole["files"][name]
        (out / MANIFEST).write_text(json.dumps(whole))
        fits(out)


@pytest.mark.parametrize("place", ["web", "arduino", "arduino/tiny"])
def test_regression_force_does_not_write_through_a_link(out: Path, place: str) -> None:
    """With a link in the folder, `export --force` overwrote files outside."""
    victim = out.parent / "victim"
    (victim / "tiny" / "src").mkdir(parents=True)
    (victim / "tiny" / "src" / "tiny.c").write_text("theirs")
    (out / place).parent.mkdir(exist_ok=True)
    (out / place).symlink_to(victim if place != "arduino/tiny" else victim / "tiny")
    before = tree(out.parent)
    if place == "web":
        fits(out)  # nothing of it is listed
    else:
        with pytest.raises(BlrcError, match=f"{place}: is in the way of a folder of the export"):
            blrc.export(TINY, folder=out, targets=["c"], packages="arduino", force=True)
    assert tree(out.parent) == before


def test_force_replaces_an_export_that_fits_and_nothing_else(out: Path) -> None:
    (out / "mine.txt").write_text("mine")
    replaced = previous_files(out, True)
    assert replaced is not None and set(replaced) == {*plain(out)["files"], MANIFEST}
    blrc.export(TINY, folder=out, targets=["onnx"], force=True)
    assert sorted(path.name for path in out.iterdir()) == [
        "mine.txt",
        MANIFEST,
        "tiny.onnx",
        "tiny.program.npz",
        "tiny.vectors.npz",
    ]


def test_an_export_without_sizes_is_refused_but_can_be_replaced(out: Path) -> None:
    shas = {name: entry["sha256"] for name, entry in plain(out)["files"].items()}
    relist(out, format=1, files=shas)
    refusal = "another version of blrc; this one reads 2, whether code is trusted or not; export again"
    assert refusal in everybody_refuses(out, force=False)
    _flipped(out / "tiny.h")
    with pytest.raises(BlrcError, match=r"tiny\.h: was changed"):
        blrc.export(TINY, folder=out, targets=["onnx"], force=True)
    _flipped(out / "tiny.h")
    blrc.export(TINY, folder=out, targets=["onnx"], force=True)
    fits(out)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("name", first(2, ["tiny_weights.c", "tiny.h", "tiny.c", "tiny_blrc.h", "tiny_blrc.c"]))
def test_c_that_blrc_would_not_have_written_is_refused_though_its_hash_is_listed(out: Path, name: str) -> None:
    with (out / name).open("a") as file:
        file.write('__attribute__((constructor)) static void run(void) { fputs("!", stderr); }\n')
    relist(out, name)
    said = everybody_refuses(out, force=False)
    assert f"{out / name}: is not what this blrc writes" in said and "--trust-code" in said


@pytest.mark.usefixtures("nothing_runs")
def test_regression_a_flipped_bit_of_a_weight_is_not_compiled(out: Path) -> None:
    """blrc.compile compared no hash: 52 of 500 labels were wrong, and nothing was said."""
    text = (out / "tiny_weights.c").read_text()
    at = text.index("0x", text.index("{")) + 9
    flipped = text[:at] + f"{int(text[at], 16) ^ 1:x}" + text[at + 1 :]
    (out / "tiny_weights.c").write_text(flipped)
    with pytest.raises(BlrcError, match=r"tiny_weights\.c: was changed since the export"):
        blrc.compile(out)
    relist(out, "tiny_weights.c")
    with pytest.raises(BlrcError, match=r"tiny_weights\.c: is not what this blrc writes"):
        blrc.compile(out)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    "name", ["tiny_evil.c", "evil.h", "cmake/tiny/src/evil.c", *night("tiny_blrc_evil.c", "evil.c")]
)
def test_a_file_more_than_blrc_writes_is_refused_though_it_is_listed(out: Path, name: str) -> None:
    (out / name).write_text("int evil;\n")
    relist(out, name)
    opened = open_export(out)
    with pytest.raises(BlrcError, match=f"lists {name}, which this blrc does not write"):
        code_of(opened, vectors_of(opened))
    if "/" not in name:
        with pytest.raises(BlrcError, match=f"lists {name}, which"):
            library_of(opened)


@pytest.mark.usefixtures("nothing_runs")
def test_an_onnx_file_that_blrc_would_not_have_written_is_not_loaded(out: Path) -> None:
    import onnx

    model = onnx.load_from_string((out / "tiny.onnx").read_bytes())
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    (out / "tiny.onnx").write_bytes(model.SerializeToString())
    relist(out, "tiny.onnx")
    result = CliRunner().invoke(main, ["verify", str(out)])
    assert result.exit_code == 2
    assert f"{out / 'tiny.onnx'}: is not what this blrc writes" in result.output


CHANGED_OPTIONS: list[dict[str, Any]] = [
    {"cpu": "x86-64"},
    {"cpu": "z80"},
    {"cpu": None},
    {"optimize": "speed"},
    {"optimize": "fast"},
    {"packages": []},
    {"packages": ["cmake", "cmake"]},
    {"packages": ["../x"]},
    {"packages": "cmake"},
    {"packages": [3]},
    {"ram": -1},
    {"ram": True},
    {"ram": 1.5},
    {"input_scale": 10**400},
    {"flash": 10**400, "input_scale": -(10**400)},
    {"flash": "4K"},
    {"onnx_weights": "bits"},
    {"onnx_weights": 1},
    {"colour": "red"},
]


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("change", CHANGED_OPTIONS, ids=repr)
def test_other_options_than_those_of_the_export_are_refused(out: Path, change: dict[str, Any]) -> None:
    relist(out, options={**plain(out)["options"], **change})
    opened = open_export(out)
    with pytest.raises(BlrcError) as error:
        code_of(opened, vectors_of(opened))
    assert str(out) in str(error.value) and len(str(error.value).splitlines()) == 1


def test_every_option_is_recorded_and_none_may_be_missing(export: Path) -> None:
    names = {field.name for field in fields(EmitOptions)}
    options = plain(export)["options"]
    assert set(options) == names - {"name", "vectors", "version"}
    opened = open_export(export)
    vectors = vectors_of(opened)
    read = recorded.from_plain(options, "tiny", vectors, VERSION)
    assert recorded.to_plain(read) == options
    for name in options:
        with pytest.raises(MisfitError):
            recorded.from_plain({k: v for k, v in options.items() if k != name}, "tiny", vectors, VERSION)
        for junk in ({}, [[]], 3.5, True, "\n*/ int evil;", b"x"):
            if junk != options[name] and (name, junk) != ("input_scale", 3.5):
                with pytest.raises(MisfitError):
                    recorded.from_plain({**options, name: junk}, "tiny", vectors, VERSION)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("every", first(1, [4, 1]))
def test_what_the_manifest_says_of_a_target_is_what_blrc_says(out: Path, every: int) -> None:
    """Change what the manifest says of a target, key by key: by day each fourth key."""
    whole = plain(out)["targets"]
    for target, about in whole.items():
        for key in list(about)[::every]:
            for other in (None, {}, [about[key]], True, 1, "x"):
                if other is about[key] or (other == about[key] and type(other) is type(about[key])):
                    continue
                relist(out, targets={**whole, target: {**about, key: other}})
                opened = open_export(out)
                if key == next(iter(about)) or other is True:
                    with pytest.raises(BlrcError, match=f"'{key}' of target {target} is not what this blrc says"):
                        code_of(opened, vectors_of(opened))
    relist(out, targets={"c": whole["c"]})
    opened = open_export(out)
    with pytest.raises(BlrcError, match=r"lists tiny\.onnx, which this blrc does not write"):
        code_of(opened, vectors_of(opened))


@pytest.mark.usefixtures("nothing_runs")
def test_a_program_of_another_digest_is_refused(out: Path) -> None:
    for change, words in (
        ({"digest": "0" * 64}, "but the manifest says 0000"),
        ({"members": ["map", "map"]}, "names other members"),
        ({"members": ["sample 1:0"]}, "names other members"),
        ({"name": "other"}, "lists no 'other.program.npz'"),
    ):
        good = (out / MANIFEST).read_bytes()
        relist(out, **change)
        said = everybody_refuses(out, force="name" in change)
        assert words in said or "has no 'other.program.npz'" in said
        (out / MANIFEST).write_bytes(good)


def test_regression_what_has_no_target_could_not_be_checked(out: Path) -> None:
    """It ended in status 1, which says that something differs."""
    files = {name: entry for name, entry in plain(out)["files"].items() if name.endswith(".npz")}
    relist(out, targets={}, files=files)
    result = CliRunner().invoke(main, ["verify", str(out), "--random", "1"])
    assert result.exit_code == 2
    assert f"{out}: nothing of it can be run here; it holds no target that could be compared" in result.output


# Versions, trust and digests


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("version", ["0.0.9", "9.9", VERSION + "-dirty", "x" * 100])
def test_an_export_of_another_version_is_refused_with_that_reason(out: Path, version: str) -> None:
    relist(out, blrc=version)
    said = everybody_refuses(out, force=False)
    assert f"was written by blrc {version}, this is {VERSION}" in said and "--trust-code" in said
    opened = open_export(out, trust_code=True)
    assert set(opened.contents) == set(plain(out)["files"])
    code = code_of(opened, vectors_of(opened))
    assert code.files == {name: (out / name).read_bytes() for name in plain(out)["files"]}
    assert code.skipped[0].startswith("code: the folder's own, as --trust-code asks")
    previous_files(out, True)


def test_trust_does_not_open_another_door(out: Path) -> None:
    _flipped(out / "tiny.c")
    with pytest.raises(BlrcError, match=r"tiny\.c: was changed"):
        open_export(out, trust_code=True)
    with pytest.raises(BlrcError, match="no folder of an export, so it has no code to trust"):
        blrc.compile(TINY, trust_code=True)


@pytest.mark.needs("cc")
@pytest.mark.slow("exports and verifies")
def test_trusted_code_is_the_folder_s_own(out: Path, tmp_path: Path) -> None:
    """The planted code runs if and only if it is trusted: this test's refusals would be worth nothing otherwise."""
    marker = tmp_path / "ran"
    planted = (
        "#include <stdio.h>\n__attribute__((constructor)) static void planted(void);\n"
        f'static void planted(void) {{ FILE *f = fopen("{marker}", "w"); if (f) fclose(f); }}\n'
    )
    with (out / "tiny_blrc.c").open("a") as file:
        file.write(planted)
    relist(out, "tiny_blrc.c")
    with pytest.raises(BlrcError, match=r"tiny_blrc\.c: is not what this blrc writes"):
        blrc.compile(out, flags=("-O0",))
    assert not marker.exists()
    with blrc.compile(out, flags=("-O0",), trust_code=True) as trusted:
        assert marker.exists()
        raw = np.zeros((2, *trusted.program.input.shape), np.uint8)
        np.testing.assert_array_equal(trusted.scores(raw), reference.scores(trusted.program, raw))


@pytest.mark.nightly
@pytest.mark.needs("cc", "size")
def test_regression_verify_does_not_run_planted_files(out: Path, tmp_path: Path) -> None:
    """Every NAME_*.c in the folder was compiled, listed or not: a planted constructor ran, and all was bit-exact."""
    marker = tmp_path / "ran"
    for name in ("tiny_evil.c", "tiny_blrc_aaa.c", "tiny_weights_9.c", "tiny_driver.c"):
        (out / name).write_text(
            "#include <stdio.h>\n__attribute__((constructor)) static void planted(void);\n"
            f'static void planted(void) {{ FILE *f = fopen("{marker}", "w"); if (f) fclose(f); }}\n'
        )
    report = blrc.verify(out, random=1)
    assert report.equal, report.problems
    assert not marker.exists()


@pytest.mark.parametrize("digest", ["", "ab", "g" * 64, "0" * 63, "0" * 65, "0x" + "0" * 62, " " * 64, "0" * 64 + "\n"])
def test_a_malformed_digest_is_refused(digest: str, export: Path) -> None:
    with pytest.raises(BlrcError, match="expected all 64 hexadecimal digits"):
        check_digest(digest)
    for model in (export, export / "tiny.program.npz", TINY):
        with pytest.raises(BlrcError, match="expected all 64 hexadecimal digits"):
            blrc.compile(model, digest=digest)


@pytest.mark.usefixtures("nothing_runs")
def test_a_digest_binds_a_call_to_one_program(export: Path) -> None:
    right = open_export(export).digest
    assert plain(export)["digest"] == right == open_export(export, right.upper()).digest
    wrong = hashlib.sha256(b"another").hexdigest()
    for command in (["verify", export], ["bench", export], ["bench", TINY], ["bench", export / "tiny.program.npz"]):
        result = CliRunner().invoke(main, [*map(str, command), "--digest", wrong])
        assert result.exit_code == 2
        assert f"holds program {right}, not {wrong}" in result.output
    for model in (export, TINY, export / "tiny.program.npz", open_export(export).program):
        with pytest.raises(BlrcError, match=f"holds program {right}, not {wrong}"):
            blrc.compile(model, digest=wrong)
    assert load_subject(export, right).name == "tiny"


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("ending", ["program", "vectors"])
def test_arrays_that_are_larger_than_their_file_are_not_inflated(out: Path, ending: str) -> None:
    """blrc compresses nothing, so that a file of 512 MB cannot become one of 500 GB."""
    path = out / f"tiny.{ending}.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez_compressed(path, allow_pickle=False, **arrays, zeros=np.zeros(10**6, np.uint8))
    relist(out, path.name)
    assert "and blrc compresses nothing" in everybody_refuses(out, force=False)


@pytest.mark.usefixtures("nothing_runs")
def test_what_is_held_in_memory_has_a_limit(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum((out / f"tiny.{ending}.npz").stat().st_size for ending in ("program", "vectors"))
    monkeypatch.setattr(door, "MOST_KEPT", size)
    open_export(out)
    with pytest.raises(BlrcError, match="would be held in memory"):
        open_export(out, trust_code=True)
    monkeypatch.setattr(door, "MOST_KEPT", size - 1)
    assert "would be held in memory" in everybody_refuses(out, force=False)


def test_without_onnx_the_file_is_neither_compared_nor_run(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_export(export)
    monkeypatch.setattr(again, "lacking", lambda name: f"{name}: pip install 'blrc[onnx]'")
    code = code_of(opened, vectors_of(opened))
    assert "tiny.onnx" not in code.files and "tiny.c" in code.files
    (skipped,) = code.skipped
    assert skipped.startswith("ONNX: comparing the file") and skipped.endswith("needs onnx: pip install 'blrc[onnx]'")


def test_the_digest_is_the_program_s_and_not_what_the_manifest_says(out: Path) -> None:
    wanted = "0" * 64
    relist(out, digest=wanted)
    with pytest.raises(BlrcError, match="has digest"):
        open_export(out, wanted)


def test_vectors_that_the_program_does_not_give_are_a_difference(out: Path) -> None:
    """They are well formed and their hash is listed, so this is no refusal, but it is found."""
    with np.load(out / "tiny.vectors.npz") as file:
        arrays = {name: file[name] for name in file.files}
    arrays["0/scores"][0, 0] += 1
    np.savez(out / "tiny.vectors.npz", allow_pickle=False, **arrays)
    relist(out, "tiny.vectors.npz")
    opened = open_export(out)
    now = vectors_of(opened)
    found = differences(opened.contents["tiny.vectors.npz"], opened.path(".vectors.npz"), opened.program, now)
    assert found == [f"{out / 'tiny.vectors.npz'}: scores of member 'map' differ"]


def test_names_in_a_program_cannot_become_code(export: Path) -> None:
    """blrc would write them itself, so that comparing would not help."""
    opened = open_export(export)
    evil = '*/ int evil; /* \\\n"; int evil; // ??/\n'
    ops = tuple(replace(op, name=f"{op.name}{evil}") for op in opened.program.ops)
    program = replace(opened.program, ops=ops, members=(evil,))
    files = blrc.app.compile.library_files(program, "tiny")
    for name, content in files.items():
        done = subprocess.run(
            ["cc", "-fpreprocessed", "-dD", "-E", "-P", "-x", "c", "-"], input=content, capture_output=True, check=True
        )  # what is left has no comments
        assert not re.search(rb"\bevil\b", re.sub(rb'"(?:\\.|[^"\\])*"', b"", done.stdout)), name
