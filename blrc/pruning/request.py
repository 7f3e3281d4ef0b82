"""Describe how a network is to be pruned, and check what can be checked without it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from blrc.errors import BlrcError
from blrc.frontend.sample import exact
from blrc.frontend.weights.prior import EVEN, Prior, parse_prior
from blrc.pruning.channels import Family
from blrc.pruning.choices import By, parse_by

LOSS = 0.2
"""Points of accuracy that may be lost by default: ten of MNIST's 5,000 validation images."""
MOST_LOSS = 100.0
"""Points of a loss that nothing exceeds."""


@dataclass(frozen=True)
class PruneRequest:
    """Hold what `blrc.prune` is asked for; its fields are described there.

    Raises:
        BlrcError: an option is out of its range, or two do not go together; the message names the option.
    """

    output: Path | None
    data: Path | None = None
    loss: float | None = None
    share: Fraction | None = None
    by: By = "both"
    words: bool = False
    layers: tuple[str, ...] | None = None
    prior: Prior = EVEN
    head: str | None = None

    def __post_init__(self) -> None:
        if self.share is not None and self.loss is not None:
            raise BlrcError("--loss and --share: give one; a share is dropped whatever it costs")
        if self.share is None and self.data is None:
            raise BlrcError("give --data with validation images, on which at most --loss points are lost, or a --share")
        if self.share is not None and not 0 < self.share < 1:
            raise BlrcError(f"--share {float(self.share):g}: a share of the channels above 0 and below 1, such as 50%")
        if self.loss is not None and not (math.isfinite(self.loss) and 0 <= self.loss <= MOST_LOSS):
            raise BlrcError(f"--loss {self.loss:g}: points of accuracy from 0 to 100, such as 0.2")

    @property
    def allowed(self) -> float | None:
        """Return the points that may be lost, or None where a share is dropped."""
        return None if self.share is not None else LOSS if self.loss is None else self.loss

    def among(self, families: Collection[Family], who: str) -> list[str]:
        """Return the names of the families that are asked for.

        Raises:
            BlrcError: there are none, or a layer's channels cannot be dropped.
        """
        if not families:
            raise BlrcError(
                f"{who}: no channels can be dropped: the input and the scores keep theirs, and nothing is between"
            )
        of = {layer: family.name for family in families for layer in family.layers}
        if self.layers is None:
            return [family.name for family in families]
        if not self.layers:
            raise BlrcError("--layers: name at least one layer")
        if unknown := next((name for name in self.layers if name not in of), None):
            raise BlrcError(f"{who}: cannot drop channels of layer {unknown[:40]!r}; it can of {', '.join(of)}")
        return list(dict.fromkeys(of[name] for name in self.layers))


def ask(
    output: str | Path | None,
    data: str | Path | None,
    loss: float | None,
    share: str | float | Fraction | None,
    by: str,
    words: bool,
    layers: str | Sequence[str] | None,
    prior: object,
    head: str | None,
) -> PruneRequest:
    """Make a request from what a user writes.

    Raises:
        BlrcError: names an option that is invalid.
    """
    if isinstance(layers, str):
        layers = [name.strip() for name in layers.split(",") if name.strip()]
    return PruneRequest(
        output=None if output is None else Path(output),
        data=None if data is None else Path(data),
        loss=None if loss is None else float(loss),
        share=None if share is None else parse_share(share),
        by=parse_by(by),
        words=words,
        layers=None if layers is None else tuple(layers),
        prior=parse_prior(prior, "--prior"),
        head=head,
    )


def parse_share(share: str | float | Fraction, option: str = "--share") -> Fraction:
    """Return a share of the channels from a text such as ``50%``, ``0.5`` or ``1/2``.

    Raises:
        BlrcError: it is none.
    """
    text = share.strip() if isinstance(share, str) else share
    try:
        if isinstance(text, str) and text.endswith("%"):
            return exact(text[:-1]) / 100
        return exact(text)
    except (ValueError, ZeroDivisionError):
        raise BlrcError(f"{option} {str(share)[:40]!r}: expected a share of the channels such as 50% or 0.5") from None
