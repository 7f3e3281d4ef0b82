"""Which convolutions run together row by row, so that the maps between them never exist as a whole.

Each of them computes its next row as soon as the rows that it reads are there; a map between two of them is a buffer of
the few rows that one row of the second needs. Nothing is computed twice, and every row is computed by the same kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blrc.net.window import Window
from blrc.program.program import Conv, Value
from blrc.targets.c.layout.arena import Arena, Slot, place

PAYS = 1024
"""Bytes of arena that strips have to save: they cost about half as much stack and code."""


@dataclass(frozen=True)
class Work:
    """What planning needs to know of a step.

    Attributes:
        x, y: what it reads and writes; a value that no step writes is the caller's.
        strips: the convolution, where its kernel can compute a part of its rows.
        in_place: it may write where it reads.
        scratch: bytes that it needs besides.
    """

    x: Value
    y: Value
    strips: Conv | None = None
    in_place: bool = False
    scratch: int = 0


@dataclass(frozen=True)
class Plan:
    """Steps in groups, and where their values lie.

    Attributes:
        groups: first step and the one after the last: single steps, and convolutions that run together.
        rows: of the values between convolutions of a group: how many are kept.
    """

    groups: tuple[tuple[int, int], ...]
    rows: dict[str, int]
    arena: Arena


def plan(work: Sequence[Work], align: int, pays: int | None = None) -> Plan:
    """Strips where they make the arena smaller by `pays` (`PAYS`) bytes or more; then as few as reach the smallest."""
    whole = placed(work, [(i, i + 1) for i in range(len(work))], align)
    least, _ = _best(work, None)
    _, groups = _best(work, least)
    strips = placed(work, groups, align)
    return strips if strips.arena.size + (PAYS if pays is None else pays) <= whole.arena.size else whole


def scratch_of(y: Value) -> str:
    """Name of the slot that the step which writes y has for itself."""
    return f"{y.name}.scratch"


def rows_needed(reader: Conv) -> int:
    """Rows of its input that one row of its output needs: the most of any row, at least 1.

    They are counted from where the whole window begins, as the runtime does: so the first one never goes back.
    """
    pool, window = reader.pool or Window((1, 1)), reader.window
    height, unpooled = reader.x.shape[0], reader.unpooled[0]
    most = 1
    for row in range(reader.y.shape[0]):
        top = row * pool.stride[0] - pool.padding[0]
        maps = [top + t * pool.dilation[0] for t in range(pool.kernel[0]) if 0 <= top + t * pool.dilation[0] < unpooled]
        if maps:
            first = max(0, top * window.stride[0] - window.padding[0])
            end = min(height, maps[-1] * window.stride[0] - window.padding[0] + window.span[0])
            most = max(most, end - first)
    return most


def _best(work: Sequence[Work], limit: int | None) -> tuple[int, list[tuple[int, int]]]:
    """Groups with the smallest largest need of memory; or, of those that keep the limit, with the fewest strips.

    Gives what was minimised, and the groups.
    """
    found: list[tuple[int, list[tuple[int, int]]]] = [(0, [])]
    for end in range(1, len(work) + 1):
        choices = []
        first = end - 1
        while True:
            cost, groups = found[first]
            live = _live(work, first, end)
            if limit is None:
                choices.append((max(cost, live), [*groups, (first, end)]))
            elif live <= limit and cost >= 0:
                choices.append((cost + (end - first - 1), [*groups, (first, end)]))
            if first == 0 or not joined(work, first):
                break
            first -= 1
        found.append(min(choices, key=lambda choice: (choice[0], choice[1]), default=(-1, [])))
    return found[-1]


def joined(work: Sequence[Work], i: int) -> bool:
    """Step i may run row by row with the one before it: nobody else reads what is between them."""
    before, after = work[i - 1], work[i]
    readers = sum(other.x == before.y for other in work)
    return before.strips is not None and after.strips is not None and after.x == before.y and readers == 1


def _row_bytes(value: Value) -> int:
    return value.nbytes // value.shape[0]


def _kept(work: Sequence[Work], i: int) -> int:
    """Rows that are kept of what step i writes, where step i + 1 runs with it."""
    reader = work[i + 1].strips
    assert reader is not None
    return min(rows_needed(reader), work[i].y.shape[0])


def _live(work: Sequence[Work], first: int, end: int) -> int:
    """Bytes of the arena that a group needs while it runs."""
    written = {step.y.name for step in work}
    x, y = work[first].x, work[end - 1].y
    read = x.nbytes if x.name in written and not work[first].in_place else 0
    kept = sum(_kept(work, i) * _row_bytes(work[i].y) for i in range(first, end - 1))
    return read + kept + y.nbytes + max(step.scratch for step in work[first:end])


def placed(work: Sequence[Work], groups: Sequence[tuple[int, int]], align: int) -> Plan:
    """The plan of these groups: what is written in one of them lives at the same time."""
    time = {i: t for t, (first, end) in enumerate(groups) for i in range(first, end)}
    rows = {work[i].y.name: _kept(work, i) for first, end in groups for i in range(first, end - 1)}
    slots = []
    for i, step in enumerate(work):
        nbytes = step.y.nbytes if step.y.name not in rows else rows[step.y.name] * _row_bytes(step.y)
        dies = max([time[i], *(time[j] for j, other in enumerate(work) if other.x == step.y)])
        slots.append(Slot(step.y.name, nbytes, time[i], dies, step.x.name if step.in_place else None))
        if step.scratch:
            slots.append(Slot(scratch_of(step.y), step.scratch, time[i], time[i]))
    return Plan(tuple(groups), rows, place(slots, align))
