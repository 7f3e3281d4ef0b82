"""Draw ONNX files of whole binary networks as other people write them: their raw input, their layers and their ends."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
from foreign_spellings import FACTORS, Spelled, unit_of
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx_chains import BREVITAS, File, signs

SAMPLES = 24
OPSETS = (9, 10, 11, 12, 13, 14, 15, 17, 18, 20, 21, 23)
MOST_CHANNELS = 1200
"""Product of the channels of a convolution, in and out."""
SIZES = (1, 2, 3, 5, 7, 8, 16, 31, 32, 33, 64, 70)
"""Channels: odd ones, and those at the edges of words."""


class Foreign(Spelled):
    """Draw a network layer by layer.

    Attributes:
        scores: the tensor of the scores.
        real: whether the scores are sums that the device may round.
        last_at_first: whether the file's input has channels last.
    """

    scores: str = ""
    real: bool = False
    last_at_first: bool = False

    def weights(self, shape: tuple[int, ...], axis: int) -> str:
        """Add weights of two values for each output channel, in one of the spellings."""
        held, file = signs(self.rng, *shape), self.file
        rows = [1] * len(shape)
        rows[axis] = shape[axis]
        scale = self.rng.choice(np.float32([0.5, 1, 2, 0.75]), rows)
        style = int(self.rng.integers(6))
        sizes = np.abs(self.rng.normal(size=shape)).astype(np.float32) + np.float32(0.01)
        if style < 2:
            scale = scale if style else np.ones_like(scale)
            name = file.constant(held * scale)
            if self.chance(0.3):
                name = file.alone("Constant", [], value=file.constants.pop())
        elif style == 2:
            scale = np.float32([0.5]).reshape([1] * len(shape))
            name = file.node("BipolarQuant", np.float32(0.5), domain=BREVITAS, on=file.constant(held * sizes))
        elif style == 3:
            name = file.node("Mul", scale, on=file.node("Sign", on=file.constant(held * sizes)))
        elif style == 4:
            kind = "Greater" if self.file.opset < 12 else "GreaterOrEqual"
            chosen = file.node(kind, 0.0, on=file.constant(held * sizes))
            scale = np.ones_like(scale)
            name = file.alone("Where", [chosen, file.constant(1.0), file.constant(-1.0)])
        else:
            scale = np.ones_like(scale)
            name = file.node("Sub", 1.0, on=file.node("Mul", 2.0, on=file.constant((held + 1) / 2)))
        self.unit *= unit_of(scale)
        self.peak *= float(scale.max()) * (held.size / shape[axis])
        return name

    def noise(self) -> None:
        """Perhaps add a node that changes nothing."""
        style = int(self.rng.integers(12))
        if style == 0:
            self.file.node("Identity")
        elif style == 1:
            if self.file.opset < 12:
                self.file.node("Dropout", ratio=0.5)
            else:
                self.file.node("Dropout", np.float32(0.5))
        elif style == 2:
            self.file.node("Cast", to=TensorProto.FLOAT)
        elif style == 3:
            self.file.node("Cast", to=TensorProto.DOUBLE)
            self.file.node("Cast", to=TensorProto.FLOAT)
        elif style == 4 and len(self.shape) == 1:
            self.file.node("Reshape", self.file.constant([-1, *self.shape], np.int64))
        elif style == 5 and len(self.shape) == 3:
            self.file.node("Transpose", perm=[0, 2, 3, 1])
            self.file.node("Transpose", perm=[0, 3, 1, 2])

    def biased(self) -> list[str]:
        if not self.chance(0.3):
            return []
        held = self.rng.choice(np.float32([-2, -0.5, 0, 1, 3]), self.shape[0])
        self.unit, self.peak = min(self.unit, unit_of(held)), self.peak + 3
        return [self.file.constant(held)]

    def convolution(self) -> None:
        """Add a convolution of one or two dimensions."""
        channels, *sizes = self.shape
        groups = 1
        if self.chance(0.3):
            groups = int(self.pick(channels, *(g for g in range(1, channels + 1) if not channels % g)))
        out = int(self.rng.choice([n for n in SIZES if n * channels <= MOST_CHANNELS]))
        out = out if groups == 1 else groups * int(self.rng.integers(1, 3))
        kernel = [min(int(self.rng.integers(1, 4)), n) for n in sizes]
        dilation = [self.pick(1, 1, 2) if 2 * (k - 1) < n else 1 for n, k in zip(sizes, kernel, strict=True)]
        stride = [int(self.rng.choice([1, 1, 2, 3])) for _ in sizes]
        before, after = ([int(self.rng.integers(0, k)) for k in kernel] for _ in range(2))
        if not self.centred or self.chance(0.4):
            before = after = [0] * len(sizes)
        elif self.chance(0.6):
            after = before
        self.channels_first()
        name = self.weights((out, channels // groups, *kernel), 0)
        held: dict[str, Any] = {"pads": [*before, *after]}
        if self.centred and max(dilation) == 1 and self.chance(0.2):
            held = {"auto_pad": self.pick("SAME_UPPER", "SAME_LOWER")}
            sizes = [-(-n // s) for n, s in zip(sizes, stride, strict=True)]
        else:
            sizes = [
                (n + p + q - d * (k - 1) - 1) // s + 1
                for n, p, q, k, s, d in zip(sizes, before, after, kernel, stride, dilation, strict=True)
            ]
            if any((*before, *after)) and self.chance(0.3):
                around = [0, 0, *before, 0, 0, *after]
                if self.file.opset < 11:
                    self.file.node("Pad", pads=around)
                else:
                    self.file.node("Pad", self.file.constant(around, np.int64))
                held = {}
            elif not any((*before, *after)) and self.chance(0.3):
                held = {"auto_pad": "VALID"}
        if max(dilation) > 1:
            held["dilations"] = dilation
        if groups > 1:
            held["group"] = groups
        self.shape = (out, *sizes)
        self.file.node("Conv", name, *self.biased(), strides=stride, kernel_shape=kernel, **held)
        self.channels_last()

    def channels_first(self) -> None:
        if self.last:
            self.file.node("Transpose", perm=[0, len(self.shape), *range(1, len(self.shape))])

    def channels_last(self) -> None:
        if self.last:
            self.file.node("Transpose", perm=[0, *range(2, len(self.shape) + 1), 1])

    def pool(self) -> None:
        """Add max pooling where the map is large enough."""
        channels, *sizes = self.shape
        if min(sizes) < 2:
            return
        size, stride = int(self.rng.integers(2, min((*sizes, 3)) + 1)), int(self.rng.integers(1, 3))
        before, after = (1 if self.chance(0.2) else 0 for _ in range(2))
        many = len(sizes)
        self.channels_first()
        if self.chance(0.15):
            self.file.node("GlobalMaxPool")
            sizes = [1] * many
        else:
            self.file.node(
                "MaxPool", kernel_shape=[size] * many, strides=[stride] * many, pads=[before] * many + [after] * many
            )
            sizes = [(n + before + after - size) // stride + 1 for n in sizes]
        self.shape = (channels, *sizes)
        self.channels_last()

    def dense(self, out: int) -> None:
        features, style = self.shape[0], int(self.rng.integers(4))
        if style == 0:
            name = self.weights((features, out), 1)
        elif style == 1:
            name = self.file.node("Transpose", on=self.weights((out, features), 0), perm=[1, 0])
        else:
            name = self.weights((out, features), 0)
        self.shape = (out,)
        if style < 2:
            self.file.node("MatMul", name)
            if bias := self.biased():
                self.file.node("Add", *bias)
        else:
            bias = self.biased() or ([self.file.constant(np.zeros(out))] if self.file.opset < 11 else [])
            factors: dict[str, float] = {}
            if self.chance(0.3):
                factors = {"alpha": self.pick(0.5, 2.0, -1.0), "beta": self.pick(0.5, 2.0)}
                self.unit, self.peak = self.unit / 4, self.peak * 2
            self.file.node("Gemm", name, *bias, transB=1, **factors)

    def end(self, classes: int) -> None:
        """Add the last layer, and perhaps what changes no label behind it."""
        if self.chance(0.3):
            weights = self.rng.integers(-8, 9, (classes, self.shape[0])).astype(np.float32) / 4
            weights[0, 0] = 0.75  # of two sizes, so that they are no signs
            self.file.node("Gemm", weights, np.zeros(classes), transB=1)
            self.real = True
        else:
            self.dense(classes)
        self.shape = (classes,)
        self.scores = self.file.at
        if self.chance(0.3):
            self.scale(self.rng.choice(FACTORS, classes if self.chance(0.5) else 1))
            self.shift(self.rng.choice(np.float32([0, 0.5, -1]), classes))
            self.scores, self.real = self.file.at, True
        style = int(self.rng.integers(8))
        if style < 3:
            self.file.node(("Softmax", "LogSoftmax", "ArgMax")[style], axis=1)
        elif style == 3:
            self.file.node("ArgMax", axis=-1 if self.file.opset >= 11 else 1, keepdims=0)

    def flatten(self) -> None:
        many = int(np.prod(self.shape))
        if self.chance(0.5):
            self.file.node("Flatten")
        else:
            self.file.node("Reshape", self.file.constant(self.pick([-1, many], [0, -1]), np.int64))
        self.shape, self.last = (many,), False

    def chained(self) -> None:
        """Add what stands between a layer's sums and its sign, and the sign."""
        is_map = len(self.shape) > 1
        early = is_map and self.chance(0.4)
        for _ in range(int(self.rng.integers(0, 3))):
            self.pick(lambda: self.scale(self.factors(zeros=False)), lambda: self.shift(self.factors()), self.bend)()
            self.noise()
        if early:
            self.pool()
        if self.chance(0.8):
            self.norm()
        else:
            self.shift(-self.centre())
        if self.chance(0.2):
            self.scale(self.factors(zeros=False))
        self.noise()
        self.decide()
        self.noise()
        if is_map and not early and self.chance(0.4):
            self.pool()


def raw_input(rng: np.random.Generator, shape: tuple[int, ...], opset: int, last: bool) -> Foreign:
    """Return the beginning of a network: its raw input, and how the file spells what it takes."""
    batch = SAMPLES if rng.random() < 0.3 else "N"
    laid = (*shape[1:], shape[0]) if last else shape
    file = File((batch, *laid), opset=opset)
    styles = ["bits", "spelled", "int8", "codes", "uint8", "pixels", *(["quantised"] if opset > 10 else [])]
    style = str(rng.choice(styles))
    options: dict[str, Any] = {}
    raw: NDArray[Any] = rng.integers(0, 2, (SAMPLES, *shape), dtype=np.uint8)
    if style in ("uint8", "pixels"):
        raw = rng.integers(0, 256, (SAMPLES, *shape), dtype=np.uint8)
    elif style in ("int8", "codes", "quantised"):
        raw = rng.integers(-128, 128, (SAMPLES, *shape)).astype(np.int8)
    x = np.ascontiguousarray(raw.transpose(0, 2, 3, 1)) if last else raw
    made = Foreign(rng, file, options, raw, x.astype(np.float32), shape, last)
    made.last_at_first = last
    if style == "bits":
        made.options["input"] = "bits"
        made.x = made.x * 2 - 1
    elif style == "spelled":
        made.x = rng.integers(0, 5, made.x.shape).astype(np.float32) / 4
        made.unit, made.peak = Fraction(1, 4), 1.0
        for _ in range(int(rng.integers(3))):
            made.pick(lambda: made.scale(made.factors(zeros=False)), lambda: made.shift(made.factors()))()
        made.shift(-made.centre())
        made.decide()
    elif style == "int8":
        made.options |= {"input": "int8", "scale": 32.0}
        made.x, made.peak, made.unit = made.x / 32, 4.0, Fraction(1, 32)
    elif style == "codes":
        kind = made.pick(np.int8, np.int16, np.int32)
        file.element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        made.options["input"] = "int8"
        made.x = x.astype(kind)
        made.peak = 128.0
        file.node("Cast", to=TensorProto.FLOAT)
    elif style == "quantised":
        made.x = made.x / 64
        made.unit, made.peak = Fraction(1, 64), 2.0
        file.node("Quant", np.float32(1 / 64), np.float32(0), np.float32(8), domain=BREVITAS, signed=1, narrow=0)
    else:
        made.peak, made.centred = 255.0, False
        if style == "uint8":
            file.element, made.x = TensorProto.UINT8, x
            file.node("Cast", to=TensorProto.FLOAT)
        else:
            made.options["input"] = "pixels"
            made.x = made.x / np.float32(255)
            file.node("Mul", np.float32(255))
        if made.chance(0.6):
            made.shift(np.float32([-128]))
            made.unit = min(made.unit, Fraction(1))
        if made.chance(0.5):
            made.scale(np.float32([1 / 128]))
        if made.chance(0.3):
            made.shift(-made.centre())
            made.decide()
    return made


def foreign(seed: int) -> Foreign:
    """Return a random network."""
    rng = np.random.default_rng([seed, 17])
    opset = int(rng.choice(OPSETS))
    rank = int(rng.choice([0, 0, 0, 1, 2, 2, 2, 2]))
    channels = int(rng.choice([1, 2, 3, 3, 5, 7, 12, 33]))
    shape: tuple[int, ...] = (int(rng.integers(1, 80)),)
    if rank:
        shape = (channels, *(int(n) for n in rng.integers(3, 9, rank)))
    made = raw_input(rng, shape, opset, rank == 2 and bool(rng.random() < 0.25))
    for _ in range(int(rng.integers(1, 4)) if rank else 0):
        made.convolution()
        made.chained()
    if rank:
        made.flatten()
    for _ in range(int(rng.integers(0, 3)) if rank else int(rng.integers(1, 3))):
        made.dense(int(rng.choice(SIZES)))
        made.chained()
    made.end(int(rng.integers(2, 12)))
    return made


def raw_bits(x: NDArray[np.float32], note: str) -> NDArray[np.uint8] | None:
    """Return the bits that a caller makes of the file's input (channels first), as the import says it in words.

    None where it says it only in part.
    """
    found = re.fullmatch(
        r"the raw input is bits: 1 where the network's input (>=|>|<=|<) (.*?)( in the order of .*)?, else 0", note
    )
    assert found is not None, note
    if "..." in found[2]:  # many thresholds, of which the note has the first ones
        return None
    at = np.float32([float(number) for number in found[2].split(", ")]).reshape(-1, *[1] * (x.ndim - 2))
    compare = {">=": np.greater_equal, ">": np.greater, "<=": np.less_equal, "<": np.less}[found[1]]
    return np.asarray(compare(x, at), dtype=np.uint8)
