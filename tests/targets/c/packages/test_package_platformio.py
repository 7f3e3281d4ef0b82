"""The PlatformIO library: packed by pio; its example compiled for the host. (No platform can be installed offline.)"""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest
from package_exports import Package, check_lines, run, tree

from blrc.targets.c.build.compiler import STRICT
from blrc.targets.publication import NO_VERSION


def pio(packagers: Path, home: Path, *arguments: str | Path) -> str:
    environment = {
        **os.environ,
        "PLATFORMIO_CORE_DIR": str(home / ".platformio"),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL": "9999",
    }
    return run([packagers / "pio", *arguments], where=home, env=environment)


def test_pio_packs_every_file(packagers: Path, first: Package, second: Package, tmp_path: Path) -> None:
    for package in (first, second):
        folder = package.folder("platformio")
        pio(packagers, tmp_path, "pkg", "pack", "-o", tmp_path, folder)
        with tarfile.open(tmp_path / f"{package.name}-{NO_VERSION}.tar.gz") as archive:
            packed = {
                entry.name: archive.extractfile(entry).read()  # type: ignore[union-attr]
                for entry in archive.getmembers()
                if entry.isfile()
            }
        assert packed.keys() - {".piopm"} == tree(folder).keys()
        assert all(packed[path] == content for path, content in tree(folder).items() if path != "library.json")
        ours, theirs = (json.loads(text) for text in (tree(folder)["library.json"], packed["library.json"]))
        assert {key: theirs[key] for key in ours} == ours


def test_the_manifest(first: Package, second: Package) -> None:
    for package, what in (
        (first, "a binary neural network in integers, 12 x 12 x 1 uint8 to 5 classes"),
        (second, "an ensemble of 3 binary neural networks in integers, 12 x 12 x 1 uint8 to 4 classes"),
    ):
        manifest = json.loads((package.folder("platformio") / "library.json").read_text())
        assert (manifest["name"], manifest["version"]) == (package.name, NO_VERSION)
        assert manifest["description"] == f"{package.name}: {what}"
        assert len(manifest["name"]) <= 50 and len(manifest["description"]) <= 255  # the registry's limits
        assert not {"authors", "homepage"} & set(manifest)  # optional, and not known
        assert (package.folder("platformio") / "include" / manifest["headers"]).is_file()
        assert "license" not in manifest  # pio pkg pack would need the network


def test_the_example_s_project_is_understood(packagers: Path, first: Package, tmp_path: Path) -> None:
    project = first.folder("platformio") / "examples" / "classify"
    found = dict(json.loads(pio(packagers, tmp_path, "project", "config", "--json-output", "-d", project)))
    assert set(found) == {"platformio", "env", "env:megaatmega2560", "env:native"}
    board = dict(found["env:megaatmega2560"])
    assert (board["platform"], board["framework"]) == ("atmelavr", ["arduino"])
    (dependency,) = dict(found["env"])["lib_deps"]
    name, place = dependency.split("=symlink://")
    assert name == "first"
    assert (project / place / "library.json").is_file()


@pytest.mark.needs("c++", "cc")
def test_the_example_runs_on_the_host(second: Package, tmp_path: Path) -> None:
    folder = second.folder("platformio")
    objects = []
    for source in sorted((folder / "src").glob("*.c")):
        objects.append(tmp_path / f"{source.stem}.o")
        run(["cc", f"-I{folder / 'include'}", "-c", source, "-o", objects[-1]])
    main = folder / "examples" / "classify" / "src" / "main.cpp"
    run(["c++", "-std=c++11", *STRICT, f"-I{folder / 'include'}", main, *objects, "-o", tmp_path / "classify"])
    check_lines(run([tmp_path / "classify"]), second)
