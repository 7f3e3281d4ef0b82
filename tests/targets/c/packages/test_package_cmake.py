"""The CMake package: built, installed, found and linked, as its users do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from package_exports import Package, check_lines, export_package, run

pytestmark = pytest.mark.needs("cmake", "cc", "make")

# Two models in one program: every symbol of either, and both answers.
BOTH = """
#include <stdio.h>
#include "first.h"
#include "second.h"
#include "first_image.h"
#include "second_image.h"

static uint32_t first_arena[(FIRST_ARENA_SIZE + 3) / 4], second_arena[(SECOND_ARENA_SIZE + 3) / 4];

int main(void)
{
    first_ensemble first_members;
    second_ensemble second_members;
    first_answer one;
    second_answer two;

    first_predict(first_image, first_arena, &first_members, 0, &one);
    second_predict(second_image, second_arena, &second_members, 0, &two);
    printf("%d of %d\\n%d of %d\\n", (int)one.label, FIRST_CLASSES, (int)two.label, SECOND_CLASSES);
    printf("%d %d\\n", first_selftest(first_arena), second_selftest(second_arena));
    return 0;
}
"""


def build(source: Path, where: Path, *options: str) -> Path:
    run(["cmake", "-S", source, "-B", where, *options])
    run(["cmake", "--build", where])
    return where


def project(folder: Path, *lines: str, main: str = "") -> Path:
    folder.mkdir()
    top = ("cmake_minimum_required(VERSION 3.15)", "project(consumer LANGUAGES C)")
    (folder / "CMakeLists.txt").write_text("\n".join((*top, *lines)) + "\n")
    (folder / "main.c").write_text(main)
    return folder


def images(*packages: Package) -> str:
    return " ".join(f'"{p.folder("cmake") / "examples" / "classify"}"' for p in packages)


def expected_labels(*packages: Package) -> list[str]:
    found = []
    for package in packages:
        label = package.expected()[0].split()[1]
        found.append(f"{label} of {package.exported.program.classes}")
    return found


@pytest.fixture(scope="module")
def prefix(first: Package, second: Package, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both are installed."""
    where = tmp_path_factory.mktemp("cmake")
    for package in (first, second):
        built = build(package.folder("cmake"), where / package.name)
        run(["cmake", "--install", built, "--prefix", where / "prefix"])
    return where / "prefix"


def test_two_installed_models_are_found_and_linked_into_one_program(
    first: Package, second: Package, prefix: Path, tmp_path: Path
) -> None:
    consumer = project(
        tmp_path / "consumer",
        "find_package(first 0.0.0 REQUIRED)",
        "find_package(second REQUIRED)",
        "add_executable(both main.c)",
        f"target_include_directories(both PRIVATE {images(first, second)})",
        "target_link_libraries(both PRIVATE first::first second::second)",
        main=BOTH,
    )
    built = build(consumer, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert run([built / "both"]).splitlines() == [*expected_labels(first, second), "0 0"]
    installed = sorted(p.relative_to(prefix).as_posix() for p in prefix.rglob("*.[ah]"))
    assert [p for p in installed if p.endswith(".h")] == ["include/first/first.h", "include/second/second.h"]


@pytest.mark.nightly
def test_both_are_subdirectories(first: Package, second: Package, tmp_path: Path) -> None:
    consumer = project(
        tmp_path / "consumer",
        *(f'add_subdirectory("{p.folder("cmake")}" {p.name})' for p in (first, second)),
        "add_executable(both main.c)",
        f"target_include_directories(both PRIVATE {images(first, second)})",
        "target_link_libraries(both PRIVATE first::first second::second)",
        main=BOTH,
    )
    built = build(consumer, tmp_path / "build")
    assert run([built / "both"]).splitlines() == [*expected_labels(first, second), "0 0"]


@pytest.mark.nightly
def test_the_example_runs_from_its_folder_and_against_an_installed_library(
    first: Package, second: Package, prefix: Path, tmp_path: Path
) -> None:
    for package, options in ((first, []), (second, [f"-DCMAKE_PREFIX_PATH={prefix}"])):
        source = package.folder("cmake") / "examples" / "classify"
        built = build(source, tmp_path / package.name, *options)
        check_lines(run([built / "classify"]), package)
        assert (built / package.name).is_dir() == (not options)  # its own build of the library


def test_another_version_is_refused(prefix: Path, tmp_path: Path) -> None:
    consumer = project(tmp_path / "consumer", "find_package(first 0.1.0 REQUIRED)")
    done = subprocess.run(
        ["cmake", "-S", consumer, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "version: 0.0.0" in done.stderr


@pytest.mark.nightly
def test_a_model_may_have_a_name_that_cmake_keeps_to_itself(tmp_path: Path) -> None:
    package = export_package(tmp_path / "out", "test")
    consumer = project(
        tmp_path / "consumer",
        "enable_testing()",
        f'add_subdirectory("{package.folder("cmake")}" library)',
        "add_executable(classify main.c)",
        f"target_include_directories(classify PRIVATE {images(package)})",
        "target_link_libraries(classify PRIVATE test::test)",
        main=(package.folder("cmake") / "examples" / "classify" / "main.c").read_text(),
    )
    check_lines(run([build(consumer, tmp_path / "build") / "classify"]), package)


def test_a_wrong_answer_is_seen(first: Package, tmp_path: Path) -> None:
    """The example's exit status says whether the label is the recorded one."""
    header = (first.folder("cmake") / "examples" / "classify" / "first_image.h").read_text()
    label = first.expected()[0].split()[1]
    define = f"#define FIRST_IMAGE_LABEL {label} "
    assert header.count(define) == 1
    (tmp_path / "first_image.h").write_text(header.replace(define, f"#define FIRST_IMAGE_LABEL {int(label) + 1} "))
    main = first.folder("cmake") / "examples" / "classify" / "main.c"
    (tmp_path / "main.c").write_text(main.read_text())
    sources = sorted((first.folder("cmake") / "src").glob("*.c"))
    include = first.folder("cmake") / "include"
    run(["cc", f"-I{include}", "-o", tmp_path / "wrong", tmp_path / "main.c", *sources])
    done = subprocess.run([tmp_path / "wrong"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == f"label: {label} (NOT what was recorded)"
