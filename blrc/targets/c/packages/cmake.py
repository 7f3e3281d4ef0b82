"""Write a CMake project with the target ``<name>::<name>``.

``find_package(<name>)`` after an install, or ``add_subdirectory``, gives that target.
"""

from __future__ import annotations

from blrc.targets.c.packages.example import AS_RECORDED, CALL, OPENING, reporting
from blrc.targets.c.packages.library import Library, lines
from blrc.targets.publication import cmake

# The target inside is blrc_<name>: a model may be called test, all or install, which CMake keeps to itself.
_CMAKE = """\
# Made by blrc @version@. Install it and find_package(@name@), or add_subdirectory it; link @name@::@name@.
cmake_minimum_required(VERSION 3.15)
project(@name@ VERSION @package_version@ DESCRIPTION "@description@" @homepage@LANGUAGES C)

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(blrc_@name@ STATIC
  @sources@
)
add_library(@name@::@name@ ALIAS blrc_@name@)
set_target_properties(blrc_@name@ PROPERTIES
  EXPORT_NAME @name@
  C_STANDARD 99
  POSITION_INDEPENDENT_CODE ON
)
target_include_directories(blrc_@name@ PUBLIC
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/@name@>
)

install(TARGETS blrc_@name@ EXPORT @name@Targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/@name@.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/@name@)
install(EXPORT @name@Targets
  FILE @name@Config.cmake
  NAMESPACE @name@::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/@name@
)
# A network of another version may have other inputs and outputs.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/@name@ConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/@name@ConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/@name@
)
"""

_EXAMPLE_CMAKE = """\
# cmake -S . -B build && cmake --build build && build/classify
cmake_minimum_required(VERSION 3.15)
project(@name@_classify LANGUAGES C)

find_package(@name@ QUIET)
if(NOT @name@_FOUND) # not installed: the folder that this example lies in
  add_subdirectory(../.. @name@)
endif()

add_executable(classify main.c)
target_link_libraries(classify PRIVATE @name@::@name@)
"""

HOST_MAIN = f"""\
/* {OPENING} processor time it took. */
#include <stdio.h>
#include <time.h>

#include "@name@.h"
#include "@name@_image.h"

{reporting("printf")}
int main(void)
{{
    const clock_t start = clock();
    const int label = {CALL};
    const uint64_t ticks = (uint64_t)(clock() - start);

    report(label, (unsigned long)(ticks * 1000000 / (uint64_t)CLOCKS_PER_SEC));
    return {AS_RECORDED} ? 0 : 1;
}}
"""

_HOW = """\
    cmake -S . -B build && cmake --build build && cmake --install build --prefix PREFIX

Then, in your project, `find_package(@name@)`; or `add_subdirectory` this folder without installing it. Either way link
`@name@::@name@`. `examples/classify` is a complete program:

    cmake -S examples/classify -B build/classify && cmake --build build/classify && build/classify/classify
"""


def files(library: Library) -> dict[str, str]:
    """Return the package's files by path."""
    sources = lines((f"src/{file}" for file in library.sources), "  ")
    url = library.publication.url
    homepage = "" if url is None else f"HOMEPAGE_URL {cmake(url)} "
    return {
        "CMakeLists.txt": library.fill(_CMAKE, sources=sources, homepage=homepage),
        "examples/classify/CMakeLists.txt": library.fill(_EXAMPLE_CMAKE),
        "examples/classify/main.c": library.fill(HOST_MAIN),
        f"examples/classify/{library.name}_image.h": library.image,
        **library.placed(_HOW),
    }
