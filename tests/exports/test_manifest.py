"""The manifest says what an export is, and notices when it is no longer that."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from blrc.manifest import FORMAT, SUFFIX, Manifest, previous_files, read_manifest, sha256s, to_bytes

from blrc.errors import BlrcError

FILES = {"net.c": b"int x;\n", "net.h": b"", "sub/net.bin": bytes(range(256))}


def manifest() -> Manifest:
    settings = {"input": {"kind": "bits", "shape": [3]}, "calibration_samples": 4}
    return Manifest("net", "ab" * 32, "0.1", ("map",), settings, {"c": {"arena": 12}}, sha256s(FILES))


def write(folder: Path) -> Path:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / f"net{SUFFIX}").write_bytes(to_bytes(manifest()))
    return folder


def test_round_trip(tmp_path: Path) -> None:
    assert read_manifest(write(tmp_path)) == manifest()


def test_bytes_are_sorted_json_with_the_sha256_of_every_file() -> None:
    raw = to_bytes(manifest())
    plain = json.loads(raw)
    assert raw == (json.dumps(plain, indent=2, sort_keys=True) + "\n").encode()
    assert plain["format"] == FORMAT
    assert plain["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    assert to_bytes(manifest()) == raw


def test_every_change_is_noticed(tmp_path: Path) -> None:
    write(tmp_path)
    assert list(manifest().changed_files(tmp_path)) == []
    for name, content in FILES.items():
        for changed in (content + b"\n", content[:-1] if content else b"1", b"other"):
            (tmp_path / name).write_bytes(changed)
            assert list(manifest().changed_files(tmp_path)) == [
                f"{tmp_path / name}: was changed since the export; export again"
            ]
        (tmp_path / name).unlink()
        assert list(manifest().changed_files(tmp_path)) == [
            f"{tmp_path / name}: cannot be read (No such file or directory); export again"
        ]
        (tmp_path / name).write_bytes(content)
    (tmp_path / "mine.txt").write_text("is nobody's business")
    assert list(manifest().changed_files(tmp_path)) == []


@pytest.mark.parametrize("missing", ["format", "name", "digest", "blrc", "members", "settings", "targets", "files"])
def test_a_manifest_without_a_field_is_damaged(missing: str, tmp_path: Path) -> None:
    path = write(tmp_path) / f"net{SUFFIX}"
    plain = json.loads(path.read_bytes())
    del plain[missing]
    path.write_text(json.dumps(plain))
    with pytest.raises(BlrcError, match=rf"net{SUFFIX}: not a manifest, or damaged.*{missing}.*export again"):
        read_manifest(tmp_path)


def test_another_format_is_refused_by_number(tmp_path: Path) -> None:
    path = write(tmp_path) / f"net{SUFFIX}"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format": FORMAT + 1}))
    with pytest.raises(BlrcError, match=rf"manifest format {FORMAT + 1}, this blrc reads {FORMAT}; export again"):
        read_manifest(tmp_path)


def test_a_folder_named_like_a_manifest(tmp_path: Path) -> None:
    (tmp_path / f"net{SUFFIX}").mkdir()
    with pytest.raises(BlrcError, match="cannot read: Is a directory"):
        read_manifest(tmp_path)


def test_which_files_an_export_may_replace(tmp_path: Path) -> None:
    assert previous_files(tmp_path / "new", False) is None
    assert previous_files(tmp_path / "new", True) is None
    (tmp_path / "empty").mkdir()
    assert previous_files(tmp_path / "empty", False) == ()
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    with pytest.raises(BlrcError, match="exists already"):
        previous_files(tmp_path / "out", False)
    replaced = previous_files(tmp_path / "out", True)
    assert replaced is not None
    assert set(replaced) == {*FILES, f"net{SUFFIX}"}
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_bytes(b"")
    for name, words in [("file", "is a file"), ("mine", "is no export")]:
        with pytest.raises(BlrcError, match=words):
            previous_files(tmp_path / name, True)
    # --force is not recommended where it would be refused.
    with pytest.raises(BlrcError, match=r"exists already; choose another folder with -o$"):
        previous_files(tmp_path / "mine", False)


def test_a_file_in_place_of_the_folder_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"")
    with pytest.raises(BlrcError, match=r"net\.pt: is a file; give the folder that holds the export"):
        read_manifest(tmp_path / "net.pt")
