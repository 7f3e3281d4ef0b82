"""Say which tensor of an ONNX file is which value of the program that was lowered from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.importing.file import Graph
from blrc.importing.flow import Bits, Flow, Raw, Scores, Signed, Sums, Test
from blrc.lowering.calibrate import folded
from blrc.lowering.fold import Folded
from blrc.net.encoding import InputEncoding
from blrc.net.net import INPUT, MaxPool, Net, Pointwise
from blrc.net.pieces import Stage, pieces
from blrc.program.program import Op, Program
from blrc.verification.original.runs import to_device


@dataclass(frozen=True, eq=False)
class Tensor:
    """Name a tensor of the file, and what it is."""

    name: str
    flow: Flow


@dataclass(frozen=True, eq=False)
class Decision:
    """Describe a stage of the net in the file.

    Attributes:
        stage: what decides; ``binary`` says whether it reads +-1.
        rule: its exact rule.
        sums, bits: the file's tensors of what its linear layer gives, and of what its sign gives.
    """

    stage: Stage
    binary: bool
    rule: Folded
    sums: Tensor
    bits: Tensor


@dataclass(frozen=True, eq=False)
class Place:
    """Say where bits are found in the file and in the program.

    Attributes:
        layer: the layer of the program that computes them.
        ops: the program's ops since the place before, the last of which writes them.
        bits: the file's tensor.
        inverted: the channels whose bits in the program stand for their opposites.
        decision: the stage that decides them; None of a pool.
    """

    layer: str
    ops: tuple[Op, ...]
    bits: Tensor
    inverted: NDArray[np.bool_]
    decision: Decision | None


def source_of(graph: Graph, flows: Mapping[str, Flow]) -> Tensor:
    """Return the last tensor that is still the raw input; it is what the comparison feeds."""
    found = Tensor(graph.source.name, flows[graph.source.name])
    for name, flow in flows.items():
        if flow.layer == INPUT and isinstance(flow, Raw | Bits) and not any(flow.pads):
            found = Tensor(name, flow)
    return found


def fed(source: Tensor, encoding: InputEncoding, raw: NDArray[Any]) -> NDArray[Any]:
    """Return what the original is given for raw samples ``(N, *encoding.shape)``.

    Of pixels these are the file's own values, except where the import rounds them to codes: then they are what the
    codes stand for, so that the layers behind can be compared.
    """
    flow = source.flow
    if isinstance(flow, Raw) and flow.seen is not None and (encoding.given or encoding.at):
        return seen(flow, raw)
    codes = encoding.codes(raw).astype(np.float64).reshape(len(raw), *flow.shape)
    if isinstance(flow, Bits):
        return codes * float(flow.scale) + float(flow.offset)
    assert isinstance(flow, Raw)
    if encoding.is_binary:  # a sign follows
        return codes
    factor, offset = flow.factor.reshape(-1)[0], flow.offset.reshape(-1)[0]
    real = codes / encoding.scale
    return np.sign(float(factor)) * real if encoding.mean else float(factor) * real + float(offset)


def seen(flow: Raw, raw: NDArray[Any]) -> NDArray[Any]:
    """Return what the file makes of pixels, ``(N, *flow.shape)``."""
    assert flow.seen is not None
    pixels = raw.reshape(len(raw), *flow.shape)
    table = np.broadcast_to(flow.seen, (len(flow.seen), *flow.shape))
    return np.asarray(table[(pixels, *np.ogrid[tuple(slice(n) for n in (1, *flow.shape))][1:])])


def is_plus(tensor: Tensor, values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which bits of a file's tensor are +1, in the program's layout."""
    flow, laid = tensor.flow, to_device(tensor.flow, values)
    if isinstance(flow, Bits):
        return np.asarray((laid > float(flow.offset)) == (flow.scale > 0))
    return np.asarray(laid > float(flow.offset)) if isinstance(flow, Signed) else laid.astype(bool)


def scores_of(flows: Mapping[str, Flow]) -> Tensor:
    """Return the tensor of the scores."""
    found = [Tensor(name, flow) for name, flow in flows.items() if isinstance(flow, Scores | Sums)]
    return found[-1]


def places(program: Program, net: Net, graph: Graph, flows: Mapping[str, Flow]) -> list[Place]:
    """Return the places at which bits of the program and of the file are compared, in order.

    Raises:
        BlrcError: the program is not of the net's layers, or the file has no tensor for some bits.
    """
    index = {op.name: i for i, op in enumerate(program.ops)}
    found: dict[int, tuple[Tensor, NDArray[np.bool_], Decision | None]] = {}
    binary, at = net.encoding.is_binary, -1
    decision: Decision | None = None
    inverted = np.zeros(0, dtype=bool)
    for piece in pieces(net):
        if isinstance(piece, Stage):
            rule = folded(piece, net.encoding, binary)
            bits = _decided(piece, flows)
            decision = Decision(piece, binary, rule, _sums(piece, graph, flows), bits)
            binary, inverted = True, rule.inverted
            at = index[next((p.name for p in reversed(piece.pools) if p.name in index), piece.linear.name)]
        elif isinstance(piece, MaxPool):
            bits = next(Tensor(n, f) for n, f in flows.items() if isinstance(f, Bits) and f.layer == piece.name)
            inverted = np.zeros_like(inverted)
            own = [name for name in (piece.name, f"{piece.name}.turned") if name in index]
            decision, at = (None, index[own[0]]) if own else (decision, at)  # else it is fused into the op before
        else:
            continue
        found[at] = bits, inverted, decision
    made, start = list[Place](), 0
    for at, (bits, turned, decided) in sorted(found.items()):
        layer = program.ops[at].name if decided is None else decided.stage.linear.name
        made.append(Place(layer, program.ops[start : at + 1], bits, turned, decided))
        start = at + 1
    return made


def _decided(stage: Stage, flows: Mapping[str, Flow]) -> Tensor:
    """Return the file's tensor of a stage's bits; a Sign or a comparison may be read as it is."""
    own = [Tensor(name, flow) for name, flow in flows.items() if isinstance(flow, Bits)]
    if (first := next((each for each in own if each.flow.layer == stage.sign.name), None)) is not None:
        return first
    layers = {stage.linear.name, *(step.name for step in stage.chain)}
    open_ = [
        Tensor(name, flow) for name, flow in flows.items() if isinstance(flow, Signed | Test) and flow.layer in layers
    ]
    if not open_:
        raise BlrcError(f"layer {stage.sign.name!r}: the original has no tensor of its bits")
    return open_[-1]


def _sums(stage: Stage, graph: Graph, flows: Mapping[str, Flow]) -> Tensor:
    """Return the output of the node that a stage's linear layer was imported from."""
    layers = {stage.linear.name, *(step.name for step in stage.chain)}
    for op in graph.ops:
        for name in op.outputs:
            if isinstance(flow := flows.get(name), Sums) and flow.layer in layers:
                return Tensor(name, flow)
    raise BlrcError(f"layer {stage.linear.name!r}: the original has no tensor of its sums")


def prefix(stage: Stage, sums: Tensor) -> Sequence[Pointwise | MaxPool]:
    """Return the steps of a stage's chain that its linear node already took: scales, and its bias."""
    names = [stage.linear.name, *(step.name for step in stage.chain)]
    return stage.chain[: names.index(sums.flow.layer)]
