"""Break the lines of C that are too long, as they get where the model's name stands in front of every symbol."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from blrc.targets.c.text.text import WIDTH

_COMMENT = re.compile(r"(\s*)(/\*| \*) ?(\s*)(.*)")
_WITH_NOTE = re.compile(r"(\s*)(\S.*?) (/\* [^*]* \*/)( \\)?")
_LITERAL = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|/\*.*?\*/"""
_MOST_INDENT = 72
"""Columns: calls that open further to the right go on under their statement."""


def reflow(content: str) -> str:
    """Return C whose lines have at most `WIDTH` columns where a line can be broken.

    Statements over several lines are aligned again under the parenthesis that is open. Strings and directives are kept
    whole.
    """
    return "\n".join(_lines(content.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    at, in_macro, in_comment = 0, False, False
    while at < len(lines):
        line = lines[at]
        at += 1
        begins = line.lstrip().startswith("/*")
        if in_comment or (begins and ("*/" not in line or line.rstrip().endswith("*/"))):
            in_comment = "*/" not in line
            while len(line) > WIDTH:
                line, rest = _broken_comment(line)
                yield line
                line = rest
                if in_comment and at < len(lines) and (joined := _joined(rest, lines[at])):
                    line, at = joined, at + 1
                    in_comment = "*/" not in line
            yield line
        elif line.startswith("#") or in_macro or line.endswith("\\"):
            in_macro = line.endswith("\\")
            yield from _directive(line, in_macro)
        else:
            group = [line]
            while at < len(lines) and _opened(" ".join(group)) and not re.search(r"/\*|^\s*#", line + lines[at]):
                line, at = lines[at], at + 1
                group.append(line)
            yield from group if _is_aligned(group) else _code(" ".join([group[0], *map(str.lstrip, group[1:])]))


def _is_aligned(lines: Sequence[str]) -> bool:
    """Return whether the lines of a statement fit, each below the parenthesis that is open."""
    opened = list[int]()
    for line in lines:
        own = len(line) - len(line.lstrip())
        if len(line) > WIDTH or (opened and own != opened[-1] + 1):
            return False
        opened = _opened(line, opened)
    return True


def _code(line: str) -> Iterator[str]:
    noted = _WITH_NOTE.fullmatch(line)
    if len(line) > WIDTH and noted is not None and noted[4] is None:
        yield noted[1] + noted[3]
        line = noted[1] + noted[2]
    yield from _broken(line, WIDTH, "")


def _directive(line: str, goes_on: bool) -> Iterator[str]:
    noted = _WITH_NOTE.fullmatch(line)
    if len(line) > WIDTH and noted is not None and noted[4] is None and line.startswith("#define"):
        yield noted[3]
        line = noted[2]
    if goes_on:
        line = (line[:-1].rstrip() + " \\").lstrip("" if line[:-1].strip() else " ")
    if line.startswith("#") and not line.startswith("#define"):
        yield line
        return
    yield from _broken(line, WIDTH - 2, " \\") if len(line) > WIDTH else [line]


def _broken(line: str, width: int, end: str) -> Iterator[str]:
    """Yield the lines of a statement; each but the last ends in `end`.

    They go on under the parenthesis or brace that is open, or else further to the right than the statement.
    """
    own, opened = len(line) - len(line.lstrip()), list[int]()
    while len(line) > width and (cut := _cut(line, width)):
        yield line[:cut].rstrip() + end
        opened = _opened(line[:cut], opened, "({", ")}")
        rest = line[cut:].lstrip()
        near = opened and opened[-1] < _MOST_INDENT and opened[-1] + 1 + len(rest.partition(" ")[0]) <= width
        line = " " * (opened[-1] + 1 if near else own + 4 * (1 + bool(opened))) + rest
    yield line


def _cut(line: str, width: int) -> int | None:
    """Return where to break a line, if anywhere.

    It is best behind a comma or an operator, in as few parentheses as possible, and not near the beginning; if there is
    no other place, behind a parenthesis.
    """
    depth, places = 0, list[tuple[int, int, int]]()
    for found in re.finditer(rf"{_LITERAL}|[(){{}}]| ", line):  # of the whole line: a string may end beyond the width
        at = found.start()
        if at > width:
            break
        depth += (found[0] in "({") - (found[0] in ")}")
        if found[0] == " " and line[:at].strip() and line[at:].strip(" \\"):
            good = line[:at].endswith((",", " &&", " ||", " =", ";")) and at > width // 3
            places.append((2, -depth, at) if good else (1, 0, at))
        elif found[0] == "(" and at > width // 3 and not line.lstrip().startswith("#"):
            places.append((0, -depth, at + 1))
    return max(places)[2] if places else None


def _opened(line: str, before: Sequence[int] = (), opening: str = "(", closing: str = ")") -> list[int]:
    """Return the columns of brackets that are open at the end of a line, if those of `before` are at its beginning."""
    opened = list(before)
    for found in re.finditer(rf"{_LITERAL}|[(){{}}]", line):
        if found[0] in opening:
            opened.append(found.start())
        elif found[0] in closing and opened:
            opened.pop()
    return opened


def _broken_comment(line: str) -> tuple[str, str]:
    """Return as many words of a line of a comment as fit, and a line with the others."""
    found = _COMMENT.fullmatch(line)
    assert found is not None
    start = f"{found[1]} * {found[3]}"
    cut = line.rfind(" ", len(start) + 1, WIDTH + 1)
    if cut < 0:
        cut = line.find(" ", WIDTH)
    return (line, "") if cut < 0 else (line[:cut], f"{start}{line[cut + 1 :]}")


def _joined(line: str, following: str) -> str | None:
    """Return one line of a comment that has the words of both, or None where the other begins something new."""
    one, other = _COMMENT.fullmatch(line), _COMMENT.fullmatch(following)
    if one is None or other is None or not other[4] or other[4] == "/" or len(other[3]) < len(one[3]):
        return None
    if re.match(r"[\w\[\], ]+:|\S+  ", other[4]):
        return None
    return f"{one[1]} * {other[3]}{one[4]} {other[4]}"
