"""Predict at any time from Python: draw member after member from a checkpoint, for as long as one likes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.members import ask_members, check_labels
from blrc.frontend.sample import NONE, Member
from blrc.lowering.lower import lower
from blrc.lowering.statistics import nets_of
from blrc.net.encoding import device_layout
from blrc.program import head, reference
from blrc.program.heads import Tallies
from blrc.reading.given import typed


class Anytime(Iterator[head.Answer]):
    """Iterate over the answers of `anytime`, one for each member."""

    def __init__(self, source: str, samples: int, answers: Iterator[head.Answer]) -> None:
        self._source, self._samples, self._answers, self._given = source, samples, answers, 0

    def __next__(self) -> head.Answer:
        answer = next(self._answers)
        self._given += 1
        return answer

    def __repr__(self) -> str:
        return f"Anytime({self._source!r}: {self._samples:,} samples, {self._given} members so far)"


@typed
def anytime(
    checkpoint: Checkpoint,
    *,
    raw: NDArray[Any],
    seed: int = 0,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = NONE,
) -> Anytime:
    """Return an iterator over the answers for `raw` after one member, after two, and so on, up to `head.MAX_MEMBERS`.

    Member k is the one that an export with the same seed holds, whatever its number of members, and every answer is
    that of such an export, bit for bit. Nothing is trained again. (If the last layer is binary, this holds as long as
    all members' scores fit the smallest scale, see `blrc.lowering.affine`; an export takes the largest scale that a
    member needs.)

    Args:
        raw: samples ``(N, *encoding.shape)``.
        sample, freeze: what of every member is sampled, as in `blrc.export`.

    Raises:
        BlrcError: the samples have another type or shape, there are no calibration samples, or the network cannot be
            compiled.

    Example:
        ``for answer in anytime(blrc.load("model.pt"), raw=images): ...`` until one is content.
    """
    if not isinstance(checkpoint, Checkpoint):
        raise BlrcError(f"anytime takes a checkpoint, not {type(checkpoint).__name__}; give blrc.load(path)")
    check_labels(checkpoint, "anytime")
    checkpoint.encoding.check(raw, "samples")
    checkpoint.samples()  # refuses a checkpoint without
    request = ask_members(1, seed, sample, freeze)
    return Anytime(checkpoint.source, len(raw), _answers(checkpoint, raw, request.of(checkpoint)[0]))


def _answers(checkpoint: Checkpoint, raw: NDArray[Any], first: Member) -> Iterator[head.Answer]:
    device = device_layout(raw)
    if checkpoint.encoding.kind == "bits":
        device = device.astype(bool)
    sums: Tallies | None = None
    for index in range(head.MAX_MEMBERS):
        program = lower(nets_of(checkpoint, [replace(first, index=index)]))
        scores = reference.scores(program, device)
        sums = (sums or Tallies.start(len(scores), program.parts)).add(scores)
        yield sums.answer()
