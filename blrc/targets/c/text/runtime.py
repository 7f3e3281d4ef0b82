"""Write the C runtime of an export: ``<name>_blrc.h`` and ``<name>_blrc.c``.

The source has the runtime's files that the network needs, each once, one behind the other. The header declares the
functions that are there, and no other. Files for hosts stay apart, since each defines the same macros anew for its
instruction set.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from blrc.errors import BlrcError
from blrc.targets.c.layout.layout import CPUS, Layout
from blrc.targets.c.layout.macros import DEFAULTS, runtime_macros
from blrc.targets.c.runtime_files import is_for_hosts, runtime_files
from blrc.targets.c.text import text
from blrc.targets.runtime_licence import LICENCE
from blrc.version import AUTHOR, LICENSE

HEADER, SOURCE, AVR = "blrc.h", "blrc.c", "blrc_flash_avr.h"
PART = "/* -------- {file} -------- */\n"
"""The line above each part of ``<name>_blrc.c``: the file that the part was."""

_INCLUDE = re.compile(r'^#include "(.+)"\n', re.MULTILINE)
_PROTOTYPE = re.compile(r"^\w[\w ]* \*?(blrc_\w+)\([^;{]*\);\n", re.MULTILINE)
_DEFINITION = re.compile(r"^(?!static\b)\w[\w ]* \*?(blrc_\w+)\([^;{]*\)\n\{", re.MULTILINE)


def runtime_sources(layout: Layout, name: str) -> dict[str, str]:
    """Return the files of the runtime for this layout, by name.

    Names of files and symbols carry the model's prefix, so that two models link into one firmware.

    Raises:
        BlrcError: the runtime does not define a macro, so the installation is damaged.
    """
    sources = {f"blrc_{source}.c" for step in layout.steps for source in step.record.sources(CPUS[layout.cpu])}
    ends = ("values",) if layout.program.values else ("argmax", "head")
    sources |= {f"blrc_{source}.c" for source in (*ends, "digest", *(["strips"] if layout.rows else []))}
    paths = runtime_files()
    texts = {file: path.read_text(encoding="ascii") for file, path in paths.items()}
    for macro, value in runtime_macros(layout).items():
        line, other = f"#define {macro} {DEFAULTS[macro]}", f"#define {macro} {value}"
        texts[HEADER], found = re.subn(f"^{line}$", other, texts[HEADER], flags=re.MULTILINE)
        if found != 1:
            raise BlrcError(f"the C runtime does not define {macro}: install blrc again")
    needed = _reached(texts, sources)
    apart = _reached(texts, {file for file in needed if is_for_hosts(paths[file])}) - {HEADER, AVR}
    inside = {file: texts[file] for file in needed - apart - {HEADER, AVR}}
    rest = {file: _of_language(file, texts[file]) for file in sorted(apart)}
    files = {HEADER: _header(texts, {**inside, **rest}), SOURCE: _source(inside), **rest}
    number = hashlib.sha256("".join(files[file] for file in sorted(files)).encode("ascii")).hexdigest()[:8]
    files |= {file: files[file].replace("@number@", f"0x{number}UL") for file in (HEADER, SOURCE)}
    return {prefixed(file, name, files): prefixed(content, name, files) for file, content in files.items()}


def number_of(runtime: Mapping[str, str], name: str) -> str:
    """Return the number that ``<name>_blrc.h`` gives the runtime, as a literal for ``#if``."""
    found = re.search(rf"^#define {name.upper()}_BLRC_NUMBER (\w+)$", runtime[f"{name}_blrc.h"], re.MULTILINE)
    assert found is not None
    return found[1]


def parts(runtime: str) -> dict[str, str]:
    """Return the parts of a ``<name>_blrc.c`` by the names of the files that they were."""
    found = re.split(re.escape(PART).replace(re.escape("{file}"), r"(\S+)"), runtime)
    return dict(zip(found[1::2], found[2::2], strict=True))


def with_headers(file: str) -> set[str]:
    """Return the name of a file of the runtime and those of the headers that it includes, directly or indirectly."""
    return _reached({name: path.read_text(encoding="ascii") for name, path in runtime_files().items()}, {file})


def prefixed(content: str, name: str, files: Iterable[str]) -> str:
    """Put the model's name in front of every symbol and macro of the runtime, and of the names of `files`.

    Names of other files are those of the parts of ``<name>_blrc.c``, which stay as they are.
    """
    shipped = "|".join(map(re.escape, files))
    content = re.sub(rf"\bblrc_(?!\w+\.[ch]\b)|\b(?={shipped})", lambda found: f"{name}_{found[0]}", content)
    return re.sub(r"\bBLRC_", f"{name.upper()}_BLRC_", content)


_ABI = re.compile(r"^#define BLRC_ABI \d+\n", re.MULTILINE)
_NUMBER = """\

/* Of the text of this runtime: the other files of an export refuse one with another number. */
#define BLRC_NUMBER @number@
"""
_REFUSE = """\
#if BLRC_NUMBER != @number@
#error "files of two exports: run blrc export again and copy all its files"
#endif
"""


def _header(texts: Mapping[str, str], shipped: Mapping[str, str]) -> str:
    """Return ``blrc.h`` with the declarations of what is shipped, and no other."""
    avr = _body(texts[AVR]).removeprefix("#include <stdint.h>\n\n")
    whole = texts[HEADER].replace(f'#include "{AVR}"\n', avr)
    whole = _ABI.sub(lambda found: found[0] + _NUMBER, whole, count=1)
    code = "".join(shipped.values())
    defined = set(_DEFINITION.findall(code))
    blocks = [declared for block in whole.split("\n\n") if (declared := _declared(block, defined))]
    while True:
        used = [block for block in blocks if _is_used(block, [code, *(other for other in blocks if other != block)])]
        if used == blocks:
            return _licensed("\n\n".join(blocks))
        blocks = used


def _declared(block: str, defined: set[str]) -> str:
    """Return a block between blank lines without the prototypes of functions that are not there, and their comments.

    Where two comments follow each other, the first one is that of the whole block.
    """
    if not _PROTOTYPE.search(f"{block}\n"):
        return block
    pieces = []
    for piece in re.split(r"^(?=/\*)", f"{block}\n", flags=re.MULTILINE):
        rest = _PROTOTYPE.sub(lambda found: found[0] if found[1] in defined else "", piece)
        if rest == piece or _PROTOTYPE.search(rest):
            pieces.append(rest)
    whole = "".join(pieces)
    return whole.removesuffix("\n") if _PROTOTYPE.search(whole) else ""


def _is_used(block: str, others: list[str]) -> bool:
    """Return whether what a block declares is used elsewhere, if it is a struct or a macro that exports set."""
    names = re.findall(r"^\} (blrc_\w+);", block, re.MULTILINE)
    names += [name for name in re.findall(r"^#define (\w+)", block, re.MULTILINE) if name in DEFAULTS]
    names += re.findall(r"^typedef \w+ (blrc_\w+);", block, re.MULTILINE) if names else []
    return not names or any(re.search(rf"\b{name}\b", other) for name in names for other in others)


def _source(inside: Mapping[str, str]) -> str:
    """Return all parts as one source: each file behind the headers that it includes."""
    done, parts = set[str](), list[str]()

    def add(file: str) -> None:
        if file in done or file not in inside:
            return
        done.add(file)
        for included in _INCLUDE.findall(inside[file]):
            add(included)
        body = _INCLUDE.sub(lambda found: "" if found[1] in {*inside, HEADER} else found[0], _body(inside[file]))
        parts.append(PART.format(file=file) + body.replace(_ASKING, "").strip("\n") + "\n")

    for file in sorted(inside):
        if file.endswith(".c"):
            add(file)
    asks = any(_ASKING in content for content in inside.values())
    opening = f"{_REFUSE}\n{_UNUSED}\n" + (f"{_ASKING}\n" if asks else "")
    return _licensed(f'{_ABOUT}#include "blrc.h"\n\n{text.if_readable("blrc", opening + chr(10).join(parts).strip())}')


_ABOUT = """\
/* The runtime: the files of blrc that this network needs, one behind the other. Files that comments name are these
 * parts. */
"""
_UNUSED = """\
/* Several parts share small functions, and not every network needs all of them. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunused-function"
#endif
"""
_ASKING = "#define BLRC_ALL_QUADS\n"
"""By this, parts ask for vectors of headers that others include as well: it has to stand before all of them."""


def _licensed(content: str) -> str:
    spdx = f"/* SPDX-License-Identifier: {LICENSE} */\n/* SPDX-FileCopyrightText: 2026 {AUTHOR} */\n"
    return f"{spdx}{text.comment(LICENCE.strip())}{content}"


def _body(content: str) -> str:
    """Return a file of the runtime without its licence and its guard."""
    content = re.sub(r"\A(/\* SPDX.*\*/\n)+", "", content)
    guard = re.search(r"^#ifndef (BLRC_\w+_H)\n#define \1\n\n?", content, re.MULTILINE)
    if guard is not None:
        content = content.replace(guard[0], "", 1)
        content = re.sub(r"\n?#endif\n\Z", "", content)
    return content


def _of_language(file: str, content: str) -> str:
    """Return a file that stays apart such that a source is compiled only by a compiler that can read ``blrc.h``.

    See `blrc.targets.c.text.text.of_language`.
    """
    if not file.endswith(".c"):
        return content
    start = content.index("#include ")
    body = content[start:].removeprefix('#include "blrc.h"\n').strip("\n")
    return f'{content[:start]}#include "blrc.h"\n\n{text.if_readable("blrc", body)}'


def _reached(texts: Mapping[str, str], files: set[str]) -> set[str]:
    """Return the files and the headers that they include, directly or indirectly."""
    reached, frontier = set[str](), files
    while frontier:
        reached |= frontier
        frontier = {h for file in frontier for h in _INCLUDE.findall(texts[file])} & texts.keys() - reached
    return reached
