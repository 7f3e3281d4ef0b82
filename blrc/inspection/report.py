"""Present an inspection as text or plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from blrc.display import NO_TERMINAL, Preformatted, sizes, table
from blrc.inspection import choices, divergence
from blrc.net.encoding import InputEncoding


@dataclass(frozen=True)
class LayerReport:
    """Describe one layer as the C target runs it.

    A max pool that is fused into a convolution is part of the convolution's `geometry`.

    Attributes:
        name: the user's name for the layer, or ``input.encode`` for the look-up of input codes.
        kind: ``encode``, ``conv``, ``grouped conv``, ``depthwise conv``, ``dense``, ``pool`` or ``softmax``.
        geometry: the kernel, and stride, dilation, groups and fused pool where there are any; if layers run row by row,
            how many rows of the output are kept at a time.
        input, output: shapes (height, width, channels).
        kernel: the runtime's function that computes the layer, without its prefix ``blrc_``.
        weights: the number of weights.
        certainty: mean probability of random weights' likeliest values, from their 8-bit codes; None if there are
            none, or if they are fixed (a Binarized NN).
        settled: fraction of them whose likeliest value has a probability above 0.9.
        bits_per_weight: bits of the C's weight table for each weight, padding included; None without weights.
        flash: bytes of all constant tables (weights, thresholds, biases, input codes), without code.
        ram: bytes of the output's slot in the arena; 0 for what is never stored, and for the scores, which are in the
            caller's buffer.
        stack: bytes of stack that ``NAME_predict`` takes while it runs the layer; 0 if its kernel does more than that
            layer.
        binary_operations: multiply-adds of +-1 with +-1 (XNOR and popcount) in one inference; a tap outside the map is
            not computed, and so not counted.
        integer_operations: the same of an integer with +-1.
    """

    name: str
    kind: str
    geometry: str
    input: tuple[int, int, int]
    output: tuple[int, int, int]
    kernel: str
    weights: int
    certainty: float | None
    settled: float | None
    bits_per_weight: float | None
    flash: int
    ram: int
    stack: int
    binary_operations: int
    integer_operations: int


@dataclass(frozen=True, repr=False)
class Inspection(Preformatted):
    """Hold all layers in order, and totals.

    Attributes:
        source: the name of the checkpoint.
        encoding: the encoding of the input.
        calibration_samples: the number of calibration samples that the checkpoint holds.
        layers: the layers in order.
        weights, flash, binary_operations, integer_operations: sums over the layers.
        certainty, settled: means over all binary weights; None if there are none.
        bits_per_weight: bits of all weight tables together for each weight.
        arena: bytes of scratch memory: less than the sum of the layers' `ram`, since slots are shared over time.
        input_bytes, scores_bytes: bytes of the caller's buffers.
        stack, classify_stack: bytes of stack, upper bounds on a Cortex-M4 (`blrc.targets.c.size.footprint`): of the
            deeper call, which is ``NAME_predict``, and of ``NAME_classify``.
        code, certainty_code: bytes of code, upper bounds likewise: of ``NAME_classify``, and what ``NAME_predict`` adds
            to it.
        alignment: bytes that may be lost before tables.
        flash_total: bytes of tables, code and alignment, which `blrc export --flash` and the manifest count.
        choices: what one network and ensembles of it cost.
        heads: of a network with several heads, the name of each, and how many scores are its own.
        units: of a network that gives values, scale and offset of each head, as `blrc.program.program.Program.units`
            has them for the likeliest weights; empty for one that gives labels.
        divergence: where it was asked for, how far the weights of each layer are from their prior.
    """

    source: str
    encoding: InputEncoding
    calibration_samples: int
    layers: tuple[LayerReport, ...]
    weights: int
    certainty: float | None
    settled: float | None
    bits_per_weight: float
    flash: int
    arena: int
    input_bytes: int
    scores_bytes: int
    stack: int
    classify_stack: int
    code: int
    certainty_code: int
    alignment: int
    flash_total: int
    binary_operations: int
    integer_operations: int
    choices: tuple[choices.Choice, ...]
    heads: tuple[tuple[str, int], ...] = ()
    units: tuple[tuple[float, float], ...] = ()
    divergence: tuple[divergence.LayerDivergence, ...] = ()

    def __repr__(self) -> str:
        """Return the totals on one line; ``print`` shows the table."""
        return (
            f"Inspection({self.source!r}: {len(self.layers)} layers, {self.weights:,} weights, "
            f"flash {self.flash_total:,} bytes, arena {self.arena:,} bytes)"
        )

    def __str__(self) -> str:
        return to_text(self)


def to_plain(inspection: Inspection) -> dict[str, Any]:
    """Return the inspection as plain data for JSON; ratios that do not exist are null."""
    return asdict(inspection)


_COLUMNS = (
    "layer",
    "kind",
    "geometry",
    "input",
    "output",
    "kernel",
    "weights",
    "certainty",
    "settled",
    "bits/weight",
    "tables",
    "ram",
    "stack",
    "binary ops",
    "integer ops",
)
_TEXT_COLUMNS = 6


def to_text(inspection: Inspection, width: int = NO_TERMINAL) -> str:
    """Return the inspection as a table for a person, in lines of at most `width` characters where words allow it."""
    total = ("total", *[""] * (_TEXT_COLUMNS - 1), *_numbers(inspection, inspection.arena, inspection.stack))
    rows = [_COLUMNS, *(_row(layer) for layer in inspection.layers), total]
    lines = [_input_line(inspection), "", *table(rows, _TEXT_COLUMNS, width)]
    ram = inspection.arena + inspection.input_bytes + inspection.scores_bytes + inspection.stack
    lines += [
        "",
        "certainty: mean probability of the likeliest value; settled: of above 0.9; ops: multiply-adds inside the map;",
        "tables, ram: bytes of tables and of the output's slot; total of ram: the arena, whose slots are shared;",
        "stack: bytes of predict while the layer runs; code and stack are upper bounds for a Cortex-M4, -Os",
        f"flash: tables {inspection.flash:,} bytes, code {inspection.code:,} and alignment {inspection.alignment:,}: "
        f"{inspection.flash_total:,} bytes; "
        f"mean and variance take {inspection.certainty_code:,} more",
        f"ram: arena {inspection.arena:,} bytes, the caller's input {inspection.input_bytes:,} and scores "
        f"{inspection.scores_bytes:,}, stack {inspection.stack:,}: {ram:,} bytes",
        f"stack: of predict; {'values' if inspection.units else 'classify'} takes {inspection.classify_stack:,} bytes",
        "",
        *choices.to_text(inspection.choices, width),
        "networks run: by predict in the C, which "
        + ("asks all members" if inspection.units else "stops when the label is settled"),
    ]
    if inspection.divergence:
        lines += ["", *divergence.to_text(inspection.divergence, width)]
    return "\n".join(lines)


def _row(layer: LayerReport) -> tuple[str, ...]:
    shapes = (sizes(layer.input), sizes(layer.output))
    return (layer.name, layer.kind, layer.geometry, *shapes, layer.kernel, *_numbers(layer, layer.ram, layer.stack))


def _numbers(of: LayerReport | Inspection, ram: int, stack: int) -> tuple[str, ...]:
    return (
        f"{of.weights:,}",
        "-" if of.certainty is None else f"{of.certainty:.3f}",
        "-" if of.settled is None else f"{100 * of.settled:.1f} %",
        "-" if of.bits_per_weight is None else f"{of.bits_per_weight:.2f}",
        f"{of.flash:,}",
        f"{ram:,}",
        f"{stack:,}" if stack else "-",
        f"{of.binary_operations:,}",
        f"{of.integer_operations:,}",
    )


def _input_line(inspection: Inspection) -> str:
    encoding = inspection.encoding
    shape = sizes(encoding.shape)
    text = f"{inspection.source}: input {encoding.kind} {shape}" + (" (C, H, W)" if len(encoding.shape) == 3 else "")
    if encoding.at:
        text += f", +1 from {', '.join(map(str, encoding.at))} on"
    elif encoding.exact:
        text += ", not rounded"
    elif encoding.kind != "bits":
        text += f", {encoding.scale:.4g} codes a unit"
    if encoding.mean:
        mean, std = ([f"{value:.4g}" for value in values] for values in (encoding.mean, encoding.std))
        text += f" of (x/255 - mean)/std, mean {', '.join(mean)}, std {', '.join(std)}"
    word = "values" if inspection.units else "scores"
    heads = ", ".join(f"{name} ({classes} {word})" for name, classes in inspection.heads)
    if inspection.units:
        text += "; values = " + ", ".join(f"{scale:.6g} x int32 {offset:+.6g}" for scale, offset in inspection.units)
    return f"{text}; {inspection.calibration_samples:,} calibration samples" + (f"; heads {heads}" if heads else "")
