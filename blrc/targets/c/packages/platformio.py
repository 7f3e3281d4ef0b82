"""Write a PlatformIO library for any platform and framework, with an example for Arduino boards and for the host."""

from __future__ import annotations

import json

from blrc.targets.c.packages.example import AS_RECORDED, CALL, OPENING, reporting
from blrc.targets.c.packages.library import Library

_INI = """\
; pio run -d . -t upload && pio device monitor     on the board
; pio run -d . -e native -t exec                   on this machine
[platformio]
default_envs = megaatmega2560

[env]
lib_deps = @name@=symlink://../..

[env:megaatmega2560]
platform = atmelavr
board = megaatmega2560
framework = arduino
monitor_speed = 115200

[env:native]
platform = native
"""

_MAIN = f"""\
/* {OPENING} time it took (at 115200 baud). */
#include <stdarg.h>
#include <stdio.h>

#ifdef ARDUINO
#include <Arduino.h>
#else
#include <time.h>
#endif

#include <@name@.h>
#include "@name@_image.h"

static void say(const char *format, ...)
{{
    char line[96];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
#ifdef ARDUINO
    Serial.print(line);
#else
    fputs(line, stdout);
#endif
}}

static unsigned long now()
{{
#ifdef ARDUINO
    return micros();
#else
    return static_cast<unsigned long>(static_cast<uint64_t>(clock()) * 1000000 / static_cast<uint64_t>(CLOCKS_PER_SEC));
#endif
}}

{reporting("say")}
static int classify()
{{
    const unsigned long start = now();
    const int label = {CALL};
    const unsigned long spent = now() - start;

    report(label, spent);
    return {AS_RECORDED} ? 0 : 1;
}}

#ifdef ARDUINO
void setup()
{{
    Serial.begin(115200);
}}

void loop()
{{
    classify();
    delay(5000);
}}
#else
int main()
{{
    return classify();
}}
#endif
"""

_HOW = """\
In `platformio.ini` of your project: `lib_deps = @name@=symlink:///path/to/this/folder`, or a copy of this folder in the
project's `lib`. `examples/classify` is a complete project, for an Arduino board and for the host:

    pio run -d examples/classify -e native -t exec
"""


def files(library: Library) -> dict[str, str]:
    """Return the package's files by path."""
    known = library.publication
    optional = {
        "authors": None if known.author is None else [{"name": known.author, "maintainer": True}],
        "homepage": known.url,
        "license": known.license,  # pio checks it with a list from the network
    }
    manifest = {
        "name": library.name,
        "version": known.package_version,
        "description": library.description,
        "keywords": ["binary neural network", "machine learning", "tinyml"],
        **{word: value for word, value in optional.items() if value is not None},
        "headers": f"{library.name}.h",
        "frameworks": "*",
        "platforms": "*",
    }
    return {
        "library.json": json.dumps(manifest, indent=2) + "\n",
        "examples/classify/platformio.ini": library.fill(_INI),
        "examples/classify/src/main.cpp": library.fill(_MAIN),
        f"examples/classify/src/{library.name}_image.h": library.image,
        **library.placed(_HOW),
    }
