"""Which networks an export holds: what a user writes, as `blrc.frontend.sample.Member` and `Program.gate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, NONE, Member, exact, parse_freeze, sampled_layers
from blrc.program.head import MAX_MEMBERS, gate_of


@dataclass(frozen=True)
class MembersRequest:
    """Which networks of a checkpoint are asked for. What can be checked without the checkpoint is checked here.

    Attributes:
        members, seed: ``map``, or how many networks to sample from `seed`.
        sample: which binary layers of a member are sampled (`blrc.frontend.sample.sampled_layers`).
        freeze: see `Member`.
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
        """Return the members that the request names of a checkpoint.

        Raises:
            BlrcError: it has no such layers, or nothing is sampled of which layers were chosen.
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
    """Make a request of what a user writes.

    Raises:
        BlrcError: an option that is none, or options that have no use beside the others; the option is named.
    """
    layers = sample if isinstance(sample, str) else tuple(sample)
    return MembersRequest(str(members), seed, layers, parse_freeze(freeze), parse_gate(gate))


def parse_members(
    members: str, seed: int, layers: tuple[str, ...] | None = None, freeze: Fraction = NONE, gate: int = 0
) -> list[Member]:
    """``map``, or the number of networks to sample from `seed`; member k is the same whatever the number.

    Args:
        layers, freeze: of every sampled member (see `Member`); with ``map``, of which nothing is sampled, an error.
        gate: where it is not 0, MAP comes before the sampled members; with ``map`` alone an error.
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
    """`Program.gate` (Q16) of a probability: p passes exactly where it is at least `gate`. None is 0, no gate.

    Raises:
        BlrcError: not above 0 and at most 1.
    """
    if gate is None:
        return 0
    try:
        value = exact(gate)
    except (ValueError, ZeroDivisionError):
        value = NONE
    if not 0 < value <= 1:
        raise BlrcError(f"gate {gate!r}: expected a probability above 0 and at most 1, such as 0.99")
    return gate_of(value)
