"""List the operators that an import takes."""

from __future__ import annotations

from collections.abc import Mapping

from blrc.importing.file import Op
from blrc.importing.flow import Averages, Levels
from blrc.importing.ops import affine, bend, ending, layout, linear, quantise, window
from blrc.importing.ops.record import Args, Handler
from blrc.importing.refusal import RefusalError

OPS: Mapping[str, Handler] = {
    "Add": Handler(affine.arithmetic),
    "ArgMax": Handler(ending.answer),
    "AveragePool": Handler(window.average_pool),
    "BatchNormalization": Handler(affine.norm),
    "BipolarQuant": Handler(quantise.bipolar_quant, foreign=True),
    "Cast": Handler(layout.cast),
    "Ceil": Handler(quantise.rounded),
    "Clip": Handler(bend.clip),
    "Conv": Handler(linear.conv),
    "Div": Handler(affine.arithmetic),
    "Dropout": Handler(layout.dropout),
    "Flatten": Handler(layout.flatten),
    "Floor": Handler(quantise.rounded),
    "Gemm": Handler(linear.gemm),
    "GlobalAveragePool": Handler(window.average_pool),
    "GlobalMaxPool": Handler(window.max_pool),
    "Greater": Handler(quantise.compare),
    "GreaterOrEqual": Handler(quantise.compare),
    "HardSigmoid": Handler(bend.hard_sigmoid),
    "Identity": Handler(layout.same),
    "IntQuant": Handler(quantise.quant, foreign=True),
    "LeakyRelu": Handler(bend.prelu),
    "Less": Handler(quantise.compare),
    "LessOrEqual": Handler(quantise.compare),
    "LogSoftmax": Handler(ending.answer),
    "MatMul": Handler(linear.mat_mul),
    "Max": Handler(bend.least),
    "MaxPool": Handler(window.max_pool),
    "Min": Handler(bend.least),
    "Mul": Handler(affine.arithmetic),
    "MultiThreshold": Handler(quantise.multi_threshold, foreign=True),
    "Neg": Handler(affine.negate),
    "Not": Handler(quantise.invert),
    "PRelu": Handler(bend.prelu),
    "Pad": Handler(layout.pad),
    "Quant": Handler(quantise.quant, foreign=True),
    "ReduceMean": Handler(window.average_pool),
    "Relu": Handler(bend.relu),
    "Reshape": Handler(layout.reshape),
    "Round": Handler(quantise.rounded),
    "Shape": Handler(layout.shape),
    "Sign": Handler(quantise.sign),
    "Softmax": Handler(ending.answer),
    "Squeeze": Handler(layout.squeeze),
    "Sub": Handler(affine.arithmetic),
    "TopK": Handler(ending.answer),
    "Transpose": Handler(layout.transpose),
    "Unsqueeze": Handler(layout.unsqueeze),
    "Where": Handler(quantise.where),
    "XnorPopcountMatMul": Handler(linear.xnor_popcount, foreign=True),
}
"""Operators by name. What needs no handler because all its inputs are constants is in `blrc.importing.folding`."""
OF_AVERAGES = frozenset(
    {"Add", "AveragePool", "Conv", "Div", "Dropout", "Flatten", "Gemm", "GlobalAveragePool", "GlobalMaxPool"}
    | {"Identity", "MatMul", "MaxPool", "Mul", "Neg", "ReduceMean", "Reshape", "Shape", "Squeeze", "Sub", "Transpose"}
    | {"Unsqueeze"}
)
"""Operators that take averages of bits as they take bits: those that are linear, take the largest, or only reshape."""


def check_averages(op: Op, args: Args) -> None:
    """Refuse an operator of averages that is only exact for bits.

    Raises:
        RefusalError: it reads averages and is not one of `OF_AVERAGES`.
    """
    if op.kind not in OF_AVERAGES and any(isinstance(arg, Averages) for arg in args):
        what = "levels" if any(isinstance(arg, Levels) for arg in args) else "averages of bits"
        raise RefusalError(f"it computes with {what}", "let a layer with binary weights, or the last layer, read them")
