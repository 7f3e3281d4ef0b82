from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.targets.c.layout.arena import Slot, place


@st.composite
def slot_lists(draw: st.DrawFn) -> list[Slot]:
    slots = []
    for i in range(draw(st.integers(0, 12))):
        born = draw(st.integers(0, 10))
        over = draw(st.sampled_from([None, *(slot.name for slot in slots)]))
        slots.append(Slot(f"s{i}", draw(st.integers(0, 70)), born, born + draw(st.integers(0, 5)), over))
    return slots


def may_share(a: Slot, b: Slot) -> bool:
    """Two slots whose lives meet only in the step in which one is worked into the other."""
    return (a.over == b.name and b.dies == a.born) or (b.over == a.name and a.dies == b.born)


@given(slot_lists(), st.sampled_from([1, 2, 4, 8, 64]))
def test_no_two_live_slots_overlap(slots: list[Slot], align: int) -> None:
    arena = place(slots, align)
    assert set(arena.offsets) == {slot.name for slot in slots}
    assert arena.size % align == 0
    for slot in slots:
        assert arena.offsets[slot.name] % align == 0
        assert 0 <= arena.offsets[slot.name] <= arena.size - slot.nbytes
    for a, b in combinations(slots, 2):
        together = a.born <= b.dies and b.born <= a.dies
        at_a, at_b = arena.offsets[a.name], arena.offsets[b.name]
        if together and not may_share(a, b) and a.nbytes and b.nbytes:
            assert at_a + a.nbytes <= at_b or at_b + b.nbytes <= at_a, (a, b)


@given(slot_lists())
def test_the_arena_is_no_smaller_than_what_lives_at_once_and_no_larger_than_all(slots: list[Slot]) -> None:
    size = place(slots, 1).size
    assert size <= sum(slot.nbytes for slot in slots)
    assert all(size >= slot.nbytes for slot in slots)


def test_a_chain_needs_its_two_largest_neighbours() -> None:
    chain = [Slot("a", 784, 0, 1), Slot("b", 392, 1, 2), Slot("c", 64, 2, 3)]
    assert place(chain).size == 784 + 392


def test_in_place_work_takes_no_memory_of_its_own() -> None:
    slots = [Slot("a", 100, 0, 1), Slot("b", 50, 1, 2, over="a")]
    assert place(slots).offsets == {"a": 0, "b": 0}
    assert place(slots).size == 100


@pytest.mark.parametrize(
    "second",
    [
        Slot("b", 101, 1, 2, over="a"),  # larger than what it would take
        Slot("b", 50, 0, 2, over="a"),  # born while the other is still read later
    ],
)
def test_memory_is_not_taken_over_where_that_is_unsafe(second: Slot) -> None:
    assert place([Slot("a", 100, 0, 1), second]).size > 104


def test_a_slot_that_others_still_read_is_not_taken_over() -> None:
    arena = place([Slot("a", 100, 0, 3), Slot("b", 50, 1, 2, over="a")])
    assert arena.size == 152


@pytest.mark.parametrize("align", [0, 3, -4])
def test_alignment_must_be_a_power_of_two(align: int) -> None:
    with pytest.raises(BlrcError, match="power of two"):
        place([], align)
