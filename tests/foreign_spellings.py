"""Spell arithmetic, norms and signs of ONNX files in the ways of other people, with numbers that float32 holds.

Every constant is a small number times a power of two. So float32 rounds nowhere, ONNX Runtime gives what exact
arithmetic gives, and a value that lies exactly on a threshold does so in both. Norms take the median of what reaches
them for their mean, so that bits are balanced and such ties are frequent.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto
from onnx_chains import BREVITAS, FINN, File, ran

EXACT = 2**22
"""Units that a value may reach: float32 holds 2^24 of them, and a norm multiplies by up to 3."""
FACTORS = np.float32([0.25, 0.5, 1, 2, 0.75, 1.5, 3])


def unit_of(values: NDArray[Any]) -> Fraction:
    """Return the largest power of two of which all values are multiples."""
    parts = [Fraction(float(value)) for value in values.reshape(-1) if value]
    return min((Fraction(p.numerator & -p.numerator, p.denominator) for p in parts), default=Fraction(2**20))


@dataclass
class Spelled:
    """Draw a network step by step: what stands between its layers.

    Attributes:
        file: the nodes so far.
        options: how the import is told what the raw input is.
        raw, x: samples as the device gets them, and the file's input for them.
        shape: (C, H, W) or (features,), whatever the file's layout.
        last: whether the file has channels last.
        unit, peak: a power of two that divides all values, and the largest value.
        centred: whether zeros may be padded.
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
            domain = self.pick(BREVITAS, "qonnx.custom_op.general", FINN)
            self.file.node("BipolarQuant", np.float32(high), domain=domain)
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
            if self.unit < before:
                self.file.node("Sign")
            else:
                self.file.node("BipolarQuant", np.float32(1), domain=BREVITAS)
        elif style == 4:
            steps = float(self.unit) * self.rng.integers(-1, 2, (many if self.chance(0.7) else 1, 1))
            scale, bias = self.pick((2.0, -1.0), (1.0, 0.0), (1.0, -0.5), (-2.0, 1.0))
            low, high = bias, scale + bias
            layout = "NHWC" if self.last else {1: "NC", 2: "NCW", 3: "NCHW"}[len(self.shape)]
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
