"""The Arduino library: its properties, and its sketch."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from by_night import first
from package_exports import Package, check_lines, export_package, run

import blrc
from blrc.frontend import checkpoint
from blrc.net.encoding import device_layout
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.publication import NO_VERSION, UNSPECIFIED

MNIST = Path(__file__).parents[4] / "examples" / "mnist" / "mnist.pt"

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
        required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category"}
        assert set(found) == {*required, "architectures", "includes"}
        assert all(value.strip() == value and value for value in found.values())
        assert found["name"] == package.name
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}", found["name"])
        assert found["version"] == NO_VERSION
        assert found["author"] == found["maintainer"] == UNSPECIFIED  # required, and not known
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
@pytest.mark.parametrize("kind", first(1, ["bits", "uint8", "int8"]))
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


HARDWARE = ("/usr/share/arduino-builder", "/usr/share/arduino/hardware")  # where Debian has the core for AVR
BOARD = "arduino:avr:mega:cpu=atmega2560"

# Two libraries in one sketch: each model's answer, and its self-test.
BOTH = """
#include <first.h>
#include <second.h>
#include "first_image.h"
#include "second_image.h"

static uint32_t arena[(FIRST_ARENA_SIZE + SECOND_ARENA_SIZE + 3) / 4];
static first_ensemble first_members;
static second_ensemble second_members;

void setup()
{
    first_answer one;
    second_answer two;

    Serial.begin(115200);
    first_predict(first_image, arena, &first_members, 0, &one);
    second_predict(second_image, arena, &second_members, 0, &two);
    Serial.println(one.label);
    Serial.println(one.mean);
    Serial.println(two.label);
    Serial.println(two.mean);
    Serial.println(two.variance);
    Serial.println(first_selftest(arena));
    Serial.println(second_selftest(arena));
}

void loop()
{
}
"""

Upload = Callable[[Path, int, Sequence[Package]], list[str]]


@pytest.fixture(scope="module")
def upload(tmp_path_factory: pytest.TempPathFactory) -> Upload:
    """Builds a sketch for the Mega with libraries in the sketchbook, and gives its first lines in simavr."""
    work = tmp_path_factory.mktemp("arduino")
    (work / "core").mkdir()  # what all sketches are built on is compiled once
    # Newer compilers than the core was written for do not define DECIMAL_DIG.
    options = ["-prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=10", "-warnings", "all", "-build-cache", work / "core"]
    for folder in HARDWARE:
        options += ["-hardware", folder]

    def build_and_run(sketch: Path, count: int, packages: Sequence[Package]) -> list[str]:
        built = work / sketch.stem
        built.mkdir()
        for package in packages:
            shutil.copytree(package.folder("arduino"), work / "libraries" / package.name)
        places = ["-tools", "/usr/bin", "-libraries", work / "libraries", "-build-path", built]
        run(["arduino-builder", "-compile", *options, *places, "-fqbn", BOARD, sketch])
        return serial_lines(built / f"{sketch.name}.elf", count)

    return build_and_run


def serial_lines(firmware: Path, count: int) -> list[str]:
    """The first lines that a Mega prints. simavr goes on for ever, colours a line and shows its end as points."""
    command = ["simavr", "-m", "atmega2560", "-f", "16000000", firmware]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as simavr:
        watch = threading.Timer(120, simavr.kill)
        watch.start()
        assert simavr.stderr is not None
        found: list[str] = []
        for line in simavr.stderr:
            if printed := re.search(r"\x1b\[32m(.*)\.$", line.rstrip("\n")):
                found.append(printed[1].rstrip("."))
            if len(found) == count:
                break
        watch.cancel()
        simavr.kill()
    return found


@pytest.mark.nightly
@pytest.mark.needs("arduino-builder", "avr-gcc", "simavr")
def test_the_shipped_network_s_example_runs_on_a_mega(upload: Upload, tmp_path: Path) -> None:
    """Its tables are far beyond the 64 KB of an AVR's pointers; Arduino links with optimisation over all files."""
    source = checkpoint.load(MNIST)
    exported = blrc.export(source, folder=tmp_path / "out", targets="c", name="mnist", packages="arduino")
    package = Package(exported, device_layout(source.samples()[:1]))
    sketch = shutil.copytree(package.folder("arduino") / "examples" / "classify", tmp_path / "classify")
    check_lines("\n".join(upload(sketch / "classify.ino", 3, [package])), package)


@pytest.mark.nightly
@pytest.mark.needs("arduino-builder", "avr-gcc", "simavr")
def test_two_libraries_give_their_own_answers_in_one_sketch(
    first: Package, second: Package, upload: Upload, tmp_path: Path
) -> None:
    sketch = tmp_path / "both"
    sketch.mkdir()
    (sketch / "both.ino").write_text(BOTH)
    for package in (first, second):
        shutil.copy(package.folder("arduino") / "examples" / "classify" / f"{package.name}_image.h", sketch)
    one, two = first.answer(), second.answer()
    numbers = [one.label, one.mean, two.label, two.mean, two.variance]
    assert upload(sketch / "both.ino", 7, [first, second]) == [*(str(int(number[0])) for number in numbers), "0", "0"]
