"""Walk a graph from its input to its scores, and say of every node what it is taken for, or why it is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import sample
from blrc.importing.build import Builder
from blrc.importing.declared import Declared, start
from blrc.importing.file import Graph, Op, shown
from blrc.importing.flow import Answer, Constant, Flow, Scores, Sums, Value
from blrc.importing.folding import check_attributes, fold
from blrc.importing.ops.estimator import resolved
from blrc.importing.ops.record import Context
from blrc.importing.ops.table import OPS, check_averages
from blrc.importing.refusal import RefusalError
from blrc.net.heads import Heads, check_heads
from blrc.net.pieces import pieces

_AGAIN = "export the network again"
MOST_FOLDED = 2**30
"""Bytes of all constants that are computed: two forms of 128 million weights."""
SCREEN = 24
"""Nodes of a file whose refusals are listed again at the end, since others hide them."""
_COARSE = ("float16", "bfloat16")
"""Types of constants by which a file computes in so few digits that sums of bits are rounded."""
_ROUNDS = (
    "the file computes in float16, which rounds sums beyond 2048, and norms coarsely; what is imported computes with "
    "its numbers exactly, as float32 all but does"
)
_SINGLE = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Line:
    """Say what became of a node: what it `is` taken for, or why it was refused and what to do."""

    node: str
    says: str
    remedy: str = ""

    @property
    def refused(self) -> bool:
        return bool(self.remedy)

    def __str__(self) -> str:
        return f"{self.node}: {self.says}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Lost:
    """Stand for what a refused node would have given."""

    node: str


@dataclass(frozen=True, eq=False)
class Walked:
    """Hold what became of a graph.

    Attributes:
        lines: for every node, and for the output, in the file's order.
        notes: what a user has to know about the input.
        checkpoint: the network; None if a node was refused.
        flows: what each tensor that depends on the input is, by its name, in the order of the nodes.
        scores: the names of the tensors of scores, of each head in order.
    """

    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    checkpoint: Checkpoint | None
    flows: Mapping[str, Flow] = field(default_factory=dict)
    scores: tuple[str, ...] = ()

    @property
    def refusals(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.refused)

    def __str__(self) -> str:
        refused = [f"REFUSED {line}" for line in self.refusals]
        end = f"{len(refused)} of {len(self.lines)} refused" if refused else "all can be imported"
        if refused and len(self.lines) > SCREEN:
            end = "\n".join([f"{end}:", *refused])
        lines = [f"{'REFUSED ' if line.refused else ''}{line}" for line in self.lines]
        return "\n".join([*lines, *self.notes, end])


def walk(graph: Graph, declared: Declared | None, source: str, heads: Sequence[str] | None = None) -> Walked:
    """Follow every node that the outputs need.

    Args:
        heads: names for the outputs of a network with several, in the file's order; None takes the file's own names.

    Raises:
        BlrcError: the input has no known shape, or contradicts what was declared.
    """
    numbers = [name for name, array in graph.constants.items() if array.size == 1]
    graph = replace(graph, ops=resolved(graph.ops, numbers))
    first, declared = start(graph.source, declared)
    build = Builder(declared)
    batch = graph.source.shape[0] if graph.source.shape and graph.source.shape[0] else 1
    ctx = Context(graph.opset, batch, build)
    values: dict[str, Value | Lost] = {name: Constant(array) for name, array in graph.constants.items()}
    values[graph.source.name] = first
    readers: dict[str, Op] = {}
    needed = _needed(graph)
    lines = []
    for op in graph.ops:
        if not needed & {*op.outputs}:
            lines.append(Line(str(op), "left out, since no output needs it"))
            continue
        line, outputs = _node(ctx, graph, op, values, readers)
        lines.append(line)
        values.update({name: value for name, value in zip(op.outputs, outputs, strict=False) if name})
    said, ends = _end(ctx, graph, [values.get(name) for name in graph.outputs], heads)
    lines += said
    flows = {name: value for name, value in values.items() if isinstance(value, Flow)}
    walked = Walked(tuple(lines), tuple(build.notes), None, flows, _scores_of(graph, values, flows))
    if walked.refusals:
        return walked
    found = replace(build.checkpoint(source), heads=ends)
    try:
        pieces(sample(found, running=True))
    except BlrcError as error:
        why, _, remedy = str(error).partition("; ")
        return replace(walked, lines=(*walked.lines, Line(_shown_outputs(graph), why, remedy or _AGAIN)))
    return replace(walked, checkpoint=found)


def _scores_of(graph: Graph, values: Mapping[str, Value | Lost], flows: Mapping[str, Flow]) -> tuple[str, ...]:
    """Return the tensor that each output is or is computed from; those of one tensor are one head."""
    held = [values.get(name) for name in graph.outputs]
    ends = {id(end.scores if isinstance(end, Answer) else end): None for end in held}
    first = {id(flow): name for name, flow in reversed([*flows.items()])}
    return tuple(first[end] for end in ends if end in first)


def _needed(graph: Graph) -> set[str]:
    """Return the tensors that the outputs depend on."""
    needed = set(graph.outputs)
    for op in reversed(graph.ops):
        if needed & {*op.outputs}:
            needed.update(op.inputs)
    return needed


def _node(
    ctx: Context, graph: Graph, op: Op, values: dict[str, Value | Lost], readers: dict[str, Op]
) -> tuple[Line, Sequence[Value | Lost]]:
    lost = [Lost(shown(op.name))] * len(op.outputs)
    try:
        if twice := next((name for name in op.outputs if name and name in values), None):
            raise RefusalError(f"it computes {shown(twice)}, which is there already", _AGAIN)
        args = [_argument(graph, name, values) for name in op.inputs]
        if held := next((arg for arg in args if isinstance(arg, Lost)), None):
            return Line(str(op), f"not looked at, since it depends on {held.node}"), [held] * len(op.outputs)
        known = [arg for arg in args if not isinstance(arg, Lost)]
        check_attributes(op)
        if all(arg is None or isinstance(arg, Constant) for arg in known):
            made = fold(op, [arg.array if isinstance(arg, Constant) else None for arg in known])
            ctx.build.folded += made.nbytes
            if ctx.build.folded > MOST_FOLDED:
                raise RefusalError("constants that were computed take too much memory", "fold them when you export")
            return Line(str(op), f"a constant {made.shape}"), (Constant(made),)
        if len(graph.outputs) == 1:
            _read_once(op, known, readers)
        if any(isinstance(arg, Constant) and arg.array.dtype.name in _COARSE for arg in known):
            ctx.build.note(_ROUNDS)
        handler = OPS.get(op.kind)
        if handler is None or not handler.owns(op.domain):
            domain = f" of the domain {shown(op.domain)!r}" if op.domain else ""
            raise RefusalError(f"{shown(op.kind)}{domain} has no exact form here", _remedy(op))
        check_averages(op, known)
        taken = handler.run(ctx, op, known)
    except RefusalError as refused:
        then = refused.then if isinstance(refused.then, Flow) else None
        return Line(str(op), refused.why, refused.remedy), lost if then is None else (then,)
    except BlrcError as error:
        why, _, remedy = str(error).partition("; ")
        return Line(str(op), why, remedy or _AGAIN), lost
    except OverflowError:
        return Line(str(op), "its numbers are beyond what a float64 holds", "use a network that did not diverge"), lost
    except (ValueError, TypeError, LookupError, AttributeError):  # a handler read what no well-formed node holds
        why = "the file is malformed: an attribute or input of it has another type or size than its operator takes"
        return Line(str(op), why, _AGAIN), lost
    return Line(str(op), taken.says), taken.outputs


def _argument(graph: Graph, name: str, values: dict[str, Value | Lost]) -> Value | Lost | None:
    if not name:
        return None
    if name in graph.faults:
        why, _, remedy = graph.faults[name].partition("; ")
        raise RefusalError(f"its initialiser {shown(name)} {why}", remedy)
    if name not in values:
        raise RefusalError(
            f"it reads {shown(name)}, which nothing before it computes", "the file is damaged, " + _AGAIN
        )
    return values[name]


def _read_once(op: Op, args: Sequence[Value | None], readers: dict[str, Op]) -> None:
    """Refuse a tensor that two nodes read, since a network is a chain; its shape may be read as well."""
    if op.kind == "Shape":
        return
    for name, arg in zip(op.inputs, args, strict=True):
        if isinstance(arg, Flow) and (other := readers.setdefault(name, op)) is not op:
            raise RefusalError(
                f"it reads {shown(name)}, which {other} reads as well",
                "networks are chains of layers; train one without branches",
                then=arg,
            )


_REMEDIES = {
    "Concat": "networks are chains of layers; train one without branches",
    "Sigmoid": "let the network end with one score for each class",
    "If": "export the network without control flow",
    "Loop": "export the network without control flow",
    "Scan": "export the network without control flow",
    "ConvTranspose": "use convolutions",
    "QLinearConv": "export the network before it is quantised by other tools",
    "ConvInteger": "export the network before it is quantised by other tools",
    "QuantizeLinear": "export the network before it is quantised by other tools",
    "DequantizeLinear": "export the network before it is quantised by other tools",
    "Im2Col": "export the network before FINN lowers its convolutions",
}


def _remedy(op: Op) -> str:
    return _REMEDIES.get(op.kind, "replace it in the network by one of: " + ", ".join(sorted(OPS)))


def _shown_outputs(graph: Graph) -> str:
    return f"output {', '.join(shown(output) for output in graph.outputs[:4])}"


def _end(
    ctx: Context, graph: Graph, outputs: Sequence[Value | Lost | None], names: Sequence[str] | None
) -> tuple[list[Line], Heads]:
    """Check that each output is the scores of a last layer, and add that layer where its weights are real.

    Returns:
        what became of the outputs, and the heads if there are several. Outputs that are computed from the same scores
        are one head, with the name of the first.
    """
    if any(isinstance(output, Lost) for output in outputs):
        return [], ()
    ends: dict[int, tuple[str, Value | Lost | None]] = {}
    for name, output in zip(graph.outputs, outputs, strict=True):
        held = output.scores if isinstance(output, Answer) else output
        ends.setdefault(id(held), (name, held))
    several = len(ends) > 1
    names = [names] if isinstance(names, str) else names
    if names is not None and (len(names) != len(ends) or not several):
        why = f"{len(names)} names of heads were given, and the network has {len(ends)} outputs"
        return [Line(_shown_outputs(graph), why, "give a name for each, and none where there is only one")], ()
    lines, heads = [], []
    for name, (called, last) in zip(names or [name for name, _ in ends.values()], ends.values(), strict=True):
        line, layer = _output(ctx, f"output {shown(called)}" if several else _shown_outputs(graph), last)
        if several and line.refused:
            why = f"the network has {len(ends)} outputs, and not each is a head: {line.says}"
            line = replace(line, says=why, remedy="keep the outputs that are scores of last layers")
        lines.append(line)
        heads.append((name, layer))
    if several and not any(line.refused for line in lines):
        try:
            check_heads([name for name, _ in heads])
        except BlrcError as error:
            why, _, remedy = str(error).partition("; ")
            lines.append(Line(_shown_outputs(graph), why, remedy))
    return lines, tuple(heads) if several else ()


def _output(ctx: Context, name: str, last: Value | Lost | None) -> tuple[Line, str]:
    """Return what an output is taken for, and the layer that gives it."""
    if last is None or isinstance(last, Constant | Answer | Lost):
        return Line(name, "nothing that depends on the input computes it", _AGAIN), ""
    if isinstance(last, Scores):
        return _scores(ctx, name, last)
    if isinstance(last, Sums) and (whole := ctx.build.take_whole(last.layer)) is not None:
        weights, bias, x = whole
        node = Scores(x, last.shape, last.axes, weights=weights, bias=bias)
        return _scores(ctx, name, node)
    if not isinstance(last, Sums):
        remedy = "let it end with a dense layer that gives scores"
        return Line(name, "the network ends with bits or its input", remedy), ""
    if not last.dense or last.shape[0] < 2:
        what = "a map" if not last.dense else "one score, so that the label would always be 0"
        remedy = "let it end with a dense layer with one score for each class"
        return Line(name, f"the network ends with {what}", remedy), ""
    if last.bent is not None:
        return Line(name, f"the scores go through {last.bent}", "let the network end with the scores"), ""
    return Line(name, f"the scores of {last.shape[0]} classes"), last.layer


def _scores(ctx: Context, name: str, last: Scores) -> tuple[Line, str]:
    classes, features = last.weights.shape
    if classes < 2:
        why = "the network gives one score, so that the label would always be 0"
        return Line(name, why, "give one for each class"), ""
    if not (np.abs(last.weights) <= _SINGLE).all() or not (np.abs(last.bias) <= _SINGLE).all():
        return Line(name, "scores are NaN, infinite, or beyond float32", "use a network that did not diverge"), ""
    op = Op("scores", "Gemm", "", (), (), {})
    tensors = {"weight": last.weights, "bias": last.bias}
    options = {"in_features": features, "out_features": classes, "bias": True}
    layer = ctx.build.add(op, "softmax", last, options, tensors)
    return Line(name, f"the scores of {classes} classes, with real weights"), layer
