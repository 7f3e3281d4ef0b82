"""Define the op that computes scores by a binary or ternary last layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from blrc.program.ops.end import End, vectors
from blrc.program.ops.op import INT32_MAX, Context, Table


@dataclass(frozen=True)
class BinaryScores(End):
    """Compute scores by a binary or ternary last layer: scale and shift its pre-activations z for each class.

    y = multiplier[class] z + bias[class]; `blrc.lowering.affine` makes the numbers. Constants: `weights` uint32
    (classes, H, W, words(C)), bit 1 = +1, or (classes, H, W, 2, words(C)) where `ternary`, as in `Conv`; `multiplier`
    and `bias` int32 (classes,).
    """

    multiplier: str
    bias: str
    ternary: bool = field(default=False, kw_only=True)

    kind = "binary_scores"
    title = "dense"
    format = 2

    def tables(self) -> tuple[Table, ...]:
        (height, width, _), classes = self.x.shape, self.y.shape[2]
        numbers = (Table(name, ("int32",), (classes,)) for name in (self.multiplier, self.bias))
        return self.packed_table(classes, height, width), *numbers

    @property
    def packed(self) -> int:
        return self.x.shape[2]

    @property
    def has_zeros(self) -> bool:
        return self.ternary

    def check_tables(self, program: Context) -> None:
        super().check_tables(program)
        largest = self.fan_in * program.peak(self.x)
        self.require(2 * largest < INT32_MAX, f"sums up to {largest} do not fit int32")
        # Twice, so that multiplier n + bias - 2 multiplier count, which a kernel may use, cannot overflow.
        self.require(2 * self.largest(program) < INT32_MAX, "scores may overflow int32")

    def largest(self, program: Context) -> int:
        most, found = self.fan_in * program.peak(self.x), 0
        for member in range(len(program.members)):
            multiplier, bias = program.constant(self.multiplier, member), program.constant(self.bias, member)
            pairs = zip(multiplier.tolist(), bias.tolist(), strict=True)
            found = max(found, *(abs(m) * most + abs(b) for m, b in pairs))
        return found

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        multiplier, bias = program.constant(self.multiplier, member), program.constant(self.bias, member)
        return vectors(self.sums(program, x, member) * multiplier + bias)

    def extremes(self, program: Context, member: int) -> Iterator[tuple[str, NDArray[Any]]]:
        plus = self.numbers(program, member) > 0
        for extreme in (plus, ~plus):  # z = n and z = -n of each class
            yield "its extreme scores", self.extreme(extreme)
