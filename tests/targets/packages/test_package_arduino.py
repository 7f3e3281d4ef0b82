"""The Arduino library: its properties, and its sketch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from package_exports import Package, check_lines, export_package, run

from blrc import version
from blrc.targets.c.build import STRICT

# The library specification's categories.
CATEGORIES = {
    "Display",
    "Communication",
    "Signal Input/Output",
    "Sensors",
    "Device Control",
    "Timing",
    "Data Storage",
    "Data Processing",
    "Other",
}

# As much of the core as the sketch uses; delay() ends the program after one round.
ARDUINO_H = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
struct Port {
    void begin(unsigned long baud) { if (baud != 115200) exit(2); }
    operator bool() { return true; }
    void print(const char *text) { fputs(text, stdout); }
};
static Port Serial;
static unsigned long micros() { static unsigned long now; return now += 9; }
static void delay(unsigned long) { exit(0); }
"""


def properties(package: Package) -> dict[str, str]:
    lines = (package.folder("arduino") / "library.properties").read_text(encoding="ascii").splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def test_the_properties_are_those_of_the_specification(first: Package, second: Package) -> None:
    for package in (first, second):
        found = properties(package)
        required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"}
        assert set(found) == {*required, "architectures", "includes"}
        assert all(value.strip() == value and value for value in found.values())
        assert found["name"] == package.name
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}", found["name"])
        assert found["version"] == version.VERSION
        assert found["author"] == found["maintainer"] == version.AUTHOR
        assert found["url"] == version.HOMEPAGE
        assert found["category"] in CATEGORIES
        assert found["architectures"] == "*"
        assert (package.folder("arduino") / "src" / found["includes"]).is_file()
    assert "3 binary neural networks" in properties(second)["sentence"]


def test_the_sketch_bears_its_folder_s_name(first: Package) -> None:
    assert [p.as_posix() for p in sorted(first.folder("arduino").glob("examples/*/*.ino"))] == [
        (first.folder("arduino") / "examples" / "classify" / "classify.ino").as_posix()
    ]


def test_keywords_are_the_header_s(first: Package, second: Package) -> None:
    for package in (first, second):
        folder = package.folder("arduino")
        words = dict(line.split("\t") for line in (folder / "keywords.txt").read_text().splitlines())
        header = (folder / "src" / f"{package.name}.h").read_text()
        functions = set(re.findall(rf"^int ({package.name}_\w+)\(", header, re.MULTILINE))
        types = set(re.findall(rf"^}} ({package.name}_\w+);", header, re.MULTILINE))
        assert {word for word, kind in words.items() if kind == "KEYWORD2"} == functions
        assert {word for word, kind in words.items() if kind == "KEYWORD1"} == types


@pytest.mark.needs("c++", "cc")
@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
def test_the_sketch_runs_on_a_stand_in_of_the_core(kind: str, tmp_path: Path) -> None:
    package = export_package(tmp_path / "out", "net", kind, members="2")
    folder = package.folder("arduino")
    (tmp_path / "Arduino.h").write_text(ARDUINO_H)
    sketch = (folder / "examples" / "classify" / "classify.ino").read_text()
    main = tmp_path / "sketch.cpp"
    main.write_text(f"#include <Arduino.h>\n{sketch}\nint main() {{ setup(); for (;;) loop(); }}\n")
    objects = []
    for source in sorted((folder / "src").glob("*.c")):
        objects.append(tmp_path / f"{source.stem}.o")
        run(["cc", "-c", source, "-o", objects[-1]])
    includes = [f"-I{tmp_path}", f"-I{folder / 'src'}", f"-I{folder / 'examples' / 'classify'}"]
    run(["c++", "-std=c++11", *STRICT, *includes, main, *objects, "-o", tmp_path / "sketch"])
    printed = run([tmp_path / "sketch"])
    check_lines(printed, package)
    assert printed.splitlines()[2:] == ["time: 9 us"]
