"""Present the comparison with the original network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from blrc.verification.original.thresholds import Channel

SHOWN = 20
"""Channels that a report lists; JSON lists all."""


@dataclass
class Layer:
    """Count the bits of a layer.

    Attributes:
        bits, differ: those compared, and those that differ.
        by_chain: those that differ because float32 decides that very sum otherwise than exact rationals.
        by_sums: those that differ because the original's sum itself was rounded, by less than one step of z.
    """

    bits: int = 0
    differ: int = 0
    by_chain: int = 0
    by_sums: int = 0

    @property
    def explained(self) -> int:
        """Return how many differences rounding explains."""
        return self.by_chain + self.by_sums

    def __str__(self) -> str:
        """Return the differences in words."""
        if not self.differ:
            return "all equal"
        causes = [f"{self.by_chain:,} where float32 decides that sum otherwise"] if self.by_chain else []
        causes += [f"{self.by_sums:,} where float32 rounded the sum"] if self.by_sums else []
        causes += [f"{self.differ - self.explained:,} NOT EXPLAINED"] if self.differ > self.explained else []
        return f"{self.differ:,} differ: {', '.join(causes)}"


@dataclass(frozen=True)
class Against:
    """Hold what the comparison of an export with its original found.

    Attributes:
        original: what the original is called: a file by its SHA-256, a module by its class.
        sha256: of the original's file; None of a module.
        same_program: whether reading it again gives the very program of the export.
        layers: counts of bits by layer; each layer computes on the original's own bits of the layer before.
        decisions: sums and channels on which thresholds were compared with the original's float32 arithmetic.
        channels: the channels that float32 and exact rationals decide differently, or that are wrong.
        scores, farthest, bound: how many scores were compared, the largest distance, and the largest that rounding
            explains, in real units.
        labels, same_labels: inputs, and those with the same label from end to end.
        accuracy: per cent of the labelled inputs that the original classified correctly, or None.
        problems: what is not explained.
        notes: what else is worth knowing.
    """

    original: str
    sha256: str | None
    same_program: bool
    layers: Mapping[str, Layer]
    decisions: int
    channels: tuple[Channel, ...]
    scores: int
    farthest: float
    bound: float
    labels: int
    same_labels: int
    accuracy: float | None
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def to_lines(found: Against) -> list[str]:
    """Return the comparison as lines of a report."""
    same = "the same program" if found.same_program else "ANOTHER program"
    lines = [f"original {found.original}: {'reading' if found.sha256 is None else 'importing'} it gives {same}"]
    for name, layer in found.layers.items():
        lines.append(f"  {name:<20}{layer.bits:>16,} bits   {layer}")
    lines.append(
        f"  scores              {found.scores:>16,}   off by {found.farthest:.2g} at most, of {found.bound:.2g} allowed"
    )
    lines.append(f"  labels              {found.labels:>16,}   {found.labels - found.same_labels:,} differ")
    explained = [each for each in found.channels if each.explained]
    lines.append(
        f"  thresholds on every sum: {found.decisions:,} decisions; {len(explained):,} channels where float32 and "
        "exact rationals differ"
    )
    lines += [f"    {each}" for each in explained[:SHOWN]]
    if len(explained) > SHOWN:
        lines.append(f"    and {len(explained) - SHOWN:,} more (--json lists all)")
    if found.accuracy is not None:
        lines.append(f"  accuracy of the original: {found.accuracy:.2f} %")
    return lines + [f"  note: {note}" for note in found.notes]


def to_plain(found: Against) -> dict[str, Any]:
    """Return the comparison as plain data for JSON."""
    return asdict(found)


def counts_of(found: Against) -> dict[str, Any]:
    """Return what of a comparison the manifest holds: the original, and counts."""
    layers = found.layers.values()
    return {
        "original": found.original,
        "sha256": found.sha256,
        "bits": sum(layer.bits for layer in layers),
        "bits_that_differ": sum(layer.differ for layer in layers),
        "bits_not_explained": sum(layer.differ - layer.explained for layer in layers),
        "decisions": found.decisions,
        "channels_that_differ": len(found.channels),
        "scores": found.scores,
        "labels": found.labels,
        "labels_that_differ": found.labels - found.same_labels,
        "problems": len(found.problems),
    }
