"""An inspection as text or plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from blrc.inspection import choices
from blrc.inspection.inspection import Inspection, LayerReport


def to_plain(inspection: Inspection) -> dict[str, Any]:
    """The inspection as plain data for JSON; ratios that do not exist are null."""
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


def to_text(inspection: Inspection) -> str:
    """The inspection as a table for a person."""
    total = ("total", *[""] * (_TEXT_COLUMNS - 1), *_numbers(inspection, inspection.arena, inspection.stack))
    rows = [_COLUMNS, *(_row(layer) for layer in inspection.layers), total]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines = [_input_line(inspection), ""]
    for row in rows:
        cells = [
            cell.ljust(width) if i < _TEXT_COLUMNS else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    ram = inspection.arena + inspection.input_bytes + inspection.scores_bytes + inspection.stack
    lines += [
        "",
        "certainty: mean of max(p, 1-p); settled: weights with min(p, 1-p) < 0.1; ops: multiply-adds inside the map;",
        "tables, ram: bytes of tables and of the output's slot; total of ram: the arena, whose slots are shared;",
        "stack: bytes of predict while the layer runs; code and stack are upper bounds for a Cortex-M4, -Os",
        f"flash: tables {inspection.flash:,} bytes, code {inspection.code:,} and alignment {inspection.alignment:,}: "
        f"{inspection.flash_total:,} bytes; "
        f"mean and variance take {inspection.certainty_code:,} more",
        f"ram: arena {inspection.arena:,} bytes, the caller's input {inspection.input_bytes:,} and scores "
        f"{inspection.scores_bytes:,}, stack {inspection.stack:,}: {ram:,} bytes",
        f"stack: of predict; classify takes {inspection.classify_stack:,} bytes",
        "",
        *choices.to_text(inspection.choices),
        "networks run: by predict in the C, which stops when the label is settled",
    ]
    return "\n".join(lines)


def _row(layer: LayerReport) -> tuple[str, ...]:
    shapes = ("x".join(map(str, layer.input)), "x".join(map(str, layer.output)))
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
    shape = "x".join(map(str, encoding.shape))
    text = f"{inspection.source}: input {encoding.kind} {shape}" + (" (C, H, W)" if len(encoding.shape) == 3 else "")
    if encoding.kind != "bits":
        text += f", {encoding.scale:.4g} codes a unit"
    if encoding.kind == "uint8":
        mean, std = ([f"{value:.4g}" for value in values] for values in (encoding.mean, encoding.std))
        text += f" of (x/255 - mean)/std, mean {', '.join(mean)}, std {', '.join(std)}"
    return f"{text}; {inspection.calibration_samples:,} calibration samples"
