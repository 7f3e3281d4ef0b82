"""The depth of calls, on graphs that gcc wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from blrc.errors import BlrcError
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.callgraph import DIVISION_BYTES, FLAG, LIBRARY_BYTES, CallGraph, deepest, read_call_graph

SOURCE = """
int outside(volatile int *);
__attribute__((noinline)) static int leaf(int n) { volatile int a[200]; a[n] = n; return a[n / 2]; }
__attribute__((noinline)) static int other(int n) { volatile int a[60]; a[n] = n; return a[n / 2] + 1; }
int both(int n) { volatile int a[20]; a[n] = n; return leaf(n) + other(n) + a[n]; }
int pointer(int (*f)(int)) { volatile int a[4]; a[0] = f(1); return a[0]; }
"""


@pytest.fixture
def graph(tmp_path: Path) -> CallGraph:
    (tmp_path / "a.c").write_text(SOURCE)
    (tmp_path / "b.c").write_text("int both(int); int top(int n) { return both(n) + 1; }\n")
    for name in ("a", "b"):
        compiler = build.find_compiler("gcc")
        build.compile_object(compiler, ("-O1", FLAG), tmp_path / f"{name}.c", tmp_path / f"{name}.o", tmp_path)
    return read_call_graph(tmp_path)


@pytest.mark.needs("gcc")
def test_calls_are_followed_across_files(graph: CallGraph) -> None:
    frames = {title.rpartition(":")[2]: nbytes for title, nbytes in graph.frames.items()}
    assert frames["leaf"] >= 600 > frames["other"] >= 100
    assert deepest(graph, "top") == frames["top"] + frames["both"] + frames["leaf"]


@pytest.mark.needs("gcc")
def test_a_pointer_is_refused_unless_its_cost_is_given(graph: CallGraph) -> None:
    with pytest.raises(BlrcError, match="pointer calls through a pointer"):
        deepest(graph, "pointer")
    assert deepest(graph, "pointer", pointers=1000) == graph.frames["pointer"] + 1000


def test_libraries_have_an_allowance() -> None:
    graph = CallGraph({"a": 1, "b": 2}, {"a": {"memset"}, "b": {"__aeabi_uldivmod", "a"}})
    assert deepest(graph, "a") == 1 + LIBRARY_BYTES
    assert deepest(graph, "b") == 2 + DIVISION_BYTES


@pytest.mark.parametrize(("root", "message"), [("c", "no function c"), ("a", "a calls itself")])
def test_what_has_no_bound_is_refused(root: str, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        deepest(CallGraph({"a": 1, "b": 2}, {"a": {"b"}, "b": {"a"}}), root)


def test_no_graph_and_no_static_bound(tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match="compile with gcc 10 or newer"):
        read_call_graph(tmp_path)
    (tmp_path / "x.ci").write_text('node: { title: "f" label: "f\\nx.c:1:1\\n16 bytes (dynamic)" }\n')
    with pytest.raises(BlrcError, match="the stack of f is not bounded"):
        read_call_graph(tmp_path)
