"""Show results to a person: tables that fit the terminal, and the same text in a notebook."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from html import escape
from reprlib import Repr
from typing import Any

NO_TERMINAL = 1 << 20
"""Columns of what is no terminal: a file or a pipe takes lines of any length."""

GAP = "  "
"""Separates two columns of a table."""


_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxtuple = _SHORT.maxdict = 6


def terminal_width() -> int:
    """Return how many characters fit on a line of standard output, where ``$COLUMNS`` overrides the terminal."""
    return shutil.get_terminal_size((NO_TERMINAL, 24)).columns


def table(rows: Sequence[Sequence[str]], left: int = 1, width: int = NO_TERMINAL) -> list[str]:
    """Return the lines of a table.

    If the table is wider than `width`, the remaining columns continue below, with the first column repeated.

    Args:
        rows: the cells, with the same number in each row.
        left: how many columns, counted from the left, are aligned to the left; the others are aligned to the right.
        width: the largest number of characters in a line.

    >>> table([("layer", "bits"), ("conv1", "9")])
    ['layer  bits', 'conv1     9']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for part in _parts(widths, width):
        lines += [""] if lines else []
        for row in rows:
            cells = [row[i].ljust(widths[i]) if i < left else row[i].rjust(widths[i]) for i in part]
            lines.append(GAP.join(cells).rstrip())
    return lines


def _parts(widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield the columns of each part of a table: the first column, and as many of the others as there is room for."""
    part, used = [0], widths[0]
    for i in range(1, len(widths)):
        if used + len(GAP) + widths[i] > width and len(part) > 1:
            yield part
            part, used = [0], widths[0]
        part.append(i)
        used += len(GAP) + widths[i]
    yield part


class Brief:
    """Give a dataclass a short ``repr`` that shows arrays by type and shape, and long sequences by their length."""

    def __repr__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={brief(value)}' for name, value in values.items())})"


def brief(value: object) -> str:
    """Return a short text for a value.

    >>> brief("map"), brief(range(5000)), brief(("a",) * 9)
    ("'map'", 'range(0, 5000)', '<9 entries>')
    """
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, tuple | list | Mapping) and len(value) > _SHORT.maxtuple:
        return f"<{len(value):,} entries>"
    return _SHORT.repr(value)


class Preformatted:
    """Show an object in a notebook as the lines that ``str`` makes of it."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Figures(dict[str, Any], Preformatted):
    """Hold plain data for JSON that ``print`` and notebooks show as tables."""

    def __repr__(self) -> str:
        """Return the names of the entries only, because the data itself would fill pages."""
        return f"{type(self).__name__}({', '.join(self)})"


def sizes(shape: Sequence[int]) -> str:
    """Return a shape as a text such as ``1x28x28``."""
    return "x".join(map(str, shape))
