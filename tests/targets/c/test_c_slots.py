"""One compiled library for all networks of a structure, whose tables are given while it runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from c_exports import one_conv
from every_kernel import binary_scores, gated_members, words_of_groups
from random_programs import alone, random_inputs, random_program

from blrc.errors import BlrcError
from blrc.program import program_file, reference
from blrc.program.program import Window
from blrc.targets.c.kernels.cpus import PORTABLE
from blrc.targets.c.native import library
from blrc.targets.c.native import slots as slots_module
from blrc.targets.c.native.slots import SLOTS, Slots, structure

QUICK = ("-O1",)


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """C without the levels of this machine, of which there are fewer files to compile."""
    for module in (library, slots_module):
        monkeypatch.setattr(module, "host_cpu", lambda: PORTABLE)


@pytest.mark.nightly
@pytest.mark.parametrize("make", [gated_members, words_of_groups, binary_scores])
@pytest.mark.needs("clang")
def test_every_kernel(make: Any) -> None:
    program = make()
    raw = random_inputs(program, 20)
    slots = Slots(program, QUICK, "clang")
    for member in range(len(program.members)):
        one = alone(program, member)
        np.testing.assert_array_equal(slots.scores(one, raw), reference.scores(program, raw, member))
    slots.close()


def test_regression_lists_of_taps_are_of_one_length_whatever_the_weights() -> None:
    """A network with bit-sliced layers had other tables than its own structure."""
    window = Window((3, 3), padding=(1, 1, 1, 1))
    programs = [one_conv((16, 16, 8), 33, window, seed=seed) for seed in range(3)]
    raw = random_inputs(programs[0], 20)
    slots = Slots(programs[0], QUICK)
    for program in programs:
        np.testing.assert_array_equal(slots.scores(program, raw), reference.scores(program, raw))
    slots.close()


@pytest.mark.usefixtures("portable")
def test_more_networks_at_once_than_there_are_slots() -> None:
    program = random_program(4, "uint8", members=3 * SLOTS)
    raw = random_inputs(program, 50)
    members = [alone(program, member) for member in range(len(program.members))]
    slots = Slots(members[0], QUICK)
    with ThreadPoolExecutor(2 * SLOTS) as pool:
        found = list(pool.map(lambda one: slots.scores(one, raw, threads=2), members * 4))
    for i, scores in enumerate(found):
        np.testing.assert_array_equal(scores, reference.scores(program, raw, i % len(members)))
    assert len({scores.tobytes() for scores in found}) == len(members)  # else nothing was tested


def test_networks_of_one_structure_share_a_library() -> None:
    program = random_program(4, "uint8", members=2)
    first, second = alone(program, 0), alone(program, 1)
    assert program_file.digest(first) != program_file.digest(second)
    assert program_file.digest(structure(first)) == program_file.digest(structure(second))
    assert program_file.digest(structure(replace(first, score_scale=0.5))) == program_file.digest(structure(first))
    other = random_program(5, "uint8", first.input.shape)
    assert program_file.digest(structure(first)) != program_file.digest(structure(other))


@pytest.mark.usefixtures("portable")
def test_a_network_with_other_tables_is_refused_and_the_slot_is_free_again() -> None:
    program, other = random_program(4, "uint8", (5, 5, 3)), random_program(7, "uint8", (5, 5, 3))
    raw = random_inputs(program, 5)
    slots = Slots(program, QUICK)
    for _ in range(2 * SLOTS):
        with pytest.raises(BlrcError, match="other tables than the one that was compiled"):
            slots.scores(other, raw)
        with pytest.raises(BlrcError, match="takes uint8"):
            slots.scores(program, raw.astype(np.int16))
    np.testing.assert_array_equal(slots.scores(program, raw), reference.scores(program, raw))
