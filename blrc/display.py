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
"""What stands between two columns."""


_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxtuple = _SHORT.maxdict = 6


def terminal_width() -> int:
    """Return how many columns a line of standard output may have; ``$COLUMNS`` overrides what the terminal says."""
    return shutil.get_terminal_size((NO_TERMINAL, 24)).columns


def table(rows: Sequence[Sequence[str]], left: int = 1, width: int = NO_TERMINAL) -> list[str]:
    """Return the lines of a table.

    The columns of a table that is too wide go on below, behind the first column again.

    Args:
        rows: cells, the same number in each row.
        left: so many columns stand to the left, the others to the right.
        width: how many characters a line may have.

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
    """Yield which columns stand side by side: the first one, and as many others as there is room for."""
    part, used = [0], widths[0]
    for i in range(1, len(widths)):
        if used + len(GAP) + widths[i] > width and len(part) > 1:
            yield part
            part, used = [0], widths[0]
        part.append(i)
        used += len(GAP) + widths[i]
    yield part


class Brief:
    """A dataclass whose ``repr`` fits on a few lines: of arrays it has type and shape, of long sequences the length."""

    def __repr__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={brief(value)}' for name, value in values.items())})"


def brief(value: object) -> str:
    """Return a value as a few words.

    >>> brief("map"), brief(range(5000)), brief(("a",) * 9)
    ("'map'", 'range(0, 5000)', '<9 entries>')
    """
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, tuple | list | Mapping) and len(value) > _SHORT.maxtuple:
        return f"<{len(value):,} entries>"
    return _SHORT.repr(value)


class Preformatted:
    """Something that ``str`` makes lines of; a notebook shows the same lines."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Figures(dict[str, Any], Preformatted):
    """Plain data for JSON, of which ``print`` and a notebook show tables."""

    def __repr__(self) -> str:
        """Name what there is: the data itself would fill pages."""
        return f"{type(self).__name__}({', '.join(self)})"


def sizes(shape: Sequence[int]) -> str:
    """Write a shape as ``1x28x28``."""
    return "x".join(map(str, shape))
