"""Place every intermediate map in the arena so that maps that live at the same time do not overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blrc.errors import BlrcError


@dataclass(frozen=True)
class Slot:
    """Describe one map in the arena.

    Attributes:
        name: the name of the value.
        nbytes: the map's size.
        born: the step that writes the map.
        dies: the last step that reads the map (at least `born`).
        over: a slot whose memory this one may take although it dies in the step in which this one is born, because the
            step can work in place. This slot must not be larger than that one.
    """

    name: str
    nbytes: int
    born: int
    dies: int
    over: str | None = None


@dataclass(frozen=True)
class Arena:
    """Hold the plan of the scratch memory: its `size` in bytes, and the offset of each slot by name."""

    size: int
    offsets: Mapping[str, int]


def place(slots: Sequence[Slot], align: int = 4) -> Arena:
    """Give every slot an offset: the largest first, each at the lowest free place (greedy first fit).

    Two slots share memory only if their lives ``[born, dies]`` do not overlap in time, or if one is `over` the other.

    Args:
        align: a power of two, in bytes; offsets and the arena's size are multiples of it.

    Raises:
        BlrcError: `align` is not a power of two.
    """
    if align < 1 or align & (align - 1):
        raise BlrcError(f"arena alignment {align}: must be a power of two")
    merged = _merge(slots)
    placed: list[tuple[int, int, _Block]] = []
    for block in sorted(merged, key=lambda b: (-b.nbytes, b.born, b.names)):
        offset = 0
        for start, end, other in sorted(placed, key=lambda p: p[:2]):
            if block.born <= other.dies and other.born <= block.dies and offset + block.nbytes > start:
                offset = max(offset, -(-end // align) * align)
        placed.append((offset, offset + block.nbytes, block))
    size = max((end for _, end, _ in placed), default=0)
    offsets = {name: start for start, _, block in placed for name in block.names}
    return Arena(-(-size // align) * align, {slot.name: offsets[slot.name] for slot in slots})


@dataclass(frozen=True)
class _Block:
    """Hold slots that share their memory from `born` to `dies`."""

    names: tuple[str, ...]
    nbytes: int
    born: int
    dies: int


def _merge(slots: Sequence[Slot]) -> list[_Block]:
    blocks: list[_Block] = []
    for slot in slots:
        below = next((b for b in blocks if b.names[-1] == slot.over), None)
        if below is not None and slot.nbytes <= below.nbytes and below.dies == slot.born:
            blocks.remove(below)
            blocks.append(_Block((*below.names, slot.name), below.nbytes, below.born, slot.dies))
        else:
            blocks.append(_Block((slot.name,), slot.nbytes, slot.born, slot.dies))
    return blocks
