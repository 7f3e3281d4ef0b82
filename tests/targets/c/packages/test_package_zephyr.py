"""The Zephyr module. There is no Zephyr here: its YAML and Kconfig are read by their own readers, and its CMake files
run against stand-ins for the few functions that they call."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from package_exports import Package, check_lines, export_package, read_yaml, run

# Prints the values of all options after prj.conf, and the reader's warnings.
READ_KCONFIG = """
import json, sys
import kconfiglib
kconf = kconfiglib.Kconfig(sys.argv[1], warn_to_stderr=False)
kconf.load_config(sys.argv[2])
options = {s.name: [kconfiglib.TYPE_TO_STR[s.type], s.str_value, s.nodes[0].help] for s in kconf.unique_defined_syms}
print(json.dumps([options, kconf.warnings]))
"""

# What find_package(Zephyr) does, as far as a module and a sample can see: it makes the target app, reads prj.conf and
# adds the modules; functions collect sources into libraries that are linked.
STAND_IN = """
enable_language(C)
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/prj.conf options REGEX "=")
foreach(option ${options})
  string(REGEX MATCH "^([A-Z0-9_]+)=(.*)$" all ${option})
  set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()
add_executable(app)
add_library(zephyr_interface INTERFACE)
target_include_directories(zephyr_interface INTERFACE ${CMAKE_CURRENT_LIST_DIR}/include)
target_link_libraries(app PRIVATE zephyr_interface)
function(zephyr_include_directories)
  foreach(folder ${ARGN})
    target_include_directories(zephyr_interface INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  endforeach()
endfunction()
function(zephyr_library_named library)
  add_library(${library} STATIC)
  target_link_libraries(${library} PRIVATE zephyr_interface)
  target_link_libraries(app PRIVATE ${library})
  set(CURRENT ${library} PARENT_SCOPE)
endfunction()
function(zephyr_library_sources)
  target_sources(${CURRENT} PRIVATE ${ARGN})
endfunction()
foreach(module ${EXTRA_ZEPHYR_MODULES})
  add_subdirectory(${module} modules/${module})
endforeach()
"""

KERNEL_H = """
#include <stdint.h>
static inline uint32_t k_cycle_get_32(void) { static uint32_t now; return now += 1500; }
static inline uint32_t k_cyc_to_us_floor32(uint32_t cycles) { return cycles / 1000; }
"""


def test_the_module_s_yaml_says_where_its_parts_are(packagers: Path, first: Package) -> None:
    folder = first.folder("zephyr")
    module = read_yaml(packagers, folder / "zephyr" / "module.yml")
    assert module == {"name": "first", "build": {"cmake": ".", "kconfig": "Kconfig"}, "samples": ["samples"]}
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert (folder / module["build"]["kconfig"]).is_file()
    sample = read_yaml(packagers, folder / "samples" / "classify" / "sample.yaml")
    assert set(sample) == {"sample", "tests"}
    assert set(sample["sample"]) == {"name", "description"}
    (test,) = sample["tests"].values()
    assert list(sample["tests"]) == ["blrc.first.classify"]
    assert test["harness"] == "console"


def test_the_sample_s_expectation_matches_what_it_prints(packagers: Path, first: Package) -> None:
    sample = read_yaml(packagers, first.folder("zephyr") / "samples" / "classify" / "sample.yaml")
    wanted = sample["tests"]["blrc.first.classify"]["harness_config"]
    assert (wanted["type"], wanted["ordered"]) == ("multi_line", True)
    printed = [*first.expected(), "time: 12 us"]
    assert all(re.search(regex, line) for regex, line in zip(wanted["regex"], printed, strict=True))
    assert not re.search(wanted["regex"][0], printed[0].replace("as recorded", "NOT what was recorded"))


# To YAML the first two would be booleans; Zephyr itself has a CONFIG_NET; the last holds a word of the templates.
@pytest.mark.parametrize("name", ["no", "on", "net", "my_name_x"])
def test_a_model_may_have_any_name(name: str, packagers: Path, tmp_path: Path) -> None:
    folder = export_package(tmp_path / "out", name).folder("zephyr")
    assert read_yaml(packagers, folder / "zephyr" / "module.yml")["name"] == name
    sample = read_yaml(packagers, folder / "samples" / "classify" / "sample.yaml")
    assert sample["sample"]["name"] == f"{name} classify"
    assert options(packagers, folder, tmp_path)[0][f"BLRC_{name.upper()}"][:2] == ["bool", "y"]


def options(packagers: Path, folder: Path, where: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Options by name (type, value, help) and the warnings, of the sample's configuration."""
    top = where / "Kconfig"  # as Zephyr's own, which defines the size of the stack
    top.write_text(f'config MAIN_STACK_SIZE\n\tint\n\tprompt "stack"\n\tdefault 1024\nsource "{folder / "Kconfig"}"\n')
    script = [packagers / "python", "-c", READ_KCONFIG]
    found, warnings = json.loads(run([*script, top, folder / "samples" / "classify" / "prj.conf"]))
    return found, warnings


def test_the_option_is_off_until_a_configuration_asks_for_it(packagers: Path, first: Package, tmp_path: Path) -> None:
    found, warnings = options(packagers, first.folder("zephyr"), tmp_path)
    assert warnings == []
    assert set(found) == {"MAIN_STACK_SIZE", "BLRC_FIRST"}
    assert found["BLRC_FIRST"][:2] == ["bool", "y"]
    assert "12 x 12 x 1 uint8 to 5 classes" in found["BLRC_FIRST"][2]
    assert found["MAIN_STACK_SIZE"][:2] == ["int", "4096"]
    (tmp_path / "prj.conf").write_text("")
    script = [packagers / "python", "-c", READ_KCONFIG]
    off, _ = json.loads(run([*script, first.folder("zephyr") / "Kconfig", tmp_path / "prj.conf"]))
    assert off["BLRC_FIRST"][1] == "n"


@pytest.mark.needs("cmake", "cc", "make")
def test_the_sample_builds_from_its_cmake_files(second: Package, tmp_path: Path) -> None:
    base = tmp_path / "zephyr"
    (base / "include" / "zephyr" / "sys").mkdir(parents=True)
    (base / "ZephyrConfig.cmake").write_text(STAND_IN)
    (base / "include" / "zephyr" / "kernel.h").write_text(KERNEL_H)
    (base / "include" / "zephyr" / "sys" / "printk.h").write_text("#include <stdio.h>\n#define printk printf\n")
    environment = {**os.environ, "ZEPHYR_BASE": str(base)}
    source = second.folder("zephyr") / "samples" / "classify"
    run(["cmake", "-S", source, "-B", tmp_path / "b", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror"], env=environment)
    run(["cmake", "--build", tmp_path / "b"])
    printed = run([tmp_path / "b" / "app"])
    check_lines(printed, second)
    assert printed.splitlines()[2] == "time: 1 us"
