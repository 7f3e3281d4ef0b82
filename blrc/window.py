"""Geometry of a sliding window, of convolutions and of pools."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Geometry of a sliding window, as (vertical, horizontal); padding is (top, left, bottom, right)."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)

    @property
    def span(self) -> tuple[int, int]:
        """Height and width that the dilated kernel covers."""
        return (
            self.dilation[0] * (self.kernel[0] - 1) + 1,
            self.dilation[1] * (self.kernel[1] - 1) + 1,
        )

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    def output(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the output map (rounded down, as in torch); not positive if the window does not fit."""
        top, left, bottom, right = self.padding
        return (
            (height + top + bottom - self.span[0]) // self.stride[0] + 1,
            (width + left + right - self.span[1]) // self.stride[1] + 1,
        )

    def taps_inside(self, height: int, width: int) -> int:
        """Taps that lie inside a map of that size, summed over all output positions: those that are computed."""
        inside = 1
        for axis, size in enumerate((height, width)):
            outputs = self.output(height, width)[axis]
            offset = -self.padding[axis]
            inside *= sum(
                0 <= i * self.stride[axis] + k * self.dilation[axis] + offset < size
                for i in range(outputs)
                for k in range(self.kernel[axis])
            )
        return inside
