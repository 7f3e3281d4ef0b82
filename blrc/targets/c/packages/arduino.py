"""Write an Arduino library (format 1.5, revision 2.2), a folder for the sketchbook's ``libraries``."""

from __future__ import annotations

from blrc.targets.c.packages.example import CALL, OPENING, reporting
from blrc.targets.c.packages.library import Library
from blrc.targets.publication import UNSPECIFIED

# An author and a maintainer are required. Values are what stands behind the first "=", to the end of the line.
_PROPERTIES = """\
name=@name@
version=@package_version@
author=@author@
maintainer=@author@
sentence=@description@.
paragraph=Label and certainty of one input, without allocation or floats. Program @digest@.
category=Data Processing
@optional@architectures=*
includes=@name@.h
"""

_FUNCTIONS = ("observe", "init", "add", "result", "is_final", "predict", "selftest")
_TYPES = ("ensemble", "answer")

_SKETCH = f"""\
/* {OPENING} time it took (at 115200 baud). */
#include <stdarg.h>
#include <stdio.h>

#include <@name@.h>
#include "@name@_image.h"

static void say(const char *format, ...)
{{
    char line[96];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    Serial.print(line);
}}

{reporting("say")}
void setup()
{{
    Serial.begin(115200);
    while (!Serial) {{
    }}
}}

void loop()
{{
    const unsigned long start = micros();
    const int label = {CALL};
    const unsigned long spent = micros() - start;

    report(label, spent);
    delay(5000);
}}
"""

_HOW = """\
Copy this folder into `libraries` of your sketchbook, or zip it and take it in with Sketch, Include Library, Add .ZIP
Library. Then File, Examples, @name@, classify is a complete sketch.
"""


def files(library: Library) -> dict[str, str]:
    """Return the package's files by path."""
    program = library.symbols.layout.program
    single = "values" if program.values else "classify"
    functions = [*_FUNCTIONS, *([single] if len(program.members) == 1 else []), *(["label"] if program.heads else [])]
    of_labels = {"is_final", "answer", "label"} if program.values else set()
    functions = [word for word in functions if word not in of_labels]
    keywords = [f"{library.name}_{word}\tKEYWORD1" for word in _TYPES if word not in of_labels]
    keywords += [f"{library.name}_{word}\tKEYWORD2" for word in sorted(functions)]
    known = library.publication
    optional = {"url": known.url, "license": known.license}
    properties = library.fill(
        _PROPERTIES,
        author=known.author or UNSPECIFIED,
        optional="".join(f"{word}={value}\n" for word, value in optional.items() if value is not None),
    )
    return {
        "library.properties": properties,
        "keywords.txt": "\n".join(keywords) + "\n",
        "examples/classify/classify.ino": library.fill(_SKETCH),
        f"examples/classify/{library.name}_image.h": library.image,
        **library.placed(_HOW, include="src"),
    }
