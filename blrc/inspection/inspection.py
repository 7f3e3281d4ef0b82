"""Show what a checkpoint becomes on a device, layer by layer: certainty of its weights, flash, RAM and operations.

The network is lowered with the running norm statistics of training. They give other thresholds than an export's, but
the same sizes and counts, so no calibration samples are needed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import binary_layers, sample
from blrc.frontend.weights.record import WORD
from blrc.inspection import choices
from blrc.inspection.report import Inspection, LayerReport
from blrc.lowering.lower import lower
from blrc.net.window import Window
from blrc.program.program import Conv, Encode, Op, Pool, SumPool, WeightedOp
from blrc.reading.given import check_loaded
from blrc.targets.c.layout.layout import Layout, Step, lay_out
from blrc.targets.c.size import footprint

SETTLED = 0.1  # a weight is settled where the likeliest value has a probability above 1 minus this
HISTOGRAM = 40
_OP = {
    f"{weights}_{layer}": op
    for weights in ("binary", "ternary", "ste", "int8", "whole")
    for layer, op in (("linear", "dense"), ("conv1d", "conv"), ("conv2d", "conv"))
}


def inspect(checkpoint: Checkpoint) -> Inspection:
    """Lower the MAP network and measure every layer.

    Raises:
        BlrcError: the network cannot be compiled; the message names the layer.
    """
    check_loaded(checkpoint, "inspect")
    layout = lay_out(lower([sample(checkpoint, running=True)]))
    kinds = {node.name: node.kind for node in checkpoint.nodes}
    found = footprint.measure(layout)
    layers: list[LayerReport] = []
    for step in layout.steps:
        if step.encode is not None:
            layers.append(_fused_encode(step, step.encode))
        layers.append(_layer(checkpoint, layout, step, kinds, found.step_stack[step.op.name]))
    binary = [layer for layer in layers if layer.certainty is not None]
    binary_weights = sum(layer.weights for layer in binary)
    weights = sum(layer.weights for layer in layers)
    binary_operations = sum(layer.binary_operations for layer in layers)
    integer_operations = sum(layer.integer_operations for layer in layers)
    table_bits = 8 * sum(_bytes(step, "weights") for step in layout.steps)
    return Inspection(
        source=checkpoint.source,
        encoding=checkpoint.encoding,
        calibration_samples=0 if checkpoint.calibration is None else len(checkpoint.calibration),
        layers=tuple(layers),
        weights=weights,
        certainty=sum((b.certainty or 0.0) * b.weights for b in binary) / binary_weights if binary else None,
        settled=sum((b.settled or 0.0) * b.weights for b in binary) / binary_weights if binary else None,
        bits_per_weight=table_bits / weights,
        flash=sum(layer.flash for layer in layers),
        arena=layout.arena_bytes,
        input_bytes=layout.program.input.nbytes,
        scores_bytes=layout.program.output.nbytes,
        stack=found.stack,
        classify_stack=next(nbytes for call, nbytes in found.calls.items() if call != "predict"),
        code=found.code_bytes,
        certainty_code=found.certainty_flash,
        alignment=sum(part.nbytes for part in found.flash if part.what == "alignment"),
        flash_total=found.flash_bytes,
        binary_operations=binary_operations,
        integer_operations=integer_operations,
        choices=choices.choices(checkpoint, layout, binary_operations + integer_operations),
        heads=tuple((head.name, head.classes) for head in layout.program.heads),
        units=tuple((unit.scale, unit.offset) for unit in layout.program.units),
    )


def _fused_encode(step: Step, encode: Encode) -> LayerReport:
    flash = _bytes(step, "table")
    x, y = encode.x.shape, encode.y.shape
    return LayerReport(encode.name, "encode", "", x, y, step.kernel, 0, None, None, None, flash, 0, 0, 0, 0)


def _layer(checkpoint: Checkpoint, layout: Layout, step: Step, kinds: Mapping[str, str], stack: int) -> LayerReport:
    op = step.op
    certainty = settled = None
    weights = op.y.shape[2] * op.fan_in
    if op.name in binary_layers(checkpoint):
        larger = checkpoint.coded(op.name).counts().max(axis=-1) / WORD
        certainty, settled = float(larger.mean()), float((1.0 - larger < SETTLED).mean())
    kept = layout.rows.get(step.y.name)
    is_binary = isinstance(op, WeightedOp) and op.is_binary
    return LayerReport(
        name=op.name,
        kind=_kind(op, kinds),
        geometry=_geometry(op, kinds) + (f", {kept} rows kept" if kept else ""),
        input=op.x.shape,
        output=op.y.shape,
        kernel=step.kernel,
        weights=weights,
        certainty=certainty,
        settled=settled,
        bits_per_weight=8 * _bytes(step, "weights") / weights if weights else None,
        flash=step.flash - (_bytes(step, "table") if step.encode is not None else 0),
        ram=layout.slot_bytes(step.y) if step.y.name in layout.arena.offsets else 0,
        stack=stack,
        binary_operations=op.macs if is_binary else 0,
        integer_operations=0 if is_binary else op.macs,
    )


def _bytes(step: Step, role: str) -> int:
    return sum(table.nbytes for table in step.tables if table.role == role)


def _kind(op: Op, kinds: Mapping[str, str]) -> str:
    if not isinstance(op, Conv):
        return op.title
    if op.groups == 1:
        return _OP.get(kinds.get(op.name, ""), op.title)  # what turns a map back has no layer of its name
    return "depthwise conv" if op.groups == op.x.shape[2] else "grouped conv"


def _geometry(op: Op, kinds: Mapping[str, str]) -> str:
    if isinstance(op, Pool | SumPool):
        return _window(op.window)
    if not isinstance(op, Conv):
        return ""
    parts = [] if _kind(op, kinds) == "dense" else [_window(op.window)]
    if op.groups > 1:
        parts.append(f"{op.groups} groups")
    if op.pool is not None:
        parts.append(f"pool {_window(op.pool)}")
    return ", ".join(parts)


def _window(window: Window) -> str:
    parts = [_pair(window.kernel)]
    if window.stride != (1, 1):
        parts.append(f"stride {_pair(window.stride)}")
    if window.dilation != (1, 1):
        parts.append(f"dilation {_pair(window.dilation)}")
    return " ".join(parts)


def _pair(pair: tuple[int, int]) -> str:
    return f"{pair[0]}x{pair[1]}"


def weight_histograms(checkpoint: Checkpoint, bins: int = HISTOGRAM) -> dict[str, list[float]]:
    """Return for each layer of random weights the share of its weights with p(B = +1) in each of `bins` equal bins."""
    found = {}
    for name in binary_layers(checkpoint):
        counts, _ = np.histogram(checkpoint.coded(name).counts()[..., -1] / WORD, bins, (0.0, 1.0))
        found[name] = (counts / counts.sum()).tolist()
    return found
