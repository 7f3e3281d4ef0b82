"""Present what pruning did as text or plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from blrc.display import NO_TERMINAL, Preformatted, table


@dataclass(frozen=True)
class LayerPruned:
    """Describe what is left of the channels that one layer computes.

    Attributes:
        layer: the layer; convolutions with groups that lie behind it lose the same channels.
        channels: how many it had.
        kept: how many are left.
        divergence: mean divergence of the weights that rank the channels, of all of them.
        dropped_divergence: the same of the dropped ones; None if none was dropped.
    """

    layer: str
    channels: int
    kept: int
    divergence: float
    dropped_divergence: float | None


@dataclass(frozen=True, repr=False)
class Pruned(Preformatted):
    """Hold what `blrc.prune` did.

    Attributes:
        source: the network that was pruned.
        output: the checkpoint that was written, or None.
        layers: the layers whose channels could be dropped.
        weights, weights_before: numbers of weights.
        flash, flash_before: flash of one network, an upper bound for a Cortex-M4, in bytes.
        images: number of validation images; 0 if none were given.
        accuracy, accuracy_before: accuracy of the likeliest network on them in per cent, or None.
        loss: the points that it was allowed to lose, or None where a share was given.
        evaluations: how many networks were measured.
    """

    source: str
    output: str | None
    layers: tuple[LayerPruned, ...]
    weights: int
    weights_before: int
    flash: int
    flash_before: int
    images: int
    accuracy: float | None
    accuracy_before: float | None
    loss: float | None
    evaluations: int

    def __repr__(self) -> str:
        """Return the totals on one line; ``print`` shows the table."""
        measured = "" if self.accuracy is None else f", {self.accuracy_before:.2f} to {self.accuracy:.2f} %"
        return f"Pruned({self.source!r}: {self.weights_before:,} to {self.weights:,} weights{measured})"

    def __str__(self) -> str:
        return to_text(self)


def to_plain(pruned: Pruned) -> dict[str, Any]:
    """Return what was done as plain data for JSON."""
    return asdict(pruned)


def to_text(pruned: Pruned, width: int = NO_TERMINAL) -> str:
    """Return what was done as a table for a person, in lines of at most `width` characters where words allow it."""
    rows = [("layer", "channels", "kept", "mean KL", "of dropped ones")]
    for each in pruned.layers:
        dropped = "-" if each.dropped_divergence is None else f"{each.dropped_divergence:.3f}"
        rows.append((each.layer, f"{each.channels:,}", f"{each.kept:,}", f"{each.divergence:.3f}", dropped))
    lines = [
        *table(rows, 1, width),
        "",
        f"weights: {pruned.weights:,} of {pruned.weights_before:,}",
        f"flash:   {pruned.flash:,} of {pruned.flash_before:,} bytes, one network",
    ]
    if pruned.accuracy is not None and pruned.accuracy_before is not None:
        allowed = "" if pruned.loss is None else f"; {pruned.loss:g} points may be lost"
        lines.append(
            f"accuracy: {pruned.accuracy:.2f} %, before {pruned.accuracy_before:.2f} %, of the likeliest network on "
            f"{pruned.images:,} validation images{allowed}"
        )
    if pruned.weights == pruned.weights_before:
        lines.append("nothing could be dropped")
    return "\n".join([*lines, *([f"{pruned.output}: written"] if pruned.output else [])])
