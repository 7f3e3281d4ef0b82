"""Constant tables as C text: arrays like others but on AVR, which keeps them in flash.

An array has at most 32,767 bytes there. A larger table is one listing that, on AVR alone, is cut into parts. They lie
one behind the other because they are in one section and the compiler is told to keep their order (`BLRC_STORED`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.targets.c.text import text

AVR_OBJECT = 32_764  # bytes: below 2^15, and a multiple of every element


def declare(upper: str, c_name: str, array: NDArray[Any]) -> str:
    """The declarator ``extern const T name[length]`` of a stored table; `upper` is the model's prefix of macros."""
    return f"extern const {text.c_type(array.dtype)} {c_name}[{length(upper, array, '')}]"


def define(upper: str, c_name: str, array: NDArray[Any], static: bool = False) -> str:
    """The definition of a stored table: one listing, whether it lies in parts or not."""
    c_type, per_part = text.c_type(array.dtype), AVR_OBJECT // array.itemsize
    parts = [array[i : i + per_part] for i in range(0, len(array), per_part)]
    kind = f"{'static ' if static else ''}{upper}_BLRC_STORED const {c_type}"
    body = text.listing(parts[0])
    for i, part in enumerate(parts[1:], 2):
        size = len(part) + len(part) * array.itemsize % 2
        body = (
            f"{body.rstrip()},\n#if defined({upper}_BLRC_FAR_TABLES)\n}};\n"
            f"static {upper}_BLRC_STORED const {c_type} {c_name}_part_{i}[{size}] = {{\n#endif\n{text.listing(part)}"
        )
    return f"{kind} {c_name}[{length(upper, array, str(len(parts[0])))}] = {{\n{body}}};\n"


def length(upper: str, array: NDArray[Any], first: str | None = None) -> str:
    """Elements of a stored table, as C has it: of all of it, or of its first part on AVR, which has `first`."""
    if first is not None and array.nbytes > AVR_OBJECT:
        return f"{upper}_BLRC_PART({len(array)}, {first})"
    return f"{upper}_BLRC_EVEN({len(array)})" if array.nbytes % 2 else str(len(array))


def member_index(of_member: tuple[int, ...]) -> NDArray[np.uint16]:
    """Which of a table's arrays each member has, for AVR, where they lie one behind the other."""
    return np.array(of_member, dtype=np.uint16)
