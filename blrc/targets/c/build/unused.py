"""Leave declarations that nothing uses out of preprocessed C.

The header of an export's runtime declares what the export ships, so a file of the runtime sees other prototypes in the
export of another network. Its object is the same.
"""

from __future__ import annotations

import re

_DECLARATION = re.compile(
    r"^(?:(?:void|u?int(?:8|16|32|64)_t) \*?(\w*blrc_\w+)\([^(){};]*\);"  # a function
    r"|typedef \w+ (\w*blrc_\w+);"  # a type by another name
    r"|typedef struct (\w*blrc_\w+) \{[^{}]*\} \3;)\n",  # a struct
    re.MULTILINE,
)
"""Match declarations of the runtime as its header writes them, which begin their lines."""


def without_unused(text: str) -> str:
    """Return preprocessed C without those declarations of the runtime whose names nothing else has.

    What a declaration alone uses goes with it. A name that is a part of another one counts as used.
    """
    kept = list(_DECLARATION.finditer(text))
    names = {found: next(filter(None, found.groups())) for found in kept}
    left = {name: text.count(name) for name in names.values()}
    while unused := [found for found in kept if left[names[found]] == found[0].count(names[found])]:
        kept = [found for found in kept if found not in unused]
        for name in left:
            left[name] -= sum(found[0].count(name) for found in unused)
    parts, start = [], 0
    for found in names:
        if found not in kept:
            parts.append(text[start : found.start()])
            start = found.end()
    return "".join([*parts, text[start:]])
