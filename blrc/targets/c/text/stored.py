"""Write constant tables as C text: ordinary arrays, except on AVR, which keeps them in flash.

An array has at most 32,767 bytes there. A larger table is one listing that is cut into parts on AVR alone. The parts
lie one behind the other, because they are in one section and the compiler is told to keep their order (`BLRC_STORED`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.targets.c.text import text

AVR_OBJECT = 32_764  # bytes: below 2^15, and a multiple of every element


def declare(upper: str, c_name: str, array: NDArray[Any]) -> str:
    """Return the declarator ``extern const T name[length]`` of a stored table.

    Args:
        upper: the model's prefix of macros.
    """
    return f"extern const {text.c_type(array.dtype)} {c_name}[{length(upper, array, '')}]"


def define(upper: str, c_name: str, array: NDArray[Any], static: bool = False) -> str:
    """Return the definition of a stored table as one listing, whether it lies in parts or not."""
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
    """Return the number of elements of a stored table as a C expression.

    Args:
        upper: the model's prefix of macros.
        first: the length, in C, of the first part on AVR, which is then the length there if the table lies in parts.
            None gives the length of the whole table everywhere.
    """
    if first is not None and array.nbytes > AVR_OBJECT:
        return f"{upper}_BLRC_PART({len(array)}, {first})"
    return f"{upper}_BLRC_EVEN({len(array)})" if array.nbytes % 2 else str(len(array))


def member_index(of_member: tuple[int, ...]) -> NDArray[np.uint16]:
    """Return the index of each member's array in a table.

    AVR needs it, because a table's arrays lie there one behind the other.
    """
    return np.array(of_member, dtype=np.uint16)
