"""Anytime prediction in Python: draw member after member from a checkpoint, for as long as one likes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import NONE, Member, parse_freeze, sampled_layers
from blrc.frontend.sample import sample as sample_member
from blrc.lowering.calibrate import calibrate
from blrc.lowering.lower import lower
from blrc.net.encoding import device_layout
from blrc.program import head, reference


def anytime(
    checkpoint: Checkpoint,
    raw: NDArray[Any],
    seed: int = 0,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = NONE,
) -> Iterator[head.Answer]:
    """The answer for `raw` after one member, after two, and so on (at most `head.MAX_MEMBERS`).

    Member k is the one that an export with the same seed holds, whatever its number of members, and every answer is
    that of such an export bit for bit. Nothing is trained again. (Where the last layer is binary: as long as all
    members' scores fit the smallest scale, `blrc.lowering.affine`; an export takes the largest scale that a member
    needs.)

    Args:
        raw: samples ``(N, *encoding.shape)``.
        sample, freeze: what of every member is sampled, as in `blrc.export`.

    Raises:
        BlrcError: samples of another type or shape, no calibration samples, or a network that cannot be compiled.

    Example:
        ``for answer in anytime(blrc.load("model.pt"), images): ...`` until one is content.
    """
    if not isinstance(checkpoint, Checkpoint):
        raise BlrcError(f"anytime takes a checkpoint, not {type(checkpoint).__name__}; give blrc.load(path)")
    checkpoint.encoding.check(raw, "samples")
    samples = checkpoint.samples()
    device = device_layout(raw)
    if checkpoint.encoding.kind == "bits":
        device = device.astype(bool)
    layers, frozen = sampled_layers(checkpoint, sample), parse_freeze(freeze)
    sums: head.Sums | None = None
    for index in count():
        if index == head.MAX_MEMBERS:
            return
        net = sample_member(checkpoint, Member(seed, index, layers, frozen))
        program = lower([calibrate(net, samples)])
        scores = reference.scores(program, device)
        sums = (sums or head.Sums.start(*scores.shape)).add(scores, head.scale_of(program.score_scale))
        yield sums.answer()
