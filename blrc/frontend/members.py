"""Turn what a user writes about an export's networks into `blrc.frontend.sample.Member`s and a `Program.gate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, NONE, Member, exact, parse_freeze, sampled_layers, shown
from blrc.program.head import MAX_MEMBERS, gate_of


@dataclass(frozen=True)
class MembersRequest:
    """Describe which networks of a checkpoint a user asks for, and check what can be checked without the checkpoint.

    Attributes:
        members, seed: ``map``, or how many networks to sample from `seed`.
        sample: which binary layers of a member are sampled (`blrc.frontend.sample.sampled_layers`).
        freeze: see `blrc.frontend.sample.Member`.
        gate: see `blrc.program.program.Program.gate`; 0 is none.
    """

    members: str = "map"
    seed: int = 0
    sample: str | tuple[str, ...] = "all"
    freeze: Fraction = NONE
    gate: int = 0

    def __post_init__(self) -> None:
        parse_members(self.members, self.seed, freeze=self.freeze, gate=self.gate)

    def of(self, checkpoint: Checkpoint) -> list[Member]:
        """Return the requested members of a checkpoint.

        Raises:
            BlrcError: the checkpoint has no such layers, or layers were chosen although nothing is sampled.
        """
        layers = sampled_layers(checkpoint, self.sample)
        return parse_members(self.members, self.seed, layers, self.freeze, self.gate)


def ask_members(
    members: str | int = "map",
    seed: int = 0,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = NONE,
    gate: str | float | Fraction | None = None,
) -> MembersRequest:
    """Make a request from what a user writes.

    Raises:
        BlrcError: names an option that is invalid, or that has no effect beside the others.
    """
    layers = sample if isinstance(sample, str) else tuple(sample)
    return MembersRequest(str(members), seed, layers, parse_freeze(freeze), parse_gate(gate))


def parse_members(
    members: str, seed: int, layers: tuple[str, ...] | None = None, freeze: Fraction = NONE, gate: int = 0
) -> list[Member]:
    """Return the MAP network for ``map``, or as many networks sampled from `seed` as `members` says.

    Member k is the same, however many there are.

    Args:
        layers, freeze: choices for every sampled member (see `Member`); an error with ``map``, which samples nothing.
        gate: if it is not 0, MAP comes before the sampled members; an error with ``map`` alone.
    """
    Member(seed, 0)  # refuses a bad seed, also where it is not used
    if members == "map":
        if layers is not None or freeze or gate:
            raise BlrcError(
                "--sample, --freeze and --gate are about sampled members, and map samples nothing; add --members 16"
            )
        return [MAP]
    digits = members.lstrip("0") if members.isdecimal() and members.isascii() else ""
    if not digits:
        raise BlrcError(f"--members {members!r}: expected map, or a number of sampled networks, such as 16")
    if len(digits) > 4 or int(digits) + bool(gate) > MAX_MEMBERS:
        raise BlrcError(f"--members {members[:20]}: sums of log-probabilities hold {MAX_MEMBERS} members at most")
    sampled = [Member(seed, index, layers, freeze) for index in range(int(digits))]
    return [MAP, *sampled] if gate else sampled


def parse_gate(gate: str | float | Fraction | None) -> int:
    """Return the `Program.gate` (Q16) of a probability; None gives 0, no gate.

    A probability p passes the gate exactly if it is at least `gate`.

    Raises:
        BlrcError: the probability is not above 0 and at most 1.
    """
    if gate is None:
        return 0
    try:
        value = exact(gate)
    except (ValueError, ZeroDivisionError):
        value = NONE
    if not 0 < value <= 1:
        raise BlrcError(f"gate {shown(gate)}: expected a probability above 0 and at most 1, such as 0.99")
    return gate_of(value)


def check_labels(source: Checkpoint, what: str) -> None:
    """Refuse a network that gives values where labels are needed.

    Raises:
        BlrcError: it gives values; `what` says what needs labels.
    """
    if source.values:
        raise BlrcError(f"{source.source}: gives values, and {what} is for networks that give labels")
