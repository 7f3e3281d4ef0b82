"""Turn raw device input into integer codes; no other module knows how.

A device sees raw data: ``uint8`` (pixels), ``int8`` (ready-made codes) or ``bits`` (already +-1). Training
standardises, ``(x / 255 - mean) / std``. The device holds that as an int8 **code** with one scale for all channels,

    code = clip(round(scale * (x / 255 - mean_c) / std_c), -127, 127),        real value = code / scale

so that a sum of codes over channels is the real sum times ``scale`` (a scale per channel would break this). For uint8
input the map is a table of 256 entries per channel, and the table is part of the program. Zero padding is code 0. A
table may also be given as it is (`pixel_codes`), and pixels may become bits by a threshold per channel (`pixel_bits`).

Arrays here are N, C, H, W or N, C (dense input), as in torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from blrc.display import Brief
from blrc.errors import BlrcError
from blrc.net.elements import ELEMENTS
from blrc.net.standardising import (
    LEAST,
    MIDDLE,
    RAW_VALUES,
    check_moments,
    full_scale,
    standardised,
    standardised_codes,
)

InputKind = Literal["uint8", "int8", "bits"]


@dataclass(frozen=True, repr=False)
class InputEncoding(Brief):
    """Describe how raw input becomes codes. Build one with `pixels`, `int8_codes` or `bits`.

    Attributes:
        kind: type of the raw data.
        shape: shape of one sample, ``(C, H, W)``, ``(C, L)`` or ``(features,)``.
        scale: codes per unit of real input (1.0 for bits).
        mean, std: values per channel, in units of ``x / 255`` (uint8 that is standardised, else empty).
        given: the code of every raw value, 256 per channel or for all channels (uint8 with a table, else empty).
        at: thresholds from 0 to 256, per channel or for all: a raw value from there on is +1, one below is -1 (uint8
            that becomes bits, else empty).
        exact: whether standardised pixels are not rounded: codes are x - 128, and what is behind the first layer takes
            account of mean and std; or they become bits, as the module decides. None leaves it to `blrc.save`.
    """

    kind: InputKind
    shape: tuple[int, ...]
    scale: float
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    given: tuple[tuple[int, ...], ...] = ()
    at: tuple[int, ...] = ()
    exact: bool | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(InputKind):
            raise BlrcError(f"input kind {self.kind!r}: a device takes raw uint8, int8 or bits")
        if len(self.shape) not in (1, 2, 3) or any(not isinstance(n, int) or n < 1 for n in self.shape):
            raise BlrcError(
                f"input shape {self.shape}: expected (channels, height, width), (channels, length) or (features,), "
                "all positive"
            )
        if not LEAST <= self.scale <= 1 / LEAST:
            raise BlrcError(f"input scale {self.scale}: must be positive and finite, from {LEAST} to {1 / LEAST}")
        if self.exact and (self.kind != "uint8" or not self.mean or self.scale != 1.0):
            raise BlrcError("input: only pixels with mean and std can be exact, and their scale is 1")
        if self.kind != "uint8" or self.given or self.at:
            self._check_given()
        if self.mean or (self.kind == "uint8" and not (self.given or self.at)):
            check_moments(self.mean, self.std, self.channels)

    def _check_given(self) -> None:
        """Refuse a table or thresholds that are not in range, or beside others."""
        standardised = bool(self.mean or self.std) and not (self.exact and self.at)
        if ((self.kind != "uint8" or standardised) and (self.given or self.at)) or (self.given and self.at):
            raise BlrcError("input: give a table or thresholds of uint8 pixels, and neither both nor mean and std")
        rows = len(self.given or self.at or (0,))
        if rows not in (1, self.channels):
            raise BlrcError(
                f"input: {rows} tables or thresholds for {self.channels} channels; give one for each, or one"
            )
        for row in self.given:
            if len(row) != RAW_VALUES or not all(type(code) is int and -128 <= code <= 127 for code in row):
                raise BlrcError(f"input table: expected {RAW_VALUES} codes from -128 to 127 for each channel")
        if not all(type(limit) is int and 0 <= limit <= RAW_VALUES for limit in self.at):
            raise BlrcError(f"input thresholds {self.at}: must be whole numbers from 0 to {RAW_VALUES}")
        if self.at and self.scale != 1.0:
            raise BlrcError(f"input scale {self.scale}: pixels that become bits are +-1, so their scale is 1")

    @property
    def is_binary(self) -> bool:
        """Return whether the network sees +-1."""
        return self.kind == "bits" or bool(self.at)

    @property
    def channels(self) -> int:
        """Return how many channels have a table of their own (1 for dense uint8 input: all features share it)."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def map_shape(self) -> tuple[int, ...]:
        """Return the shape of one sample as a map ``(C, H, W)``, of one row where it is ``(C, L)``, or a vector."""
        return (self.shape[0], 1, self.shape[1]) if len(self.shape) == 2 else self.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the NumPy type of raw samples (bits are uint8 zeros and ones)."""
        return ELEMENTS[self.kind].given

    @property
    def code_range(self) -> tuple[int, int]:
        """Return the smallest and the largest code that this input can give."""
        if self.kind == "uint8" and not self.at:
            codes = self.table()
            return int(codes.min()), int(codes.max())
        return (-128, 127) if self.kind == "int8" else (-1, 1)

    @property
    def peak(self) -> int:
        """Return the largest magnitude of a code."""
        return max(map(abs, self.code_range))

    def table(self) -> NDArray[np.int8]:
        """Return the code of every raw value as an int8 array ``(channels or 1, 256)``; uint8 input only."""
        if self.at:
            return np.where(np.arange(RAW_VALUES) >= np.array(self.at)[:, None], np.int8(1), np.int8(-1))
        if self.given:
            return np.array(self.given, dtype=np.int8)
        if self.exact:
            return (np.arange(RAW_VALUES) - MIDDLE).astype(np.int8)[None]
        return standardised_codes(self.mean, self.std, self.scale)

    def codes(self, raw: NDArray[Any]) -> NDArray[np.int8]:
        """Return the codes of raw samples.

        Args:
            raw: ``(N, *shape)`` of type `dtype`.

        Returns:
            int8 of the same shape; +-1 for bits.

        Raises:
            BlrcError: the array's type or shape is not this input's.
        """
        self.check(raw, "input")
        if self.kind == "int8":
            return raw.astype(np.int8, copy=False)
        if self.kind == "bits":
            return (raw.astype(np.int8) * 2 - 1).astype(np.int8)
        table = self.table()
        if len(table) == 1:
            return np.asarray(table[0][raw])
        return np.stack([table[c][raw[:, c]] for c in range(self.channels)], axis=1)

    def maps(self, raw: NDArray[Any]) -> NDArray[np.int8]:
        """Return the codes of raw samples as maps, ``(N, *map_shape)``."""
        return self.codes(raw).reshape(len(raw), *self.map_shape)

    def real(self, raw: NDArray[Any]) -> NDArray[np.float32]:
        """Return what the torch network sees of raw samples, float32, shape ``(N, *shape)``.

        That is ``codes / scale``, or of exact pixels ``(x / 255 - mean) / std``, in float32 as torchvision computes.
        """
        if self.exact:
            self.check(raw, "input")
            return self.standardised(raw, np.float32)
        return (self.codes(raw).astype(np.float64) / self.scale).astype(np.float32)

    def standardised(self, raw: NDArray[Any], dtype: type[np.floating[Any]]) -> NDArray[Any]:
        """Return ``(x / 255 - mean) / std`` of pixels, computed in a type of real numbers."""
        return standardised(raw, self.mean, self.std, dtype)

    def check(self, raw: NDArray[Any], what: str) -> None:
        """Raise a `BlrcError` that names `what` unless `raw` is ``(N, *shape)`` of type `dtype`."""
        if raw.dtype != self.dtype:
            raise BlrcError(f"{what}: type {raw.dtype}, but this network takes raw {self.kind} ({self.dtype})")
        if raw.shape[1:] != self.shape or raw.ndim != len(self.shape) + 1:
            raise BlrcError(f"{what}: shape {raw.shape}, but this network takes (N, {', '.join(map(str, self.shape))})")
        if self.kind == "bits" and raw.size and int(raw.max()) > 1:
            raise BlrcError(f"{what}: bits must be 0 or 1, found {int(raw.max())}")


def device_layout(raw: NDArray[Any]) -> NDArray[Any]:
    """Turn samples to a device's layout.

    ``(N, C, H, W)`` becomes ``(N, H, W, C)``, ``(N, C, L)`` becomes ``(N, 1, L, C)``, and ``(N, F)`` ``(N, 1, 1, F)``.
    """
    if raw.ndim == 3:
        raw = raw[:, :, None]
    return np.ascontiguousarray(raw[:, None, None, :] if raw.ndim == 2 else raw.transpose(0, 2, 3, 1))


def torch_layout(maps: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Undo `device_layout` for samples of `shape`."""
    if len(shape) == 2:
        return np.ascontiguousarray(maps[:, 0].transpose(0, 2, 1))
    return np.ascontiguousarray(maps[:, 0, 0] if len(shape) == 1 else maps.transpose(0, 3, 1, 2))


def pixels(
    shape: Sequence[int],
    *,
    mean: Sequence[float],
    std: Sequence[float],
    scale: float | None = None,
    exact: bool | None = None,
) -> InputEncoding:
    """Describe uint8 pixels that training standardises as ``(x / 255 - mean) / std`` (torchvision's convention).

    Args:
        shape: shape of one sample, ``(C, H, W)`` or ``(features,)``.
        mean, std: values per channel, in units of ``x / 255``.
        scale: codes per unit; by default the largest that saturates no pixel value, which lost nothing on MNIST.
        exact: whether nothing is rounded: codes are x - 128, and thresholds take account of mean and std. That is for
            networks in plain PyTorch whose channels have one std, and whose first layer pads nothing. By default
            `blrc.save` does so where it can, unless a scale is given; False rounds to codes, as `real` gives them.
    """
    shape, mean, std = _sizes(shape), _reals("mean", mean), _reals("std", std)
    if any(m < 0 or m > 1 for m in mean):
        raise BlrcError(f"input mean {mean}: is in units of x / 255, from 0 to 1; divide means of 0..255 data by 255")
    if exact is not None and not isinstance(exact, bool):
        raise BlrcError(f"input exact {exact!r}: must be True, False or None")
    if exact:
        if scale not in (None, 1.0):
            raise BlrcError(f"input scale {scale}: exact pixels are not scaled; leave out scale, or exact")
        return InputEncoding("uint8", shape, 1.0, mean, std, exact=True)
    if scale is None:
        check_moments(mean, std, shape[0] if len(shape) > 1 else 1)
        scale = full_scale(mean, std)
    return InputEncoding("uint8", shape, _real("scale", scale), mean, std, exact=exact)


def exactly(encoding: InputEncoding) -> InputEncoding | None:
    """Return the encoding of the same pixels without rounding, or None where they have another form, or have to have.

    Rounding has to be where it was asked for, by ``exact=False`` or by a scale.
    """
    if not encoding.mean or encoding.exact is not None or encoding.scale != full_scale(encoding.mean, encoding.std):
        return None
    return replace(encoding, scale=1.0, exact=True)


def pixel_codes(shape: Sequence[int], *, table: Sequence[Any] | NDArray[Any], scale: float = 1.0) -> InputEncoding:
    """Describe uint8 pixels whose codes are given, as other tools write them down.

    Args:
        shape: shape of one sample, ``(C, H, W)`` or ``(features,)``.
        table: the code of every raw value: 256 integers from -128 to 127, or one such row for each channel.
        scale: codes per unit of real input.
    """
    rows = np.atleast_2d(np.asarray(table))
    if rows.ndim != 2 or rows.dtype.kind not in "iu":
        raise BlrcError(f"input table: expected {RAW_VALUES} whole numbers, or a row of them for each channel")
    codes = tuple(tuple(int(code) for code in row) for row in rows)
    return InputEncoding("uint8", _sizes(shape), _real("scale", scale), given=codes)


def pixel_bits(shape: Sequence[int], *, at: int | Sequence[int]) -> InputEncoding:
    """Describe uint8 pixels that a threshold turns into bits: +1 from `at` on, else -1.

    Args:
        shape: shape of one sample, ``(C, H, W)`` or ``(features,)``.
        at: thresholds from 0 to 256, one for all channels or one for each.
    """
    try:
        limits = tuple(index(limit) for limit in ([at] if isinstance(at, int | np.integer) else at))
    except TypeError:
        limits = ()
    if not limits:
        raise BlrcError(f"input thresholds {at!r}: must be whole numbers, one for each channel or one for all")
    return InputEncoding("uint8", _sizes(shape), 1.0, at=limits)


def int8_codes(shape: Sequence[int], *, scale: float) -> InputEncoding:
    """Describe int8 input that already is a code, with real value ``code / scale`` (whitened data, audio, sensors)."""
    return InputEncoding("int8", _sizes(shape), _real("scale", scale))


def bits(shape: Sequence[int]) -> InputEncoding:
    """Describe input that already is +-1, given as 0 and 1 (bit 1 = +1)."""
    return InputEncoding("bits", _sizes(shape), 1.0)


def _sizes(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape in plain integers; NumPy's integers are accepted."""
    try:
        return tuple(index(n) for n in shape)
    except TypeError:
        raise BlrcError(f"input shape {shape!r}: expected (C, H, W), (C, L) or (features,), integers") from None


def _reals(what: str, values: Sequence[float]) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise BlrcError(f"input {what} {values!r}: expected one number for each channel, such as [0.5]") from None


def _real(what: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise BlrcError(f"input {what} {value!r}: expected one number, codes per unit") from None
