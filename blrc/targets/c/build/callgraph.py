"""Compute how deep the stack gets from the call graphs that gcc writes with ``-fcallgraph-info=su``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from blrc.errors import BlrcError

FLAG = "-fcallgraph-info=su"

# What a call of the C library or the compiler's own may take: they are assembly or small, and gcc has no figure.
LIBRARY_BYTES = 16
DIVISION_BYTES = 64  # libgcc's 64-bit division

_NODE = re.compile(r'^node: \{ title: "(?P<title>[^"]+)" label: "(?P<label>[^"]*)"')
_EDGE = re.compile(r'^edge: \{ sourcename: "(?P<caller>[^"]+)" targetname: "(?P<callee>[^"]+)"')
_BYTES = re.compile(r"\\n(\d+) bytes \((static|dynamic,bounded)\)")


@dataclass(frozen=True)
class CallGraph:
    """Hold the call graph of the functions of several files.

    Attributes:
        frames: stack bytes of each function; the name of a static function is preceded by its file and a colon.
        calls: the functions that each function calls; a function without a frame belongs to a library.
    """

    frames: Mapping[str, int]
    calls: Mapping[str, Collection[str]]


def read_call_graph(folder: Path) -> CallGraph:
    """Read the call graph of all objects in `folder` that were compiled with `FLAG`.

    Raises:
        BlrcError: there are no call graphs, or a function's stack has no static bound.
    """
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    files = sorted(folder.glob("*.ci"))
    if not files:
        raise BlrcError(f"{folder}: no call graphs; compile with gcc 10 or newer and {FLAG}")
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if node := _NODE.match(line):
                if found := _BYTES.search(node["label"]):
                    frames[node["title"]] = int(found[1])
                elif " bytes (" in node["label"]:
                    raise BlrcError(f"{file.name}: the stack of {node['title']} is not bounded")
            elif edge := _EDGE.match(line):
                calls.setdefault(edge["caller"], set()).add(edge["callee"])
    return CallGraph(frames, calls)


def deepest(graph: CallGraph, root: str, pointers: int | None = None) -> int:
    """Return the stack bytes of a call of `root`: the largest sum of frames along any chain of calls.

    Args:
        pointers: the bytes that a call through a pointer takes (an observer's; 0 where there is none). None refuses
            such calls.

    Raises:
        BlrcError: there is no such function, a function is recursive, or one is called through a pointer and `pointers`
            is None.
    """

    def depth(function: str, above: tuple[str, ...]) -> int:
        if function in above:
            raise BlrcError(f"{function} calls itself: its stack is not bounded")
        if function == "__indirect_call":
            if pointers is not None:
                return pointers
            raise BlrcError(f"{above[-1]} calls through a pointer: its stack is not known")
        if function not in graph.frames:
            return DIVISION_BYTES if function.startswith("__") else LIBRARY_BYTES
        below = (depth(callee, (*above, function)) for callee in graph.calls.get(function, ()))
        return graph.frames[function] + max(below, default=0)

    if root not in graph.frames:
        raise BlrcError(f"no function {root} in the call graph")
    return depth(root, ())
