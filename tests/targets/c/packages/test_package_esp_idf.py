"""The ESP-IDF component. There is no ESP-IDF here: its packer packs it, and its CMake files run against stand-ins for
the few functions that they call."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from package_exports import Package, check_lines, read_yaml, run, tree

from blrc.targets.publication import NO_VERSION

# project() builds the component that main's idf_component.yml names by its override_path, and main, each as a library
# with its own includes and those of what it requires, and links them behind app_main.
STAND_IN = """
macro(project name)
  _project(${name} LANGUAGES C)
  add_library(esp_timer INTERFACE)
  target_include_directories(esp_timer INTERFACE $ENV{IDF_PATH}/include)
  add_executable(app $ENV{IDF_PATH}/start.c)
  file(STRINGS main/idf_component.yml line REGEX "override_path: ")
  string(REGEX REPLACE ".*\\"(.*)\\"" "\\\\1" place "${line}")
  foreach(folder ${CMAKE_CURRENT_SOURCE_DIR}/main/${place} ${CMAKE_CURRENT_SOURCE_DIR}/main)
    get_filename_component(folder ${folder} ABSOLUTE)
    add_subdirectory(${folder} components/${folder})
  endforeach()
endmacro()
function(idf_component_register)
  cmake_parse_arguments(C "" "" "SRCS;INCLUDE_DIRS;PRIV_INCLUDE_DIRS;REQUIRES;PRIV_REQUIRES" ${ARGN})
  if(C_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "unknown: ${C_UNPARSED_ARGUMENTS}")
  endif()
  get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_library(${name} STATIC ${C_SRCS})
  target_include_directories(${name} PUBLIC ${C_INCLUDE_DIRS} PRIVATE ${C_PRIV_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC ${C_REQUIRES} PRIVATE ${C_PRIV_REQUIRES})
  target_link_libraries(app PRIVATE ${name})
endfunction()
"""


def test_the_manifest(packagers: Path, first: Package) -> None:
    manifest = read_yaml(packagers, first.folder("esp-idf") / "idf_component.yml")
    assert manifest == {
        "version": NO_VERSION,
        "description": "first: a binary neural network in integers, 12 x 12 x 1 uint8 to 5 classes",
        "dependencies": {"idf": ">=4.4"},
    }


def test_the_example_finds_its_component_by_override_path(packagers: Path, first: Package) -> None:
    """As ESP-IDF's own component manager reads the file."""
    example = first.folder("esp-idf") / "examples" / "classify"
    assert "EXTRA_COMPONENT_DIRS" not in (example / "CMakeLists.txt").read_text()
    script = (
        "import sys; from idf_component_tools.manager import ManifestManager\n"
        "manifest = ManifestManager(sys.argv[1], 'main').load()\n"
        "print(*((r.name, r.version_spec, r.override_path) for r in manifest.requirements), sep='\\n')"
    )
    said = run([packagers / "python", "-c", script, example / "main"])
    assert said.splitlines()[-1] == "('first', '*', '../../../')"
    assert (example / "main" / "../../../").resolve() == first.folder("esp-idf").resolve()


def test_the_packer_packs_every_file(packagers: Path, first: Package, second: Package, tmp_path: Path) -> None:
    for package in (first, second):
        command = [packagers / "compote", "component", "pack", "--name", package.name, "--dest-dir", tmp_path]
        # Its caches and settings belong to this test.
        environment = {**os.environ, "HOME": str(tmp_path), "IDF_TOOLS_PATH": str(tmp_path)}
        run([*command, "--project-dir", package.folder("esp-idf")], where=tmp_path, env=environment)
        with tarfile.open(tmp_path / f"{package.name}_{NO_VERSION}.tgz") as archive:
            packed = {
                entry.name.removeprefix("./"): archive.extractfile(entry).read()  # type: ignore[union-attr]
                for entry in archive.getmembers()
                if entry.isfile()
            }
        manifest = packed.pop("idf_component.yml")
        wanted = tree(package.folder("esp-idf"))
        assert b"version" in manifest and wanted.pop("idf_component.yml")
        extra = set(packed) - set(wanted)
        assert packed.keys() >= wanted.keys() and extra <= {"CHECKSUMS.json"}
        assert {path: packed[path] for path in wanted} == wanted


@pytest.mark.needs("cmake", "cc", "make")
def test_the_example_builds_from_its_cmake_files(first: Package, tmp_path: Path) -> None:
    idf = tmp_path / "idf"
    for folder in (idf / "tools" / "cmake", idf / "include"):
        folder.mkdir(parents=True)
    (idf / "tools" / "cmake" / "project.cmake").write_text(STAND_IN)
    (idf / "include" / "esp_timer.h").write_text(
        "#include <stdint.h>\nstatic inline int64_t esp_timer_get_time(void) { static int64_t now; return now += 7; }\n"
    )
    (idf / "start.c").write_text("void app_main(void);\nint main(void) { app_main(); return 0; }\n")
    environment = {**os.environ, "IDF_PATH": str(idf)}
    source = first.folder("esp-idf") / "examples" / "classify"
    run(["cmake", "-S", source, "-B", tmp_path / "b", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror"], env=environment)
    run(["cmake", "--build", tmp_path / "b"])
    printed = run([tmp_path / "b" / "app"])
    check_lines(printed, first)
    assert printed.splitlines()[2] == "time: 7 us"
