"""What all packages have in common: asked for in one way, complete, reproducible, of one version, known to verify."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from by_night import first
from click.testing import CliRunner
from package_exports import ALL, Package, export_package, run, tree
from random_networks import checkpoint_of
from torch import nn

import blrc
from blrc import nn as bnn
from blrc import version
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.exports.again import code_of, vectors_of
from blrc.exports.door import open_export
from blrc.program.program import Value
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.options import PACKAGES, parse_packages
from blrc.targets.c.packages.example import drawing
from blrc.targets.publication import NO_VERSION
from blrc.targets.runtime_licence import LICENCE, RUNTIME_LICENCE

ROOT = Path(__file__).parents[4]
IMAGES = {"cmake": "examples/classify", "arduino": "examples/classify", "platformio": "examples/classify/src"}
IMAGES |= {"zephyr": "samples/classify/src", "esp-idf": "examples/classify/main"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint file of two layers."""
    model = nn.Sequential(bnn.BinaryLinear(9, 8), bnn.StochasticSign(), bnn.SoftmaxLinear(8, 3))
    checkpoint = checkpoint_of(model, "uint8", (9,), 0)
    assert checkpoint.calibration is not None
    path = tmp_path_factory.mktemp("model") / "net.pt"
    blrc.save(checkpoint.model(), path=path, input=checkpoint.encoding, calibration=checkpoint.calibration)
    return path


def test_the_names_are_those_of_the_command() -> None:
    assert tuple(PACKAGES) == ALL
    shown = CliRunner().invoke(main, ["export", "--help"]).output
    assert all(name in shown for name in (*ALL, "none"))
    assert parse_packages(()) == parse_packages("none") == parse_packages(["none"]) == ()
    assert parse_packages("zephyr") == ("zephyr",)
    assert parse_packages(["zephyr", "cmake", "zephyr"]) == ("cmake", "zephyr")


def test_mistakes_are_named_before_anything_is_written(saved: Path, tmp_path: Path) -> None:
    for arguments, words in [
        ({"packages": ["cmake", "conan", "a"]}, "unknown package 'a', 'conan'; known: cmake, arduino, .*, none"),
        ({"packages": ["none", "cmake"]}, "none means no package"),
        ({"packages": "cmake", "targets": "onnx"}, "--package cmake is about the C; add --target c"),
    ]:
        with pytest.raises(BlrcError, match=words):
            blrc.export(saved, folder=tmp_path / "out", **arguments)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_each_is_a_folder_with_all_that_a_library_needs(first: Package, second: Package) -> None:
    for package in (first, second):
        top = package.exported.folder
        library = {p.name: p.read_bytes() for p in top.glob("*.[ch]")}
        for name in ALL:
            folder = package.folder(name)
            found = tree(folder)
            assert found[RUNTIME_LICENCE] == (ROOT / "LICENSE").read_bytes()
            assert "LICENSE" not in found
            readme = found["README.md"].decode()
            assert package.exported.manifest.digest in readme and version.VERSION in readme
            image = f"{IMAGES[name]}/{package.name}_image.h"
            held = {Path(path).name: content for path, content in found.items() if path.endswith((".c", ".h"))}
            examples = {Path(path).name for path in found if path.startswith(("examples/", "samples/"))}
            assert {n: c for n, c in held.items() if n not in examples} == library
            public = "src" if name == "arduino" else "include"
            if name != "arduino":  # which has one folder of sources; elsewhere the rest is private
                assert [path.name for path in (folder / "include").iterdir()] == [f"{package.name}.h"]
            assert f"{public}/{package.name}.h" in found and image in found
            assert not [path for path in found if re.search(rb"@\w+@|\bname_|NAME_", found[path])], name


def test_without_packages_there_are_none(saved: Path, tmp_path: Path) -> None:
    command = ["export", str(saved), "--target", "c", "-o"]
    assert CliRunner().invoke(main, [*command, str(tmp_path / "a")]).exit_code == 0
    assert CliRunner().invoke(main, [*command, str(tmp_path / "b"), "--package", "none"]).exit_code == 0
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert not [path for path in (tmp_path / "a").iterdir() if path.is_dir()]


def test_the_same_bytes_whatever_the_order_and_the_process(saved: Path, tmp_path: Path) -> None:
    done = blrc.export(saved, folder=tmp_path / "a", targets="c", packages=ALL)
    command = [sys.executable, "-m", "blrc", "export", str(saved), "--target", "c", "-o", "b"]
    for name in reversed(ALL):
        command += ["--package", name]
    environment = {**os.environ, "PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    files = tree(tmp_path / "a")
    assert tree(tmp_path / "b") == files
    assert str(tmp_path).encode() not in b"".join(files.values())
    assert {*done.manifest.files, "net.manifest.json"} == set(files)
    assert done.manifest.targets["c"]["packages"] == {name: f"{name}/net" for name in ALL}


def test_another_export_takes_them_away(saved: Path, tmp_path: Path) -> None:
    blrc.export(saved, folder=tmp_path / "out", targets="c", packages=ALL)
    blrc.export(saved, folder=tmp_path / "out", targets="c", packages="zephyr", force=True)
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == ["zephyr"]


def test_a_change_in_a_package_is_noticed(saved: Path, tmp_path: Path) -> None:
    folder = blrc.export(saved, folder=tmp_path / "out", targets="c", packages=ALL).folder
    opened = open_export(folder)
    assert code_of(opened, vectors_of(opened)).files.keys() == opened.manifest.files.keys()
    changed = folder / "arduino" / "net" / "library.properties"
    changed.write_text(changed.read_text().replace("version=0.0.0", "version=0.0.1"))
    with pytest.raises(BlrcError, match=rf"^{changed}: was changed since the export"):
        blrc.verify(folder, random=0)
    (folder / "zephyr" / "net" / "src" / "net.c").unlink()
    with pytest.raises(BlrcError, match=r"zephyr/net/src/net\.c: cannot be read \(No such file"):
        blrc.verify(folder, random=0)


def test_a_package_s_version_is_the_model_s_and_never_blrc_s(first: Package) -> None:
    assert version.VERSION != NO_VERSION
    assert (ROOT / "LICENSE").read_text() == LICENCE
    project = (ROOT / "pyproject.toml").read_text()
    assert f'license = "{version.LICENSE}"' in project
    where = {
        "cmake": ("CMakeLists.txt", "VERSION {}"),
        "arduino": ("library.properties", "version={}\n"),
        "platformio": ("library.json", '"version": "{}"'),
        "esp-idf": ("idf_component.yml", 'version: "{}"'),
    }
    for name, (file, form) in where.items():
        text = (first.folder(name) / file).read_text()
        assert form.format(NO_VERSION) in text and form.format(version.VERSION) not in text


@pytest.mark.needs("cc")
@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
@pytest.mark.parametrize("language", first(1, [("c", "c99"), ("c++", "c++11")]))
def test_the_image_is_the_recorded_one(kind: str, language: tuple[str, str], tmp_path: Path) -> None:
    """As the compiler reads it: the bytes of the first calibration sample, and the reference's label."""
    package = export_package(tmp_path / "out", "net", kind)
    (tmp_path / "print.c").write_text(
        '#include <stdio.h>\n#include "net_image.h"\nint main(void) {\n'
        "    fwrite(net_image, 1, sizeof net_image, stdout);\n    return NET_IMAGE_LABEL; }\n"
    )
    folder = package.folder("cmake") / "examples" / "classify"
    flags = ["-x", language[0], f"-std={language[1]}", *STRICT]
    run(["cc", *flags, f"-I{folder}", tmp_path / "print.c", "-o", tmp_path / "print"])
    done = subprocess.run([tmp_path / "print"], capture_output=True)
    wanted = package.image if kind != "bits" else package.image.astype("<u4")  # one channel: bit 0 of its word
    assert done.stdout == wanted.tobytes()
    assert done.returncode == int(package.expected()[0].split()[1])


def test_the_drawing_shows_the_image() -> None:
    image = np.array([[0, 255, 0], [28, 29, 128]], np.uint8)[:, :, None]
    assert drawing(Value("x", "uint8", (2, 3, 1)), image) == "/*\n *   @\n *   .=\n */\n"
    assert drawing(Value("x", "int8", (2, 1, 1)), np.array([[[-128]], [[127]]], np.int8)) == "/*\n *\n *  @\n */\n"
    assert drawing(Value("x", "bits", (2, 1, 1)), np.array([[[True]], [[False]]])) == "/*\n *  @\n *\n */\n"
    assert drawing(Value("x", "uint8", (2, 3, 2)), np.zeros((2, 3, 2), np.uint8)) == ""
    assert drawing(Value("x", "uint8", (1, 1, 9)), np.zeros((1, 1, 9), np.uint8)) == ""
    assert drawing(Value("x", "uint8", (2, 101, 1)), np.zeros((2, 101, 1), np.uint8)) == ""
