"""What an export trades: RAM for speed, or code for RAM."""

from __future__ import annotations

from collections.abc import Mapping

from blrc.program.program import Conv, Program
from blrc.targets.c.kernels import columns, eights, slices
from blrc.targets.c.layout.layout import CORTEX_M55, HOSTS, PORTABLE, Layout, lanes_of, lay_out
from blrc.targets.c.size import footprint
from blrc.targets.requests import Optimize

LEAST_LANES = {slices.LANES: 0.25, 4 * slices.LANES: 0.3}
"""Of the lanes that a bit-sliced convolution computes, so many have to be pixels that are wanted."""
LEAST_OUTPUTS = 4
"""Outputs that share a bit-sliced convolution's taps."""
LEAST_EIGHTS = 0.6
"""Of the lanes of a first layer's vectors, so many have to be pixels."""
LEAST_EIGHTS_OUTPUTS = 16
"""Outputs that share their tables of sums."""


def choose(
    program: Program, optimize: Optimize, ram: int | None = None, cpu: str = PORTABLE, flash: int | None = None
) -> Layout:
    """The layout of an export.

    Args:
        optimize: ``size``: no memory but for maps. ``speed``: what takes fewer instructions on CPUs without a popcount
            instruction or vectors (or, for a Cortex-M55, with its vectors), as long as it fits into `ram` and `flash`;
            given up first is what needs most memory, and for `flash` what leaves least without it. ``ram``: row strips
            wherever they save any (`strips`), for more code.
        ram: bytes that the C may take, the caller's buffers and the stack included (`memory.Memory.ram_bytes`).
        flash: likewise, code and tables (`memory.Memory.flash_bytes`).
        cpu: one of `blrc.targets.c.layout.layout.CPUS`. For `HOSTS` there is nothing to choose.
    """
    plain = lay_out(program, cpu=cpu)
    if optimize == "size" or cpu in HOSTS:
        return plain
    if optimize == "ram":
        return min(plain, lay_out(program, pays=1, cpu=cpu), key=lambda layout: footprint.measure(layout).ram_bytes)
    lanes = lanes_of(cpu)
    convs = [op for op in program.ops if isinstance(op, Conv)]
    wanted = {op.name: slices.scratch_bytes(op, lanes) for op in convs if _pays(op, lanes)}
    wanted |= {
        op.name: columns.scratch_bytes(op, lanes) for op in convs if columns.fits(op) and columns.pays(op, lanes)
    }
    if cpu == CORTEX_M55:
        wanted |= {op.name: eights.scratch_bytes(op) for op in convs if _eights_pay(op)}
    while wanted:
        layout = lay_out(program, wanted, cpu=cpu)
        found = footprint.measure(layout)
        if ram is not None and found.ram_bytes > ram:
            del wanted[max(wanted, key=lambda name: (wanted[name], name))]
        elif flash is not None and found.flash_bytes > flash:
            del wanted[_heaviest(program, wanted, cpu)]
        else:
            return layout
    return plain


def _heaviest(program: Program, wanted: Mapping[str, int], cpu: str) -> str:
    """That without which the C takes least flash; of equals, the one that needs most memory."""

    def without(name: str) -> int:
        return footprint.measure(lay_out(program, wanted.keys() - {name}, cpu=cpu)).flash_bytes

    return min(wanted, key=lambda name: (without(name), -wanted[name], name))


def _pays(op: Conv, lanes: int) -> bool:
    """Being bit-sliced takes fewer instructions than counting bits."""
    if not slices.fits(op) or op.y.shape[2] < LEAST_OUTPUTS:
        return False
    pool = 1 if op.pool is None else 2
    pixels = op.y.shape[0] * op.y.shape[1] * pool * pool
    rows = lanes // slices.pitch(op)
    words = -(-op.y.shape[0] * pool // rows)
    return pixels >= LEAST_LANES[lanes] * lanes * words


def _eights_pay(op: Conv) -> bool:
    """Eight pixels at once take fewer instructions than two."""
    return (
        eights.fits(op) and op.y.shape[2] >= LEAST_EIGHTS_OUTPUTS and op.unpooled[1] >= LEAST_EIGHTS * eights.lanes(op)
    )
