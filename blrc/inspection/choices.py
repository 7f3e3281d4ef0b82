"""Compare what an export's choices cost: one network, a full ensemble, cheap ones. Nothing is sampled for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from blrc.display import NO_TERMINAL, table
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import binary_convolutions, binary_layers
from blrc.targets.c.layout.layout import Layout

MEMBERS = 16
GATE = "0.98"


@dataclass(frozen=True)
class Choice:
    """Describe one way to export a checkpoint, and its cost.

    Attributes:
        options: the options of ``blrc export``.
        tables: bytes of constant tables in the C, of all members together; tables that members share count once.
        networks_min, networks_max: how many networks ``NAME_predict`` runs for one input, at least and at most.
        operations_min, operations_max: the multiply-adds of so many networks.
    """

    options: str
    tables: int
    networks_min: int
    networks_max: int
    operations_min: int
    operations_max: int


def choices(checkpoint: Checkpoint, layout: Layout, operations: int, members: int = MEMBERS) -> tuple[Choice, ...]:
    """Return the costs of MAP, of `members` with all binary layers or only the convolutions sampled, and with a gate.

    A sampled layer has weights of its own in every member. Norms are re-estimated for each member, so from the first
    sampled layer on, every member also has its own thresholds for each layer with a norm. (In a very small layer the
    tables of two members may be equal by chance and are then stored once; the tables are then smaller than is said
    here.)

    Args:
        layout: the layout of the MAP network alone.
        operations: multiply-adds of one inference of one network.
    """
    kinds = binary_layers(checkpoint)
    convolutions = set(binary_convolutions(checkpoint))
    classes, values = layout.program.classes, bool(layout.program.values)

    def choice(options: str, sampled: Collection[str], sampled_members: int, gate: bool) -> Choice:
        stored = max(1, sampled_members + gate)
        # Half of the members at least: the lead over a rival grows by the floor at most, and the rest may take it back.
        least = 1 if gate or classes == 1 else -(-stored // 2)
        least = stored if values else least  # no label of theirs could be settled
        tables = _tables(checkpoint, layout, sampled, stored)
        return Choice(options, tables, least, stored, least * operations, stored * operations)

    found = [choice("--members map", (), 0, False)]
    if kinds:
        found.append(choice(f"--members {members}", kinds, members, False))
        some = convolutions and len(convolutions) < len(kinds)
        options = f"--members {members}{' --sample conv' if some else ''}"
        if some:
            found.append(choice(options, convolutions, members, False))
        if not values:
            found.append(choice(f"{options} --gate {GATE}", convolutions if some else kinds, members, True))
    return tuple(found)


def _tables(checkpoint: Checkpoint, layout: Layout, sampled: Collection[str], stored: int) -> int:
    normed = {node.inputs[0] for node in checkpoint.nodes if "norm" in node.kind}
    total, differs = 0, False
    for step in layout.steps:
        name = step.op.name
        differs = differs or name in sampled
        for each in step.tables:
            own = name in sampled if each.role == "weights" else differs and name in normed and each.role != "table"
            total += each.nbytes * (stored if own else 1)
    return total


def to_text(found: Collection[Choice], width: int = NO_TERMINAL) -> list[str]:
    """Return the lines of a table for a person."""
    rows = [("blrc export", "tables", "networks run", "operations")]
    for c in found:
        networks, operations = f"{c.networks_min}", f"{c.operations_min:,}"
        if c.networks_max > c.networks_min:
            networks, operations = f"{networks} to {c.networks_max}", f"{operations} to {c.operations_max:,}"
        rows.append((c.options, f"{c.tables:,}", networks, operations))
    return table(rows, width=width)
