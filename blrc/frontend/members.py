"""Which networks an export holds: what a user writes, as `blrc.frontend.sample.Member` and `Program.gate`."""

from __future__ import annotations

from fractions import Fraction

from blrc.errors import BlrcError
from blrc.frontend.sample import MAP, NONE, Member, exact
from blrc.program.head import MAX_MEMBERS, gate_of


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
