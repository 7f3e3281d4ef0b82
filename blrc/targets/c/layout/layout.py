"""From a program to steps and tables as the portable kernels want them. Text comes later, in `emit`.

A step is one call of a kernel. It is an op, except that an `Encode` whose only reader is a convolution is fused into
that convolution: the codes are looked up where they are read, and their map is never stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, assert_never
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.bits import pack, unpack, words
from blrc.program.program import INT32_MAX, BinaryScores, Conv, DType, Encode, Op, Pool, Program, Scores, Value
from blrc.targets.c.kernels import columns, eights, hosts, slices
from blrc.targets.c.kernels.cpus import AARCH64, CORTEX_M55, CPUS, PORTABLE, X86_64
from blrc.targets.c.kernels.hosts import HOSTS
from blrc.targets.c.kernels.steps import Step, Table, mapped, plain
from blrc.targets.c.layout import strips
from blrc.targets.c.layout.arena import Arena

__all__ = ["AARCH64", "CORTEX_M55", "CPUS", "HOSTS", "PORTABLE", "X86_64", "Layout", "Step", "Table", "lay_out"]

ROWS = 4  # BLRC_ROWS of the runtime: output channels that share one activation word
GATHER_WORDS = 36  # BLRC_GATHER_WORDS
VECTOR_GATHER_WORDS = 144  # where bits are counted in vectors, one count for a pixel is worth the stack
CODES = 32  # BLRC_CODES
CODE_ROWS = 16  # BLRC_CODE_ROWS
INT16_MAX = 2**15 - 1
PAIR_SUMS = 2**14 - 1  # twice that, the threshold's distance included, stays within 16 bits
ARENA_ALIGN = 4
CONV_INPUTS: tuple[DType, ...] = ("bits", "int8")
SLICED = (
    "conv_slices",
    "conv_quads",
    "conv_eights",
    "dense_columns",
    "dense_quads",
)  # by name, with memory of their own


@dataclass(frozen=True, eq=False)
class Layout:
    """Steps in order, and the place of every value but the input. The scores have one for ensembles.

    Attributes:
        groups: first step and the one after the last; where there are several, they run together row by row (`strips`).
        rows: of the maps between steps of a group, by the value's name: how many rows the arena holds of it.
        thresholds: bits of a threshold (16 or 32) by the type of what convolutions read, ``bits`` and ``int8``.
        cpu: what it is made for: ``portable``, one of `HOSTS`, or ``cortex-m55``, which slices bits in vectors.
    """

    program: Program
    steps: tuple[Step, ...]
    groups: tuple[tuple[int, int], ...]
    rows: Mapping[str, int]
    arena: Arena
    align: int
    thresholds: Mapping[DType, int]
    cpu: str = PORTABLE

    @property
    def arena_bytes(self) -> int:
        """Bytes that the caller gives: never 0, so that an array of that size may be declared."""
        return max(self.arena.size, self.align)

    def slot_bytes(self, value: Value) -> int:
        """Bytes of the arena that hold a value, or the rows that are kept of it."""
        return value.nbytes // value.shape[0] * self.rows.get(value.name, value.shape[0])

    @property
    def sliced(self) -> frozenset[str]:
        """Names of the ops that are bit-sliced."""
        return frozenset(step.op.name for step in self.steps if step.kernel in SLICED)

    def step(self, op: str, name: str) -> Step:
        """The step that computes `op` in the C of model `name`.

        Raises:
            BlrcError: there is none; a fused encoding has none of its own.
        """
        for step in self.steps:
            if step.op.name == op:
                return step
        raise BlrcError(f"{name}: no step {op!r} in the C; there are {[s.op.name for s in self.steps]}")

    def in_strips(self, step: Step) -> bool:
        """The step runs row by row, together with others."""
        at = self.steps.index(step)
        return any(first <= at < end and end - first > 1 for first, end in self.groups)


def lay_out(program: Program, sliced: Collection[str] = (), pays: int | None = None, cpu: str = PORTABLE) -> Layout:
    """Choose kernels, lay out tables, plan the arena.

    Args:
        sliced: names of convolutions that `slices.fits`, which are to be bit-sliced.
        pays: see `strips.plan`.
        cpu: one of `CPUS`. For `HOSTS` no maps are kept in strips: there is memory, and whole maps are faster.

    Raises:
        BlrcError: a map is too large for the kernels' 32-bit indices.
    """
    for op in program.ops:
        if max(op.x.nbytes, op.y.nbytes) >= 2**31:
            raise BlrcError(f"layer {op.name!r}: a map of 2 GiB or more cannot be indexed; use smaller input")
    fused = _fused(program)
    thresholds = {dtype: threshold_bits(program, dtype) for dtype in CONV_INPUTS}
    encodes = {op.y.name: op for op in program.ops if isinstance(op, Encode)}
    gathered = VECTOR_GATHER_WORDS if cpu == CORTEX_M55 else GATHER_WORDS
    steps = []
    for op in program.ops:
        if op.y.name in fused:
            continue
        encode = encodes[op.x.name] if op.x.name in fused else None
        special = hosts.step(program, op, encode, cpu) if cpu in HOSTS else None
        if op.name in sliced and isinstance(op, Conv):
            special = _sliced(program, op, encode, lanes_of(cpu))
        steps.append(special or _step(program, op, encode, thresholds, gathered))
    work = [_work(step) for step in steps]
    if cpu in HOSTS:
        planned = strips.placed(work, [(i, i + 1) for i in range(len(work))], ARENA_ALIGN)
    else:
        planned = strips.plan(work, ARENA_ALIGN, pays)
    return Layout(program, tuple(steps), planned.groups, planned.rows, planned.arena, ARENA_ALIGN, thresholds, cpu)


def threshold_bits(program: Program, dtype: DType) -> int:
    """Bits that hold every threshold of the convolutions that read `dtype`: 16, or 32 where one needs them.

    A threshold is at most the largest sum + 1, and "never" must be more than every sum: 16 bits are enough where no sum
    is above 2^15 - 2. One width for all of them, so that each kernel is compiled for one type.
    """
    sums = [program.bounds(op)[1] for op in program.ops if isinstance(op, Conv) and op.x.dtype == dtype]
    return 16 if all(largest + 1 <= INT16_MAX for largest in sums) else 32


def _fused(program: Program) -> frozenset[str]:
    """Values that are never stored: codes that exactly one convolution reads."""
    fused = set()
    for op in program.ops:
        readers = [other for other in program.ops if other.x == op.y]
        if isinstance(op, Encode) and len(readers) == 1 and isinstance(readers[0], Conv):
            fused.add(op.y.name)
    return frozenset(fused)


def _work(step: Step) -> strips.Work:
    in_place = isinstance(step.op, Pool) and step.op.window.padding[:2] == (0, 0)
    by_rows = step.op if isinstance(step.op, Conv) and step.kernel not in ("dense", *SLICED) else None
    return strips.Work(step.x, step.y, by_rows, in_place, step.scratch)


def _step(program: Program, op: Op, encode: Encode | None, thresholds: Mapping[DType, int], gathered: int) -> Step:
    if isinstance(op, Encode):
        return Step(op, None, "encode", "several layers read the codes", 1, (plain(program, "table", op.table),))
    if isinstance(op, Conv):
        bits = thresholds[op.x.dtype]
        return _conv(program, op, encode, bits) if op.x.dtype == "int8" else _bit_conv(program, op, bits, gathered)
    if isinstance(op, Pool):
        return Step(op, None, "pool_or", "no convolution before it could take it in", 1, ())
    if isinstance(op, Scores):
        kind = program.constants[op.weights].tables[0].dtype.name
        tables = plain(program, "weights", op.weights), plain(program, "bias", op.bias)
        return Step(op, None, f"scores_{kind}", f"{kind} weights", 1, tables)
    if isinstance(op, BinaryScores):
        tables = plain(program, "weights", op.weights), plain(program, "multiplier", op.multiplier)
        why = f"binary weights, {op.fan_in} inputs"
        return Step(op, None, "scores_binary", why, 1, (*tables, plain(program, "bias", op.bias)))
    assert_never(op)


def _conv(program: Program, op: Conv, encode: Encode | None, bits: int) -> Step:
    largest = program.bounds(op)[1]
    why = f"8-bit input, {op.fan_in} codes a row"
    lay = lambda t: code_rows(t, op.group_channels, op.groups)  # noqa: E731
    if op.groups == 1 and op.fan_in <= CODES and largest <= PAIR_SUMS:
        kernel, change = "conv_pairs", lambda t: starts(t, largest)
        why += f", sums within {largest}: two pixels at once"
        if 3 <= op.window.kernel[1] * op.group_channels <= 4 and op.window.dilation[0] == 1:
            kernel, lay = "conv_columns", lambda t: column_rows(t, op.group_channels)
            why += ", column by column"
    else:
        kernel, change = "conv_codes", lambda t: never_padded(t, 8, op.groups, bits)
    tables = [
        mapped("weights", program.constants[op.weights], lay),
        mapped("thresholds", program.constants[op.thresholds], change),
    ]
    if encode is not None:
        tables.insert(0, plain(program, "table", encode.table))
        why += ", table look-up fused"
    return Step(op, encode, kernel, why, 1, tuple(tables))


def _bit_conv(program: Program, op: Conv, bits: int, gathered: int) -> Step:
    total, packed = op.window.taps * words(op.group_channels), words(op.fan_in)
    per_group = op.y.shape[2] // op.groups
    rows = ROWS if op.groups == 1 or per_group % ROWS == 0 else 1
    if op.is_dense and op.groups == 1 and op.pool is None and not any(op.window.padding):
        kernel, why = "dense", f"the kernel is the whole map: one run of {total} words"
    elif packed < total and packed <= gathered:
        kernel, why = "conv_packed", f"taps of {op.group_channels} bits: {packed} words a row without gaps, not {total}"
    elif op.groups == 1 and total > gathered and (op.window.dilation[1] == 1 or op.window.kernel[1] == 1):
        kernel, why = "conv_rows", f"{total} words a row, kernel rows contiguous"
    elif total <= gathered:
        kernel, why = "conv_gather", f"{total} words a row fit the gather buffer"
    else:
        kernel, why = "conv_taps", f"{total} words a row with groups or dilation"
    if kernel == "conv_packed":
        change = lambda t: blocked(pack(unpack(t, op.group_channels).reshape(len(t), -1)), rows)  # noqa: E731
    else:
        change = lambda t: blocked(t.reshape(len(t), -1), rows)  # noqa: E731
    weights = mapped("weights", program.constants[op.weights], change)
    thresholds = mapped("thresholds", program.constants[op.thresholds], lambda t: never_padded(t, rows, 1, bits))
    return Step(op, None, kernel, why, rows, (weights, thresholds))


def lanes_of(cpu: str) -> int:
    """Pixels that a bit-sliced convolution computes at once."""
    return 4 * slices.LANES if cpu == CORTEX_M55 else slices.LANES


def _sliced(program: Program, op: Conv, encode: Encode | None, lanes: int) -> Step:
    """The step with memory of its own, laid out once: choosing asks for it again and again."""
    known = _laid_out.setdefault(program, {})
    if (op.name, lanes) not in known:
        if op.x.dtype != "bits":
            made = _eights(program, op, encode)
        else:
            made = columns.step(program, op, lanes) if columns.fits(op) else slices.step(program, op, lanes)
        known[op.name, lanes] = made
    return known[op.name, lanes]


_laid_out: WeakKeyDictionary[Program, dict[tuple[str, int], Step]] = WeakKeyDictionary()


def _eights(program: Program, op: Conv, encode: Encode | None) -> Step:
    scratch, largest = eights.scratch_bytes(op), program.bounds(op)[1]
    lay = lambda t: code_rows(t, op.group_channels, 1)  # noqa: E731
    tables = [
        mapped("weights", program.constants[op.weights], lay),
        mapped("thresholds", program.constants[op.thresholds], lambda t: eights.thresholds(t, largest)),
    ]
    why = f"8-bit input, {op.fan_in} codes a row: eight pixels at once, {scratch} bytes of memory besides"
    if encode is not None:
        tables.insert(0, plain(program, "table", encode.table))
        why += ", table look-up fused"
    return Step(op, encode, "conv_eights", why, 1, tuple(tables), scratch)


def blocked(rows: NDArray[np.uint32], block: int) -> NDArray[np.uint32]:
    """Interleave rows of words, ``(out, words)``: ``[block][pair][row][2]``, then an odd last word ``[row]``, flat.

    Missing rows of the last block are zeros.
    """
    if block == 1:
        return rows.reshape(-1)
    out, total = rows.shape
    padded = np.zeros((-(-out // block) * block, total), dtype=np.uint32)
    padded[:out] = rows
    blocks = padded.reshape(-1, block, total)
    pairs = blocks[:, :, : total // 2 * 2].reshape(len(blocks), block, total // 2, 2).transpose(0, 2, 1, 3)
    return np.concatenate([pairs.reshape(len(blocks), -1), blocks[:, :, total // 2 * 2 :].reshape(len(blocks), -1)], 1)


def never_padded(thresholds: NDArray[np.int32], block: int, groups: int = 1, bits: int = 32) -> NDArray[Any]:
    """Thresholds of so many bits for whole blocks in every group: missing rows never pass."""
    by_group = thresholds.reshape(groups, -1)
    kind, never = (np.int16, INT16_MAX) if bits == 16 else (np.int32, INT32_MAX)
    missing = ((0, 0), (0, -by_group.shape[1] % block))
    return np.pad(by_group, missing, constant_values=never).reshape(-1).astype(kind)


def starts(thresholds: NDArray[np.int32], largest: int) -> NDArray[np.uint32]:
    """Where sums of at most `largest` start, in both halves of a word, for whole blocks of 8 rows: from 32768 on they
    pass. Missing rows never do."""
    padded = np.pad(thresholds, (0, -len(thresholds) % 8), constant_values=largest + 1)
    return ((2**15 - padded).astype(np.uint32) * np.uint32(2**16 + 1)).astype(np.uint32)


def column_rows(weights: NDArray[np.uint32], channels: int) -> NDArray[np.uint32]:
    """As `code_rows`, but every kernel row, of at most four codes, has a nibble of its own."""
    bits = unpack(weights, channels).reshape(*weights.shape[:2], 1, -1)
    return code_rows(pack(np.pad(bits, ((0, 0), (0, 0), (0, 0), (0, 4 - bits.shape[3])))), 4, 1)


def code_rows(weights: NDArray[np.uint32], channels: int, groups: int) -> NDArray[np.uint32]:
    """Weights of an 8-bit convolution, ``[group][block of 16 rows][8 nibbles][8 rows][nibble]``, flat.

    A row is its taps' bits without gaps, cut into nibbles; a word holds the same nibble of 8 rows. Missing bits are 0.

    Args:
        weights: uint32 ``(out, kernel h, kernel w, words(channels))``.
        channels: of one group.
    """
    bits = unpack(weights, channels).reshape(groups, len(weights) // groups, -1)
    _, per_group, fan_in = bits.shape
    eights, nibbles = -(-per_group // 8), -(-fan_in // 4)
    padded = np.zeros((groups, eights * 8, nibbles * 4), dtype=np.bool_)
    padded[:, :per_group, :fan_in] = bits
    # (groups, eights, 8 rows, nibbles, 4 bits) to one word for each nibble of eight rows
    by_nibble = padded.reshape(groups, eights, 8, nibbles, 4).transpose(0, 1, 3, 2, 4)
    packed = pack(by_nibble.reshape(groups, eights, nibbles, 32))[..., 0]
    block = CODE_ROWS // 8
    parts = [
        packed[g, e : e + block, k : k + 8].reshape(-1)
        for g in range(groups)
        for e in range(0, eights, block)
        for k in range(0, nibbles, 8)
    ]
    return np.concatenate(parts)
