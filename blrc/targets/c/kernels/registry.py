"""List all kernels, and choose the cheapest one that fits an op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blrc.errors import BlrcError
from blrc.program.ops.conv import Conv
from blrc.program.ops.op import WeightedOp
from blrc.targets.c.kernels.families import codes, columns, eights, levels, scores, slices, ternary, whole, words
from blrc.targets.c.kernels.families.host import dots, lanes, tiles
from blrc.targets.c.kernels.kernel import Kernel, Task

KERNELS: Mapping[str, Kernel[Any]] = {
    kernel.name: kernel
    for family in (slices, lanes, tiles, words, columns, eights, codes, dots, scores, levels, ternary, whole)
    for kernel in family.FAMILY
}
"""All kernels by name. Of those that fit and cost the same, the first is taken."""


def fitting(task: Task[Any], takes_ram: bool | None = None) -> Iterator[Kernel[Any]]:
    """Yield the kernels that can compute a task.

    Args:
        takes_ram: True yields only kernels that trade memory for speed, False only the others, and None both.
    """
    of_ternary = isinstance(task.op, WeightedOp) and task.op.has_zeros
    of_whole = isinstance(task.op, Conv) and task.op.whole
    of_levels = not of_ternary and not of_whole and (task.op.x.is_codes or task.op.y.is_codes)
    for kernel in KERNELS.values():
        wanted = (takes_ram is None or kernel.takes_ram == takes_ram) and kernel.levels == of_levels
        wanted = wanted and kernel.ternary == of_ternary and kernel.whole == of_whole
        if wanted and isinstance(task.op, kernel.op) and kernel.exists_on(task.cpu) and kernel.fits(task):
            yield kernel


def cheapest(task: Task[Any], takes_ram: bool | None = None) -> Kernel[Any]:
    """Return the kernel that computes a task in the fewest instructions.

    Args:
        takes_ram: see `fitting`.

    Raises:
        BlrcError: no kernel fits; the message names the op.
    """
    found = list(fitting(task, takes_ram))
    if not found:
        kind = type(task.op).__name__
        raise BlrcError(f"layer {task.op.name!r}: the C target has no kernel for {kind} on {task.cpu.name}")
    return min(found, key=lambda kernel: kernel.cost(task))
