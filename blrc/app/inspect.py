"""Show what a checkpoint becomes on a device (`blrc.inspect`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from blrc.app.import_onnx import opened
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.weights.prior import EVEN, parse_prior
from blrc.inspection import inspection
from blrc.inspection.divergence import distributions
from blrc.inspection.report import Inspection
from blrc.reading.given import typed


@typed
def inspect(
    model: str | Path | Checkpoint, *, kl: bool = False, prior: str | float | Mapping[str, float] | None = None
) -> Inspection:
    """Show what a checkpoint becomes: for each layer its shapes, certainty, bits, flash, RAM and operations.

    Args:
        model: a checkpoint, or its path, or that of an ONNX file, which is imported.
        kl: whether to tell how far weights and channels are from their prior: the distribution of KL in each layer.
        prior: the probability of +1 for it, of all layers or by name (`blrc.frontend.weights.prior`); by default 1/2.

    Returns:
        the figures; ``print`` and a notebook show them as a table.

    Raises:
        BlrcError: there is no checkpoint, or the network cannot be compiled; the message names the
            layer; or a prior without `kl`, out of range, or of no layer.
    """
    if prior is not None and not kl:
        raise BlrcError("--prior is about --kl; add that")
    source = opened(model)
    found = inspection.inspect(source)
    if not kl:
        return found
    return replace(found, divergence=distributions(source, EVEN if prior is None else parse_prior(prior, "--prior")))
