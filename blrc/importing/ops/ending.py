"""Take what may follow the scores: it is left out, since the device has a head of its own."""

from __future__ import annotations

from blrc.importing.file import Op
from blrc.importing.flow import Answer, Scores, Sums
from blrc.importing.ops.record import Args, Context, Taken
from blrc.importing.refusal import RefusalError

LEFT_OUT = "left out: the device gives"
"""Begins what is said of a node that labels do without, and values do not."""
_GIVES = {
    "Softmax": "probabilities",
    "LogSoftmax": "logarithms of probabilities",
    "ArgMax": "the label",
    "TopK": "the labels",
}


def answer(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Softmax, LogSoftmax, ArgMax and TopK of the scores."""
    x = args[0] if args else None
    if isinstance(x, Answer):
        return Taken((x,) * len(op.outputs), "left out too")
    if not isinstance(x, Scores | Sums) or (len(x.dims) != 1 and x.dims[1:] != (1,) * (len(x.dims) - 1)):
        raise RefusalError("its input is no vector of scores", "let it follow the last dense layer")
    axis = op.attributes.get("axis", 0 if op.kind == "ArgMax" else -1 if ctx.opset >= 13 or op.kind == "TopK" else 1)
    if axis not in (1, -len(x.dims)):
        raise RefusalError(f"it runs along axis {str(axis)[:20]}, not along the classes", "use axis 1", then=x)
    gives = _GIVES[op.kind]
    if not op.attributes.get("largest", 1):
        raise RefusalError("it takes the smallest score", "use the largest score for the label", then=x)
    return Taken((Answer(x),) * len(op.outputs), f"{LEFT_OUT} {gives} itself, from the scores before it")
