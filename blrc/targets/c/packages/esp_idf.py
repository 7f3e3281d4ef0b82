"""An ESP-IDF component, with an example project."""

from __future__ import annotations

from blrc.targets.c.packages.example import reporting
from blrc.targets.c.packages.library import Library, lines
from blrc.version import AUTHOR, HOMEPAGE, LICENSE

_COMPONENT = f"""\
version: "@version@"
description: "@description@"
url: "{HOMEPAGE}"
license: "{LICENSE}"
maintainers:
  - "{AUTHOR}"
dependencies:
  idf: ">=4.4"
"""

_CMAKE = """\
# Made by blrc @version@.
idf_component_register(
  SRCS
    @sources@
  INCLUDE_DIRS include
  PRIV_INCLUDE_DIRS src
)
"""

_EXAMPLE_CMAKE = """\
# idf.py set-target esp32c3 && idf.py flash monitor
cmake_minimum_required(VERSION 3.16)

set(EXTRA_COMPONENT_DIRS ${CMAKE_CURRENT_LIST_DIR}/../..)
include($ENV{IDF_PATH}/tools/cmake/project.cmake)
project(@name@_classify)
"""

_MAIN_CMAKE = """\
idf_component_register(SRCS main.c INCLUDE_DIRS . PRIV_REQUIRES @name@ esp_timer)
"""

_MAIN = f"""\
/* Classifies a recorded image with @name@: its label, how certain it is, and the time it took. */
#include <stdint.h>
#include <stdio.h>

#include "esp_timer.h"

#include "@name@.h"
#include "@name@_image.h"

{reporting("printf")}
void app_main(void)
{{
    const int64_t start = esp_timer_get_time();
    const int label = name_predict(name_image, arena, &members, 0, &answer);
    const int64_t spent = esp_timer_get_time() - start;

    report(label, (unsigned long)spent);
}}
"""

_HOW = """\
Copy this folder into `components` of your project, or name it in `EXTRA_COMPONENT_DIRS`; components that use it have
`REQUIRES @name@`. `examples/classify` is a complete project:

    idf.py -C examples/classify set-target esp32c3 flash monitor
"""


def files(library: Library) -> dict[str, str]:
    """The package's files by path."""
    sources = lines((f"src/{file}" for file in library.sources), "    ")
    return {
        "idf_component.yml": library.fill(_COMPONENT),
        "CMakeLists.txt": library.fill(_CMAKE).replace("@sources@", sources),
        "examples/classify/CMakeLists.txt": library.fill(_EXAMPLE_CMAKE),
        "examples/classify/main/CMakeLists.txt": library.fill(_MAIN_CMAKE),
        "examples/classify/main/main.c": library.fill(_MAIN),
        f"examples/classify/main/{library.name}_image.h": library.image,
        **library.placed(_HOW),
    }
