"""Show what a checkpoint becomes on a device (`blrc.inspect`)."""

from __future__ import annotations

from pathlib import Path

from blrc.app.import_onnx import opened
from blrc.frontend.checkpoint import Checkpoint
from blrc.inspection import inspection
from blrc.inspection.report import Inspection


def inspect(model: str | Path | Checkpoint) -> Inspection:
    """Show what a checkpoint becomes: for each layer its shapes, certainty, bits, flash, RAM and operations.

    Args:
        model: a checkpoint, or its path, or that of an ONNX file, which is imported.

    Returns:
        the figures; ``print`` and a notebook show them as a table.

    Raises:
        BlrcError: there is no checkpoint, or the network cannot be compiled; the message names the layer.
    """
    return inspection.inspect(opened(model))
