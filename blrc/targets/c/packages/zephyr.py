"""Write a Zephyr module with a sample, switched on by ``CONFIG_BLRC_<NAME>``."""

from __future__ import annotations

from blrc.targets.c.packages.example import CALL, OPENING, reporting
from blrc.targets.c.packages.library import Library, lines

# Names are quoted everywhere: in YAML a model called no, or on, would be a boolean. The option and the library have a
# prefix: Zephyr has a CONFIG_NET and libraries of its own.
_MODULE = """\
name: "@name@"
build:
  cmake: .
  kconfig: Kconfig
samples:
  - samples
"""

_CMAKE = """\
# Made by blrc @version@.
if(CONFIG_BLRC_@NAME@)
  zephyr_include_directories(include)
  zephyr_library_named(blrc_@name@)
  zephyr_library_sources(
    @sources@
  )
endif()
"""

_KCONFIG = """\
# Made by blrc @version@.

config BLRC_@NAME@
\tbool "@name@, a binary neural network"
\thelp
\t  @description@.
\t  Include @name@.h and call @name@_predict().
"""

_SAMPLE_CMAKE = """\
# west build -b BOARD .
cmake_minimum_required(VERSION 3.20.0)

list(APPEND EXTRA_ZEPHYR_MODULES ${CMAKE_CURRENT_SOURCE_DIR}/../..)
find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})
project(@name@_classify)

target_sources(app PRIVATE src/main.c)
"""

_PRJ_CONF = """\
CONFIG_BLRC_@NAME@=y
CONFIG_MAIN_STACK_SIZE=4096
"""

_SAMPLE = """\
sample:
  name: "@name@ classify"
  description: "Classifies a recorded image and prints LABELS(label, certainty)LABELSVALUES(values)VALUES and time"
tests:
  blrc.@name@.classify:
    tags: blrc
    harness: console
    harness_config:
      type: multi_line
      ordered: true
      regex:
LABELS(        - 'label: [0-9]+ \\(as recorded\\)'
        - 'certainty: .*'
)LABELSVALUES(        - 'value: -?[0-9]+ \\(as recorded\\)'
)VALUES        - 'time: .*'
"""

_MAIN = f"""\
/* {OPENING} time it took. */
#include <stdint.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "@name@.h"
#include "@name@_image.h"

{reporting("printk")}
int main(void)
{{
    const uint32_t start = k_cycle_get_32();
    const int label = {CALL};
    const uint32_t cycles = k_cycle_get_32() - start;

    report(label, (unsigned long)k_cyc_to_us_floor32(cycles));
    return 0;
}}
"""

_HOW = """\
Give this folder to your application's build, `west build ... -- -DEXTRA_ZEPHYR_MODULES=/path/to/this/folder` (or list
it in your manifest), and switch it on in `prj.conf`: `CONFIG_BLRC_@NAME@=y`. `samples/classify` is a complete
application:

    west build -b qemu_cortex_m3 samples/classify -t run
"""


def files(library: Library) -> dict[str, str]:
    """Return the package's files by path."""
    sources = lines((f"src/{file}" for file in library.sources), "    ")
    return {
        "zephyr/module.yml": library.fill(_MODULE),
        "CMakeLists.txt": library.fill(_CMAKE, sources=sources),
        "Kconfig": library.fill(_KCONFIG),
        "samples/classify/CMakeLists.txt": library.fill(_SAMPLE_CMAKE),
        "samples/classify/prj.conf": library.fill(_PRJ_CONF),
        "samples/classify/sample.yaml": library.fill(_SAMPLE),
        "samples/classify/src/main.c": library.fill(_MAIN),
        f"samples/classify/src/{library.name}_image.h": library.image,
        **library.placed(_HOW),
    }
