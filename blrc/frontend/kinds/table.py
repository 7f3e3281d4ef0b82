"""List all kinds of layers, and check that the layers of a network fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blrc.errors import BlrcError
from blrc.frontend.kinds import pointwise, pool, softmax
from blrc.frontend.kinds.given import GIVEN
from blrc.frontend.kinds.linear import LINEAR
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.norm import NORMS
from blrc.frontend.kinds.record import Kind, Tensor, shown
from blrc.net.net import INPUT

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        *LINEAR,
        *NORMS,
        *pool.POOLS,
        pointwise.SIGN,
        pointwise.STE_SIGN,
        pointwise.LEVELS,
        pointwise.STE_LEVELS,
        pointwise.EVEN_LEVELS,
        pointwise.SAMPLE,
        pointwise.FLATTEN,
        softmax.SOFTMAX,
        *GIVEN,
    )
}
LONGEST_NAME = 200  # characters: a name is printed in tables, and becomes a name in C


def check_nodes(nodes: Sequence[Node]) -> None:
    """Refuse layers of unknown kinds, with invalid names or options, or with inputs that no earlier layer computes.

    Raises:
        BlrcError: names the layer of the first fault.
    """
    names = {INPUT}
    for node in nodes:
        _check_name(node.name, names)
        who = f"layer {node.name!r}"
        if not node.inputs or not all(x in names for x in node.inputs):
            strange = next((x for x in node.inputs if x not in names), None)
            raise BlrcError(f"{who}: reads {shown(strange)}, which no layer before it computes")
        kind_of(node).check(who, node.options)
        names.add(node.name)
    for node in nodes:  # a layer that lies within another would replace a part of it
        parts = node.name.split(".")
        for outer in (".".join(parts[:depth]) for depth in range(1, len(parts))):
            if outer in names:
                raise BlrcError(f"layer {node.name!r}: lies within layer {outer!r}; give it another name")


def kind_of(node: Node) -> Kind:
    """Return the record of a layer's kind.

    Raises:
        BlrcError: the kind is unknown.
    """
    kind = KINDS.get(node.kind)
    if kind is None:
        raise BlrcError(f"layer {node.name!r} is of kind {shown(node.kind)}, which this version of blrc does not know")
    return kind


def tensors_of(nodes: Sequence[Node]) -> dict[str, Tensor]:
    """Return the parameters and buffers of checked layers by their keys in a state_dict."""
    return {
        f"{node.name}.{key}": tensor for node in nodes for key, tensor in kind_of(node).tensors(node.options).items()
    }


def _check_name(name: str, taken: set[str]) -> None:
    """Refuse a name that cannot stand in comments of C, tables and messages, or in the path of a module.

    Characters that cannot be printed are refused: control characters (also those that change the direction of writing),
    line ends, and halves of surrogate pairs.
    """
    if not (0 < len(name) <= LONGEST_NAME and name.isprintable() and all(name.split("."))):
        raise BlrcError(
            f"layer {shown(name)}: that is no name of a layer; use letters, digits and dots between them, at most "
            f"{LONGEST_NAME} characters that can be printed"
        )
    if name == INPUT:
        raise BlrcError(f"layer {INPUT!r}: that name stands for the network's input; give the layer another")
    if name in taken:
        raise BlrcError(f"layer {name!r} is there twice; give each layer a name of its own")
