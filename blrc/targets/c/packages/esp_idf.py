"""Write an ESP-IDF component with an example project."""

from __future__ import annotations

from blrc.targets.c.packages.example import CALL, OPENING, reporting
from blrc.targets.c.packages.library import Library, lines
from blrc.targets.publication import yaml

_COMPONENT = """\
version: "@package_version@"
description: "@description@"
@optional@dependencies:
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

include($ENV{IDF_PATH}/tools/cmake/project.cmake)
project(@name@_classify)
"""

# From the folder of main to that of the component.
_MAIN_COMPONENT = """\
dependencies:
  "@name@":
    version: "*"
    override_path: "../../../"
"""

_MAIN_CMAKE = """\
idf_component_register(SRCS main.c INCLUDE_DIRS . PRIV_REQUIRES @name@ esp_timer)
"""

_MAIN = f"""\
/* {OPENING} time it took. */
#include <stdint.h>
#include <stdio.h>

#include "esp_timer.h"

#include "@name@.h"
#include "@name@_image.h"

{reporting("printf")}
void app_main(void)
{{
    const int64_t start = esp_timer_get_time();
    const int label = {CALL};
    const int64_t spent = esp_timer_get_time() - start;

    report(label, (unsigned long)spent);
}}
"""

_HOW = """\
Copy this folder into `components` of your project, or name it in the `idf_component.yml` of a component that uses it
(`override_path`, as in `examples/classify/main`); the component's CMakeLists.txt has `REQUIRES @name@`.
`examples/classify` is a complete project:

    idf.py -C examples/classify set-target esp32c3 flash monitor
"""


def _optional(library: Library) -> str:
    """Return the lines for the optional fields of the manifest whose values are known."""
    known = library.publication
    fields = (("url", known.url), ("license", known.license))
    found = [f"{word}: {yaml(value)}\n" for word, value in fields if value is not None]
    if known.author is not None:
        found.append(f"maintainers:\n  - {yaml(known.author)}\n")
    return "".join(found)


def files(library: Library) -> dict[str, str]:
    """Return the package's files by path."""
    sources = lines((f"src/{file}" for file in library.sources), "    ")
    return {
        "idf_component.yml": library.fill(_COMPONENT, optional=_optional(library)),
        "CMakeLists.txt": library.fill(_CMAKE, sources=sources),
        "examples/classify/CMakeLists.txt": library.fill(_EXAMPLE_CMAKE),
        "examples/classify/main/CMakeLists.txt": library.fill(_MAIN_CMAKE),
        "examples/classify/main/idf_component.yml": library.fill(_MAIN_COMPONENT),
        "examples/classify/main/main.c": library.fill(_MAIN),
        f"examples/classify/main/{library.name}_image.h": library.image,
        **library.placed(_HOW),
    }
