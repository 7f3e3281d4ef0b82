"""Describe the sliding window of a convolution or pool, and read it from a layer's options."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from blrc.errors import BlrcError

LIMIT = 2**15 - 1  # of kernels, strides, paddings and dilations: far beyond use, so that no product of two overflows
MOST = 2**31 - 1  # of channels and features: the C counts in int32_t


@dataclass(frozen=True)
class Window:
    """Describe a sliding window, as (vertical, horizontal); padding is (top, left, bottom, right)."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)

    @property
    def span(self) -> tuple[int, int]:
        """Return the height and width that the dilated kernel covers."""
        return (
            self.dilation[0] * (self.kernel[0] - 1) + 1,
            self.dilation[1] * (self.kernel[1] - 1) + 1,
        )

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    def output(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width of the output map, rounded down as in torch; they are below 1 if no window fits."""
        top, left, bottom, right = self.padding
        return (
            (height + top + bottom - self.span[0]) // self.stride[0] + 1,
            (width + left + right - self.span[1]) // self.stride[1] + 1,
        )

    def taps_inside(self, height: int, width: int) -> int:
        """Return the number of taps that are computed: those inside a map of that size, over all output positions."""
        inside = 1
        for axis, size in enumerate((height, width)):
            taps, step = self.kernel[axis], self.dilation[axis]
            starts = (i * self.stride[axis] - self.padding[axis] for i in range(self.output(height, width)[axis]))
            # Tap k of an output that starts at s lies at s + k x step, which has to be from 0 to size - 1.
            inside *= sum(max(0, min(taps - 1, (size - 1 - s) // step) + 1 - max(0, -(s // step))) for s in starts)
        return inside


def conv_window(who: str, kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> Window:
    """Return the window of a convolution from its options, as in `torch.nn.Conv2d`.

    Args:
        padding: also four numbers (top, left, bottom, right).

    Raises:
        BlrcError: an option that is no whole number or pair of them in its range, an unknown word for the padding, or
            'same' padding with a stride. The message starts with `who`.
    """
    kernel, strides = pair(who, "kernel_size", kernel_size, 1), pair(who, "stride", stride, 1)
    dilations = pair(who, "dilation", dilation, 1)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise BlrcError(f"{who}: padding {padding!r}: a number, a pair, four numbers, 'same' or 'valid'")
        if padding == "valid":
            return Window(kernel, strides, dilation=dilations)
        if strides != (1, 1):
            raise BlrcError(f"{who}: padding 'same' needs stride 1, got {strides}: give the padding in pixels")
        # As torch: the odd pixel goes to the bottom and the right.
        height, width = (d * (k - 1) for k, d in zip(kernel, dilations, strict=True))
        top, left = height // 2, width // 2
        return Window(kernel, strides, (top, left, height - top, width - left), dilations)
    return Window(kernel, strides, _sides(who, padding), dilations)


def pool_window(who: str, kernel_size: Any, stride: Any, padding: Any) -> Window:
    """Return the window of a max pooling from its options, as in `torch.nn.MaxPool2d`.

    A stride of None is the kernel's size. The padding may also be four numbers (top, left, bottom, right).

    Raises:
        BlrcError: an option that is no whole number or pair of them in its range, a padding of more than half of the
            kernel, which torch refuses, or of the whole kernel where the sides differ. The message starts with `who`.
    """
    kernel = pair(who, "kernel_size", kernel_size, 1)
    strides = kernel if stride is None else pair(who, "stride", stride, 1)
    sides = _sides(who, padding)
    alike = sides[:2] == sides[2:]
    most = [n // 2 if alike else n - 1 for n in kernel] * 2
    if any(side > n for side, n in zip(sides, most, strict=True)):
        too_much = f"{sides[:2]} is more than half of the kernel" if alike else f"{sides} is no less than the kernel"
        raise BlrcError(f"{who}: padding {too_much} {kernel}: give at most {tuple(most[:2])}")
    return Window(kernel, strides, sides)


def padding_option(sides: tuple[int, int, int, int], dims: int = 2) -> tuple[int, ...]:
    """Return a padding (top, left, bottom, right) as an option of a layer of so many dimensions.

    That is a number for each dimension where opposite sides are alike, else all first and then all last sides.
    """
    first, last = sides[2 - dims : 2], sides[4 - dims :]
    return first if first == last else first + last


def _sides(who: str, padding: Any) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) from a number, a pair or four numbers.

    Raises:
        BlrcError: the value is anything else; the message starts with `who`.
    """
    if isinstance(padding, list | tuple) and len(padding) == 4:
        top, left = pair(who, "padding", padding[:2], 0)
        return (top, left, *pair(who, "padding", padding[2:], 0))
    vertical, horizontal = pair(who, "padding", padding, 0)
    return vertical, horizontal, vertical, horizontal


def pair(who: str, option: str, value: Any, least: int) -> tuple[int, int]:
    """Return ``(vertical, horizontal)`` from one or two whole numbers, each from `least` to `LIMIT`.

    Raises:
        BlrcError: the value is anything else; the message starts with `who` and names the option.
    """
    numbers = [_whole(number) for number in (value if isinstance(value, list | tuple) else (value, value))]
    if len(numbers) == 2:
        first, second = numbers
        if first is not None and second is not None and all(least <= number <= LIMIT for number in (first, second)):
            return first, second
    raise BlrcError(f"{who}: {option} {value!r}: give a whole number from {least} to {LIMIT}, or a pair of them")


BESIDE: Mapping[str, int] = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1}
"""Give the vertical value of each option of a layer over time, taken as one over maps of one row."""


def of_line(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a layer over time as those of one over maps of one row."""
    return {name: _across(name, value) if name in BESIDE else value for name, value in options.items()}


def _across(name: str, value: Any) -> Any:
    """Return an option of a one-dimensional layer as (vertical, horizontal), and two paddings as four; words stay."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if name == "padding" and isinstance(value, list | tuple) and len(value) == 2:
        return BESIDE[name], value[0], BESIDE[name], value[1]
    return value if value is None or isinstance(value, str) else (BESIDE[name], value)


def count(who: str, option: str, value: Any) -> int:
    """Return a number of channels, features or groups: a whole number from 1 to 2^31 - 1.

    Raises:
        BlrcError: the value is anything else; the message starts with `who` and names the option.
    """
    number = _whole(value)
    if number is None or not 1 <= number <= MOST:
        raise BlrcError(f"{who}: {option} {value!r}: give a whole number from 1 on")
    return number


def _whole(value: Any) -> int | None:
    """Return `value` as an int if it is a whole number (NumPy's too), else None; 1.5 and True do not become 1."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def sliding(maps: NDArray[Any], span: tuple[int, int], axes: tuple[int, int]) -> NDArray[Any]:
    """Return every window of `span` along two axes as a view; the windows' own axes come last.

    NumPy 1 declares fewer types for its function than it takes, so it is called here only.
    """
    view: NDArray[Any] = sliding_window_view(maps, span, axes)  # type: ignore[call-overload, unused-ignore]
    return view
