"""Show what a checkpoint becomes on a device (`blrc.inspect`)."""

from __future__ import annotations

from pathlib import Path

from blrc.frontend import checkpoint
from blrc.frontend.checkpoint import Checkpoint
from blrc.inspection import inspection
from blrc.inspection.report import Inspection


def inspect(model: str | Path | Checkpoint) -> Inspection:
    """Show what a checkpoint becomes: for each layer its shapes, certainty, bits, flash, RAM and operations.

    Args:
        model: a checkpoint, or its path.

    Returns:
        the figures; ``print`` and a notebook show them as a table.

    Raises:
        BlrcError: there is no checkpoint, or the network cannot be compiled; the message names the layer.
    """
    source = checkpoint.load(model) if isinstance(model, str | Path) else model
    return inspection.inspect(source)
