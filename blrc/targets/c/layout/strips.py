"""Plan which convolutions run together row by row, so that the maps between them never exist as a whole.

Each of them computes its next row as soon as the rows that it reads are there. A map between two of them is a buffer of
the few rows that one row of the second needs. Nothing is computed twice, and a row is computed by the same kernel as
without strips.
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
    """Describe what planning needs to know of a step.

    Attributes:
        x, y: the values that the step reads and writes. A value that no step writes is the caller's.
        strips: the convolution, if its kernel can compute a part of its rows.
        in_place: whether the step may write where it reads.
        scratch: bytes that the step needs besides its maps.
    """

    x: Value
    y: Value
    strips: Conv | None = None
    in_place: bool = False
    scratch: int = 0


@dataclass(frozen=True)
class Plan:
    """Hold steps in groups, and where their values lie.

    Attributes:
        groups: the first step of each group and the one after its last. A group is a single step, or convolutions that
            run together.
        rows: how many rows are kept of each value between convolutions of a group, by name.
        arena: the offsets of values and scratch memory.
    """

    groups: tuple[tuple[int, int], ...]
    rows: dict[str, int]
    arena: Arena


def plan(work: Sequence[Work], align: int, pays: int | None = None) -> Plan:
    """Return a plan with strips if they make the arena smaller by at least `pays` bytes, and without strips otherwise.

    Of the plans that need the least memory, the one with the fewest strips is taken.

    Args:
        align: a power of two, in bytes; offsets and the arena's size are multiples of it.
        pays: the bytes to save; None means `PAYS`.
    """
    whole = placed(work, [(i, i + 1) for i in range(len(work))], align)
    least, _ = _best(work, None)
    _, groups = _best(work, least)
    strips = placed(work, groups, align)
    return strips if strips.arena.size + (PAYS if pays is None else pays) <= whole.arena.size else whole


def scratch_of(y: Value) -> str:
    """Return the name of the slot for the scratch memory of the step that writes y."""
    return f"{y.name}.scratch"


def rows_needed(reader: Conv) -> int:
    """Return how many rows of its input a convolution needs for one row of its output: the most of any row, at least 1.

    As in the runtime, rows are counted from where the whole window begins, so that the first one needed never goes
    back.
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
    """Return the groups whose largest need of memory is the smallest, or those with the fewest strips within a limit.

    The result is what was minimised (bytes or strips), and the groups.

    Args:
        limit: bytes that no group may exceed, or None to minimise bytes.
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
    """Return whether step i may run row by row with the one before it, as the only reader of the map between them."""
    before, after = work[i - 1], work[i]
    readers = sum(other.x == before.y for other in work)
    return before.strips is not None and after.strips is not None and after.x == before.y and readers == 1


def _row_bytes(value: Value) -> int:
    return value.nbytes // value.shape[0]


def _kept(work: Sequence[Work], i: int) -> int:
    """Return how many rows are kept of what step i writes, if step i + 1 runs with it."""
    reader = work[i + 1].strips
    assert reader is not None
    return min(rows_needed(reader), work[i].y.shape[0])


def _live(work: Sequence[Work], first: int, end: int) -> int:
    """Return the bytes of the arena that a group needs while it runs."""
    written = {step.y.name for step in work}
    x, y = work[first].x, work[end - 1].y
    read = x.nbytes if x.name in written and not work[first].in_place else 0
    kept = sum(_kept(work, i) * _row_bytes(work[i].y) for i in range(first, end - 1))
    return read + kept + y.nbytes + max(step.scratch for step in work[first:end])


def placed(work: Sequence[Work], groups: Sequence[tuple[int, int]], align: int) -> Plan:
    """Return the plan with these groups, in which all that one group writes lives at the same time."""
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
