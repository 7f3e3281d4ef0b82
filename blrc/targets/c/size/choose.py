"""Choose what an export trades: RAM for speed, or code for RAM."""

from __future__ import annotations

from blrc.program.program import Program
from blrc.targets.c.kernels.kernel import Step
from blrc.targets.c.kernels.registry import cheapest
from blrc.targets.c.layout.layout import HOSTS, PORTABLE, Layout, lay_out, tasks
from blrc.targets.c.size import footprint
from blrc.targets.requests import Optimize


def choose(
    program: Program, optimize: Optimize, ram: int | None = None, cpu: str = PORTABLE, flash: int | None = None
) -> Layout:
    """Return the layout of an export.

    With ``size`` an export takes no memory except for maps. With ``speed`` it takes the kernels with the fewest
    instructions, even if they need memory, as long as they fit into `ram` and `flash`. If they do not fit, kernels that
    need memory are given up one by one: for `ram` the one that needs the most, and for `flash` the one without which
    the C takes the least flash. A layout without any of them is returned whether it fits or not. With ``ram`` steps run
    in row strips wherever these save any RAM (`blrc.targets.c.layout.strips`), for more code.

    Args:
        optimize: ``size``, ``speed`` or ``ram``. ``speed`` is about CPUs without a popcount instruction or vectors, or,
            for a Cortex-M55, with its vectors.
        ram: bytes that the C may take, the caller's buffers and the stack included (`footprint.Memory.ram_bytes`).
        flash: bytes of code and tables that the C may take (`footprint.Memory.flash_bytes`).
        cpu: one of `blrc.targets.c.layout.layout.CPUS`. For `HOSTS` there is nothing to choose.
    """
    made: dict[tuple[str, str], Step] = {}
    plain = lay_out(program, cpu=cpu, made=made)
    if optimize == "size" or cpu in HOSTS:
        return plain
    if optimize == "ram":
        strips = lay_out(program, pays=1, cpu=cpu, made=made)
        return min(plain, strips, key=lambda layout: footprint.measure(layout).ram_bytes)
    best = {task.op.name: (cheapest(task), task) for task in tasks(program, cpu)}
    wanted = {name: kernel.scratch(task) for name, (kernel, task) in best.items() if kernel.takes_ram}

    def bytes_without(name: str) -> int:
        return footprint.measure(lay_out(program, wanted.keys() - {name}, cpu=cpu, made=made)).flash_bytes

    while wanted:
        layout = lay_out(program, wanted, cpu=cpu, made=made)
        found = footprint.measure(layout)
        if ram is not None and found.ram_bytes > ram:
            del wanted[max(wanted, key=lambda name: (wanted[name], name))]
        elif flash is not None and found.flash_bytes > flash:
            # The one without which the C takes the least flash; of equals, the one that needs the most memory.
            del wanted[min(wanted, key=lambda name: (bytes_without(name), -wanted[name], name))]
        else:
            return layout
    return plain
