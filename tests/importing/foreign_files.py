"""Write ONNX files of binary networks as other people spell them, with numbers that float32 computes exactly.

Every constant is a small number times a power of two. So float32 rounds nowhere, ONNX Runtime gives what exact
arithmetic gives, and a value that lies exactly on a threshold does so in both. Norms take the median of what reaches
them for their mean, so that bits are balanced and such ties are frequent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto
from onnx_chains import BREVITAS, FINN, File, ran, signs

SAMPLES = 24
EXACT = 2**22
"""Units that a value may reach: float32 holds 2^24 of them, and a norm multiplies by up to 3."""
OPSETS = (9, 10, 11, 12, 13, 14, 15, 17, 18, 20, 21, 23)
SIZES = (1, 2, 3, 5, 7, 8, 16, 31, 32, 33, 64, 70)
"""Channels: odd ones, and those at the edges of words."""
FACTORS = np.float32([0.25, 0.5, 1, 2, 0.75, 1.5, 3])


def unit_of(values: NDArray[Any]) -> Fraction:
    """Return the largest power of two of which all values are multiples."""
    parts = [Fraction(float(value)) for value in values.reshape(-1) if value]
    return min((Fraction(p.numerator & -p.numerator, p.denominator) for p in parts), default=Fraction(2**20))


@dataclass
class Foreign:
    """Draw a network step by step.

    Attributes:
        file: the nodes so far.
        options: how the import is told what the raw input is.
        raw, x: samples as the device gets them, and the file's input for them.
        shape: (C, H, W) or (features,), whatever the file's layout.
        last: whether the file has channels last.
        unit, peak: a power of two that divides all values, and the largest value.
        centred: whether zeros may be padded.
        doubtful: why a refusal would be right; empty where the network has to be taken.
    """

    rng: np.random.Generator
    file: File
    options: dict[str, Any]
    raw: NDArray[Any]
    x: NDArray[Any]
    shape: tuple[int, ...]
    last: bool = False
    unit: Fraction = Fraction(1)
    peak: float = 1.0
    centred: bool = True
    doubtful: list[str] = field(default_factory=list)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def values(self) -> NDArray[Any]:
        """Return what the file gives at its last node, channels first."""
        found = ran(self.file.model(), self.x)
        return found.transpose(0, 3, 1, 2) if self.last and found.ndim == 4 else found

    def row(self, values: NDArray[Any]) -> str:
        """Add a constant with one value for each channel."""
        if values.size == 1 and self.chance(0.5):
            return self.file.constant(values.reshape(self.pick((), (1,), (1,) * (len(self.shape) + 1))))
        behind = 0 if self.last or len(self.shape) == 1 else len(self.shape) - 1
        held = values.reshape(-1, *[1] * behind)
        return self.file.constant(held[None] if self.chance(0.4) else held)

    def factors(self, zeros: bool = True) -> NDArray[np.float32]:
        many = self.shape[0] if self.chance(0.7) else 1
        held = self.rng.choice(FACTORS, many) * self.rng.choice(np.float32([1, 1, -1]), many)
        return np.where(self.rng.random(many) < 0.08, np.float32(0), held) if zeros else held

    # ---- arithmetic

    def scale(self, held: NDArray[np.float32]) -> None:
        """Multiply by values for each channel, in one of the spellings."""
        step, peak = self.unit * unit_of(held), self.peak * float(np.abs(held).max())
        if peak > step * EXACT or not held.any():
            return
        powers = bool((held != 0).all() and (np.frexp(np.abs(held))[0] == 0.5).all())
        style = self.rng.integers(4)
        if powers and style == 0:
            self.file.node("Div", self.row(1 / held))
        elif style == 1:
            first = self.row(held)
            self.swapped("Mul", first)
        elif (held == -1).all():
            self.file.node("Neg")
        else:
            self.file.node("Mul", self.row(held))
        self.unit, self.peak = step, peak

    def shift(self, held: NDArray[np.float32]) -> None:
        """Add values for each channel, in one of the spellings."""
        step = min(self.unit, unit_of(held))
        if self.peak + float(np.abs(held).max()) > step * EXACT:
            return
        style = self.rng.integers(4)
        if style == 0:
            self.file.node("Sub", self.row(-held))
        elif style == 1:
            self.swapped("Add", self.row(held))
        elif style == 2:  # c - x, which turns the order round
            self.file.node("Neg")
            self.swapped("Sub", self.row(held))
        else:
            self.file.node("Add", self.row(held))
        self.unit, self.peak = step, self.peak + float(np.abs(held).max())

    def swapped(self, kind: str, first: str) -> None:
        """Add a node whose first input is the constant."""
        self.file.at = self.file.alone(kind, [first, self.file.at])

    def centre(self) -> NDArray[np.float32]:
        """Return the median of each channel, as a value that it takes."""
        held = self.values()
        rows = np.moveaxis(held, 1, 0).reshape(self.shape[0], -1)
        middle = np.sort(rows, axis=1)[:, rows.shape[1] // 2]
        return middle.astype(np.float32)

    def bend(self) -> None:
        """Add a monotone function."""
        style = int(self.rng.integers(7))
        if style == 0:
            self.file.node("Relu")
        elif style == 1:
            slope = self.rng.choice(np.float32([0.5, 0.25, 0, 2]), self.shape[0] if self.chance(0.7) else 1)
            self.unit *= min(Fraction(1), unit_of(slope))
            self.peak *= max(1.0, float(slope.max()))
            behind = 0 if self.last or len(self.shape) == 1 else len(self.shape) - 1
            self.file.node("PRelu", self.file.constant(slope.reshape(-1, *[1] * behind)))
        elif style == 2:
            self.unit *= Fraction(1, 4)
            self.file.node("LeakyRelu", alpha=0.25)
        else:
            middle = float(self.centre().mean())
            low, high = (np.float32(np.round(middle + d)) for d in (-4, 5))
            self.unit = min(self.unit, Fraction(1))
            self.clip(low if style != 3 else None, high if style != 4 else None)

    def clip(self, low: Any, high: Any) -> None:
        if self.file.opset < 11:
            ends = {"min": low, "max": high}
            self.file.node("Clip", **{name: float(end) for name, end in ends.items() if end is not None})
        elif self.chance(0.3):
            for kind, end in (("Max", low), ("Min", high)):
                if end is not None:
                    self.file.node(kind, end)
        else:
            self.file.node("Clip", "" if low is None else low, *([] if high is None else [high]))

    def norm(self) -> None:
        """Add a norm: as one node, or as its arithmetic."""
        mean, gamma = self.centre(), self.factors()
        if self.chance(0.3):
            mean = mean + np.float32(float(self.unit) / 2)
        many = self.shape[0]
        gamma = np.broadcast_to(gamma, (many,)).astype(np.float32)
        beta = self.rng.choice(np.float32([0, 0, 0.5, -0.25, 1]), many)
        root = self.rng.choice(np.float32([0.5, 1, 2, 4]), many)
        eps = float(self.pick(0.0, 2.0**-10, 2.0**-16))
        step = min(min(self.unit, unit_of(mean)) * unit_of(gamma) * unit_of(1 / root), Fraction(1, 4))
        peak = (self.peak + float(np.abs(mean).max())) * float(np.abs(gamma).max()) * 2 + 1
        if peak > step * EXACT:
            self.shift(-mean)
            return
        variance = root * root - np.float32(eps)
        if not self.last and self.chance(0.7):
            options = {"momentum": 0.9} if self.chance(0.5) else {}
            self.file.node("BatchNormalization", gamma, beta, mean, variance, epsilon=eps, **options)
        else:
            self.file.node("Sub", self.row(mean))
            held = self.row(variance)
            if eps:
                held = self.file.node("Add", np.float32(eps), on=held)
            held = self.file.node("Sqrt", on=held) if self.chance(0.5) else self.file.node("Pow", 0.5, on=held)
            if self.chance(0.5):
                self.file.node("Div", held)
                self.file.node("Mul", self.row(gamma))
            else:
                self.file.node("Mul", self.file.alone("Div", [self.row(gamma), held]))
            self.file.node("Add", self.row(beta))
        self.unit, self.peak = step, peak

    # ---- what makes bits

    def decide(self) -> None:
        """Add a sign, in one of the spellings; the bits are centred or not."""
        style = int(self.pick(*range(9 if self.file.opset >= 11 else 6), 7, 8))
        many = self.shape[0]
        low, high = -1.0, 1.0
        if style == 0:
            high = float(self.pick(1, 0.5, 2))
            low = -high
            self.file.node("BipolarQuant", np.float32(high), domain=self.pick(BREVITAS, "qonnx.custom_op.general", FINN))
        elif style == 1:
            low, high = self.pick((-1, 1), (1, -1), (0, 1), (-0.5, 0.5), (1, 3))
            at = np.float32(float(self.unit) * int(self.rng.integers(-1, 2)))
            kind = self.comparison(at)
            self.file.node(kind, np.float32(high), np.float32(low))
        elif style == 2:
            self.file.node("Sign")
            self.file.node(self.pick("Add", "Sub"), np.float32(self.pick(0.1, 0.5)))
            self.file.node("Sign")
        elif style == 3:
            before = self.unit
            self.shift(np.float32([float(self.unit) / 2]))
            self.file.node(*(("Sign",) if self.unit < before else ("BipolarQuant", np.float32(1))), domain="" if self.unit < before else BREVITAS)
        elif style == 4:
            steps = float(self.unit) * self.rng.integers(-1, 2, (many if self.chance(0.7) else 1, 1))
            scale, bias = self.pick((2.0, -1.0), (1.0, 0.0), (1.0, -0.5), (-2.0, 1.0))
            low, high = bias, scale + bias
            layout = "NC" if len(self.shape) == 1 else "NHWC" if self.last else "NCHW"
            self.file.node(
                "MultiThreshold", np.float32(steps), domain=FINN, out_scale=scale, out_bias=bias, data_layout=layout
            )
        elif style == 5:
            self.comparison(np.float32(0))
            self.file.node("Cast", to=self.pick(TensorProto.FLOAT, TensorProto.FLOAT))
            low = 0.0
            if self.chance(0.7):
                self.file.node("Mul", np.float32(2))
                self.file.node("Sub", np.float32(1))
                low = -1.0
        elif style == 6:
            signed = int(self.rng.integers(2))
            high = float(self.pick(1, 0.5, 2))
            low = -high if signed else 0.0
            options = {"signed": signed, "narrow": signed and int(self.rng.integers(2)), "rounding_mode": "ROUND"}
            width = np.float32(1)
            self.file.node("Quant", np.float32(high), np.float32(0), width, domain=BREVITAS, **options)
            if signed:  # the rewriting of the tests has no sign of one bit
                self.file.nodes.pop()
                self.file.at = self.file.node("BipolarQuant", np.float32(high), domain=BREVITAS, on=self.before())
        elif style == 7:
            kind = self.comparison(np.float32(0), negated=True)
            self.file.node(kind, np.float32(-1), np.float32(1))
        else:
            self.clip(np.float32(-1), np.float32(1))
            self.file.node("BipolarQuant", np.float32(1), domain=BREVITAS)
        self.bits(low, high)

    def before(self) -> str:
        return str(self.file.nodes[-1].output[0])

    def comparison(self, at: Any, negated: bool = False) -> str:
        """Add a comparison that holds from a threshold on (or above it), and return what chooses by it."""
        up = self.pick("Greater", "GreaterOrEqual") if self.file.opset >= 12 else "Greater"
        down = {"Greater": "Less", "GreaterOrEqual": "LessOrEqual"}[up]
        if negated:
            self.file.node(down, at)
            if self.chance(0.3):
                self.file.node("Not")
        elif self.chance(0.3):
            self.file.at = self.file.alone(down, [self.file.constant(at), self.file.at])
        else:
            self.file.node(up, at)
        return "Where"

    def bits(self, low: float, high: float) -> None:
        self.peak, self.centred = max(abs(low), abs(high)), low == -high
        self.unit = unit_of(np.float32([low, high]))

    # ---- layers

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
            chosen = file.node("Greater" if self.file.opset < 12 else "GreaterOrEqual", 0.0, on=file.constant(held * sizes))
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
        channels, height, width = self.shape
        small = [n for n in SIZES if n * channels <= 1200]
        groups = channels if self.chance(0.15) else self.pick(*(g for g in range(1, channels + 1) if not channels % g)) if self.chance(0.2) else 1
        out = int(self.rng.choice(small))
        out = out if groups == 1 else groups * int(self.rng.integers(1, 3))
        kernel = [min(int(self.rng.integers(1, 4)), n) for n in (height, width)]
        stride = [int(self.rng.choice([1, 1, 2, 3])) for _ in range(2)]
        pads = [int(self.rng.integers(0, k)) if self.centred and self.chance(0.5) else 0 for k in kernel]
        if self.last:
            self.file.node("Transpose", perm=[0, 3, 1, 2])
        name = self.weights((out, channels // groups, *kernel), 0)
        height, width = ((n + 2 * p - k) // s + 1 for n, p, k, s in zip((height, width), pads, kernel, stride, strict=True))
        self.shape = (out, height, width)
        bias = self.biased()
        self.file.node("Conv", name, *bias, strides=stride, pads=[*pads, *pads], group=groups, kernel_shape=kernel)
        if self.last:
            self.file.node("Transpose", perm=[0, 2, 3, 1])

    def pool(self) -> None:
        _, height, width = self.shape
        if min(height, width) < 2:
            return
        size = int(self.rng.integers(2, min(height, width, 3) + 1))
        pad = 1 if self.chance(0.2) else 0
        stride = int(self.rng.integers(1, 3))
        if self.last:
            self.file.node("Transpose", perm=[0, 3, 1, 2])
        self.file.node("MaxPool", kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)
        if self.last:
            self.file.node("Transpose", perm=[0, 2, 3, 1])
        height, width = ((n + 2 * pad - size) // stride + 1 for n in (height, width))
        self.shape = (self.shape[0], height, width)

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
            self.file.node("Gemm", name, *bias, transB=1)

    def flatten(self) -> None:
        many = int(np.prod(self.shape))
        if self.chance(0.5):
            self.file.node("Flatten")
        else:
            self.file.node("Reshape", self.file.constant(self.pick([-1, many], [0, -1]), np.int64))
        self.shape, self.last = (many,), False

    def chained(self) -> None:
        """Add what stands between a layer's sums and its sign, and the sign."""
        early = len(self.shape) == 3 and self.chance(0.4)
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
        if len(self.shape) == 3 and not early and self.chance(0.4):
            self.pool()


def raw_input(rng: np.random.Generator, shape: tuple[int, ...], opset: int, last: bool) -> Foreign:
    """Return the beginning of a network: its raw input, and how the file spells what it takes."""
    batch = int(rng.choice([2, SAMPLES])) if rng.random() < 0.3 else "N"
    batch = SAMPLES if batch != "N" else batch
    laid = (*shape[1:], shape[0]) if last else shape
    file = File((batch, *laid), opset=opset)
    style = str(rng.choice(["bits", "spelled", "int8", "codes", "uint8", "pixels", "quantised"][: 7 if opset > 10 else 6]))
    options: dict[str, Any] = {}
    raw: NDArray[Any] = rng.integers(0, 2, (SAMPLES, *shape), dtype=np.uint8)
    if style in ("uint8", "pixels"):
        raw = rng.integers(0, 256, (SAMPLES, *shape), dtype=np.uint8)
    elif style in ("int8", "codes", "quantised"):
        raw = rng.integers(-128, 128, (SAMPLES, *shape)).astype(np.int8)
    x = np.ascontiguousarray(raw.transpose(0, 2, 3, 1)) if last else raw
    made = Foreign(rng, file, options, raw, x.astype(np.float32), shape, last)
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
        file.element = int(made.pick(TensorProto.INT8, TensorProto.INT32, TensorProto.INT16))
        made.options["input"] = "int8"
        made.x = x.astype({TensorProto.INT8: np.int8, TensorProto.INT32: np.int32, TensorProto.INT16: np.int16}[file.element])  # type: ignore[index]
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
    convolutional = bool(rng.random() < 0.6)
    channels = int(rng.choice([1, 2, 3, 3, 5, 7, 12, 33]))
    shape = (channels, int(rng.integers(3, 9)), int(rng.integers(3, 9))) if convolutional else (int(rng.integers(1, 80)),)
    made = raw_input(rng, shape, opset, convolutional and bool(rng.random() < 0.25))
    for _ in range(int(rng.integers(1, 4)) if convolutional else 0):
        made.convolution()
        made.chained()
    if convolutional:
        made.flatten()
    for _ in range(int(rng.integers(0, 3)) if convolutional else int(rng.integers(1, 3))):
        made.dense(int(rng.choice(SIZES)))
        made.chained()
    made.dense(int(rng.integers(2, 12)))
    return made


def raw_bits(x: NDArray[np.float32], note: str) -> NDArray[np.uint8]:
    """Return the bits that a caller makes of the file's input (channels first), as the import says it in words."""
    found = re.fullmatch(
        r"the raw input is bits: 1 where the network's input (>=|>|<=|<) (.*?)( in the order of channels)?, else 0", note
    )
    assert found is not None, note
    at = np.float32([float(number) for number in found[2].split(", ")]).reshape(-1, *[1] * (x.ndim - 2))
    compare = {">=": np.greater_equal, ">": np.greater, "<=": np.less_equal, "<": np.less}[found[1]]
    return np.asarray(compare(x, at), dtype=np.uint8)
