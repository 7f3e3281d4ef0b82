"""Format C source. This module knows C and nothing of networks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH = 120


def c_type(dtype: np.dtype[Any]) -> str:
    """Return the C type of an array's elements, which are integers of a fixed size."""
    return f"{dtype.name}_t"


def comment(text: str) -> str:
    """Return a block comment.

    Names in it may come from a stranger, so whatever could end the comment or continue a line is replaced.
    """
    printed = "".join(c if " " <= c <= "~" or c == "\n" else "?" for c in text).replace("\\", "/")
    safe = re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", printed)  # its end, another one's start, trigraphs
    lines = [
        line
        for paragraph in safe.split("\n")
        for line in textwrap.wrap(paragraph, WIDTH - 6, break_long_words=False) or [""]
    ]
    body = "\n * ".join(lines).replace(" * \n", " *\n")
    assert "*/" not in body and "/*" not in body and "\\" not in body
    return f"/* {body} */\n"


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each word of `values` in `template` by its value, in one pass: inserted values are not searched again."""
    longest_first = sorted(values, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda word: values[word[0]], template)


def model(name: str) -> dict[str, str]:
    """Return the words in templates that stand for a model's name, with the prefixes of its symbols and macros."""
    return {"name_": f"{name}_", "NAME_": f"{name.upper()}_"}


def define(name: str, value: object, note: str = "") -> str:
    """Return the definition of one macro, with an optional note behind it."""
    return f"#define {name} {value}" + (f" {comment(note).strip()}" if note else "") + "\n"


def string(text: str) -> str:
    """Return a string literal.

    Printable ASCII stays as it is, with escapes so that nothing forms a trigraph or ends the literal. Other characters
    become ``?``.
    """
    safe = "".join(c if " " <= c <= "~" else "?" for c in text)
    return '"' + re.sub(r'(["\\\\?])', r"\\\1", safe) + '"'


def guarded(macro: str, body: str) -> str:
    """Return a header that may be included twice."""
    return f"#ifndef {macro}\n#define {macro}\n\n{body}\n#endif\n"


def of_language(name: str, body: str) -> str:
    """Return the `body` of a public header, behind one ``#error`` for a language older than C99 or C++11.

    The library's sources are guarded by `if_readable`, so that an old compiler reports this one error and nothing else.
    GNU compilers can read the declarations all the same, and then report nothing more about code that calls them.
    Microsoft's compilers do not say which language they speak, and are let pass.
    """
    marker = f"{name.upper()}_WRONG_LANGUAGE"
    return f"""\
#if !defined(_MSC_VER) && !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "{name}: this is C99 (also C++11); compile it with -std=c99 or newer"
#define {marker} 1
typedef int {name}_wrong_language;
#elif !defined(_MSC_VER) && defined(__cplusplus) && __cplusplus < 201103L
#error "{name}: as C++ this is C++11; use -std=c++11 or newer, or C99"
#define {marker} 1
typedef int {name}_wrong_language;
#endif

#if !defined({marker}) || defined(__GNUC__)
{body}
#endif
"""


def if_readable(name: str, body: str) -> str:
    """Return `body` such that it is read only in a language that `of_language` lets pass."""
    return f"#if !defined({name.upper()}_WRONG_LANGUAGE)\n{body}\n#endif\n"


def extern_c(body: str) -> str:
    """Return declarations that have C linkage for a C++ compiler, too."""
    opening = '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
    return opening + body + "\n#ifdef __cplusplus\n}\n#endif\n"


def call(function: str, arguments: Iterable[str], indent: str = "    ") -> str:
    """Return a call as a statement, wrapped under its opening parenthesis."""
    return wrap(f"{indent}{function}(", arguments, ");")


def wrap(opening: str, items: Iterable[str], closing: str) -> str:
    """Return `opening`, the items separated by commas, and `closing`.

    Lines break between items, and continue under the end of the opening.
    """
    lines, line = [], opening
    pieces = list(items)
    for i, item in enumerate(pieces):
        piece = item + (closing if i == len(pieces) - 1 else ",")
        if len(line) > len(opening) and len(line) + len(piece) + 1 > WIDTH:
            lines.append(line.rstrip())
            line = " " * len(opening)
        line += piece + ("" if i == len(pieces) - 1 else " ")
    return "\n".join([*lines, line if pieces else opening + closing]) + "\n"


def array(declaration: str, values: NDArray[Any]) -> str:
    """Return a constant array of integers: `declaration` = { values };"""
    return f"{declaration} = {{\n{listing(values)}}};\n"


def listing(values: NDArray[Any]) -> str:
    """Return integers as they stand between the braces of an array."""
    if values.dtype.name == "uint32":
        digits = values.astype(">u4").tobytes().hex()
        items: Sequence[str] = ["0x" + digits[i : i + 8] for i in range(0, len(digits), 8)]
        per_line = 9
    else:
        items = [_signed(v) for v in values.tolist()]
        per_line = (WIDTH - 4) // (max(map(len, items)) + 2)
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "    " + ",\n    ".join(lines) + "\n"


def _signed(value: int) -> str:
    # -2147483648 is the negation of a literal that does not fit a 32-bit int.
    return "-2147483647 - 1" if value == -(2**31) else str(value)
