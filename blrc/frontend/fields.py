"""Check the fields of a checkpoint's plain data, and read the input's encoding from them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.kinds.record import shown
from blrc.net.encoding import InputEncoding
from blrc.net.heads import Heads, Unit, Units
from blrc.reading.schema import unknown_field


def expect_only(what: str, held: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse a field that this version of blrc does not know, because it could mean anything."""
    if (key := unknown_field(held, known)) is not None:
        invalid(f"{what} has a field {key}, which this version of blrc does not know")


MOST_SAMPLES = 2**20  # for calibration: a few hundred suffice
MOST_SAMPLE_BYTES = 2**28  # of all of them together, in memory


def encoding_of(held: Mapping[str, Any]) -> InputEncoding:
    """Return the encoding of the raw input that a checkpoint holds."""
    expect_only("the input", held, ("kind", "shape", "scale", "mean", "std", "table", "at", "exact"))
    shape = tuple(expect(int, n, "a size of the input") for n in field(list, held, "shape"))
    mean, std = (tuple(number(x, f"the input's {key}") for x in field(list, held, key)) for key in ("mean", "std"))
    scale = number(held.get("scale"), "the input's scale")
    given = tuple(_integers(row, "a row of the input's table") for row in _maybe_list(held, "table"))
    at = _integers(_maybe_list(held, "at"), "at")
    exact = expect(bool, held["exact"], "exact") if "exact" in held else None
    return InputEncoding(field(str, held, "kind"), shape, scale, mean, std, given, at, exact)


def calibration_of(stored: Mapping[str, Any], encoding: InputEncoding) -> NDArray[Any]:
    """Return the calibration samples.

    Their declared shape is checked first, and no more bytes are inflated than it says.
    """
    expect_only("calibration", stored, ("dtype", "shape", "deflated"))
    name, shape = field(str, stored, "dtype"), field(list, stored, "shape")
    data = field(np.ndarray, stored, "deflated")
    if name != encoding.dtype.name or data.dtype != np.uint8 or data.ndim != 1:
        invalid(f"calibration is {shown(name)}, expected {encoding.dtype.name}, deflated")
    if any(type(n) is not int for n in shape) or tuple(shape[1:]) != encoding.shape or not shape or shape[0] < 0:
        invalid("the shape of calibration is not that of samples of the input")
    size = math.prod(shape)
    if shape[0] > MOST_SAMPLES or size > MOST_SAMPLE_BYTES:
        raise BlrcError(
            f"{shape[0]} calibration samples of {size} bytes together are too many; at most {MOST_SAMPLES} samples of "
            f"{MOST_SAMPLE_BYTES} bytes are taken"
        )
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(np.ascontiguousarray(data).data, size + 1)
    except zlib.error as error:
        invalid(f"calibration cannot be inflated: {error}")
    if len(raw) != size or not inflater.eof:
        invalid(f"calibration is not the {size} bytes that its shape says")
    return np.frombuffer(bytearray(raw), encoding.dtype).reshape(shape)


def _maybe_list(held: Mapping[str, Any], key: str) -> list[Any]:
    found: list[Any] = field(list, held, key) if key in held else []
    return found


def _integers(values: Any, what: str) -> tuple[int, ...]:
    return tuple(expect(int, value, what) for value in expect(list, values, what))


def field(kind: type, held: Mapping[str, Any], key: str) -> Any:
    """Return the field `key`, which must be there, and of exactly the type `kind`."""
    if key not in held:
        invalid(f"{key} is missing")
    return expect(kind, held[key], key)


def expect(kind: type, value: Any, what: str) -> Any:
    """Return `value`, which must be of exactly the type `kind`."""
    if type(value) is not kind:
        invalid(f"{what} is {shown(value)}, expected {kind.__name__}")
    return value


def ends_of(content: Mapping[str, Any]) -> tuple[Heads, Units]:
    """Return the heads that a checkpoint's content names, and the units of its values; both may be missing."""

    def pairs(key: str, what: str, parts: str) -> Iterator[list[Any]]:
        for held in field(list, content, key) if key in content else ():
            if len(expect(list, held, what)) != 2:
                invalid(f"{what} is not {parts}")
            yield held

    heads = tuple(
        (expect(str, name, "a head's name"), expect(str, layer, "a head's layer"))
        for name, layer in pairs("heads", "a head", "its name and the layer that gives its scores")
    )
    units = tuple(
        Unit(number(scale, "a scale of values"), number(offset, "an offset of values"))
        for scale, offset in pairs("values", "a unit of values", "its scale and its offset")
    )
    return heads, units


def number(value: Any, what: str) -> float:
    """Return `value`, which must be a number, as float64."""
    if type(value) not in (int, float):
        invalid(f"{what} is {shown(value)}, expected a number")
    return float(value)  # no number of the file is beyond float64: see pickled.MOST_DIGITS


def invalid(why: str) -> NoReturn:
    """Raise the error of a file that is no checkpoint."""
    raise BlrcError(f"not a valid blrc checkpoint ({why}); save it again with blrc.save()")
