"""Say what the heads of a network may be called: last layers that read the same bits, each with a name."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from blrc.errors import BlrcError

MOST = 64
"""Heads of a network: each takes 16 bytes of the caller's memory for its answer."""
LONGEST = 40
"""Characters of a head's name, which becomes a part of macros in C."""
TAKEN = frozenset({"input", "codes", "scores", "members"})
"""Tensors of an exported ONNX file, in which each head is an output of its own name."""
REMEDY = "name the heads with heads= of blrc.save, or --heads of blrc import"

Heads = tuple[tuple[str, str], ...]
"""The name of each head, and of the layer that gives its scores."""


def check_heads(names: Sequence[str]) -> None:
    """Refuse names that cannot be those of a network's heads.

    Raises:
        BlrcError: there are too few or too many names, one cannot be a part of a C identifier or is taken, or two are
            the same where case is ignored, as in macros.
    """
    if not 2 <= len(names) <= MOST:
        raise BlrcError(f"{len(names)} heads: a network has one output without a name, or 2 to {MOST} heads")
    seen: dict[str, str] = {}
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII) or len(name) > LONGEST:
            shown = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
            raise BlrcError(
                f"head {shown!r}: its name becomes a part of names in C: up to {LONGEST} letters, digits and "
                f"underscores, a letter first; {REMEDY}"
            )
        if name in TAKEN:
            raise BlrcError(f"head {name!r}: a tensor of exported ONNX files has that name; {REMEDY}")
        if (other := seen.get(name.lower())) is not None:
            also = "has that name too" if other == name else f"is called {other!r}, which macros in C do not tell apart"
            raise BlrcError(f"head {name!r}: another head {also}; {REMEDY}")
        seen[name.lower()] = name


def check_ends(heads: Heads, layers: Container[str]) -> None:
    """Refuse heads with names that `check_heads` refuses, or of layers that are not there.

    Raises:
        BlrcError: names the first head that is wrong.
    """
    if heads:
        check_heads([name for name, _ in heads])
    for name, layer in heads:
        if layer not in layers:
            raise BlrcError(f"head {name!r}: is what layer {layer[:LONGEST]!r} gives, which is not there")
