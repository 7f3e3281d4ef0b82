"""Write the options of an export as plain data for its manifest, and read them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from blrc.errors import BlrcError
from blrc.program.vectors import Vectors
from blrc.reading.schema import MisfitError, shown
from blrc.targets.onnx.options import parse_onnx
from blrc.targets.options import EmitOptions
from blrc.targets.publication import parse_publication

ELSEWHERE = frozenset({"name", "vectors", "version"})
"""Fields of `EmitOptions` that the manifest holds outside of its options, or that have a file of their own."""


def to_plain(options: EmitOptions) -> dict[str, Any]:
    """Return every option that decides the bytes of an export, by name, as plain data for JSON."""
    return {f.name: _plain(getattr(options, f.name)) for f in fields(options) if f.name not in ELSEWHERE}


def from_plain(plain: Mapping[str, Any], name: str, vectors: Vectors, version: str) -> EmitOptions:
    """Return the options that `to_plain` recorded.

    Raises:
        MisfitError: an option is unknown, missing, of another type, or not one of its choices.
    """
    from blrc.targets.c.options import CPUS, PACKAGES  # what only writes an export does without

    found = _typed(EmitOptions, plain, "options", ELSEWHERE)
    if found["cpu"] not in CPUS:
        raise MisfitError(f"options.cpu is {shown(found['cpu'])}, expected one of {', '.join(CPUS)}")
    if found["packages"] != tuple(package for package in PACKAGES if package in found["packages"]):
        raise MisfitError(
            f"options.packages is {shown(found['packages'])}, expected some of {', '.join(PACKAGES)} in order"
        )
    for memory in ("ram", "flash"):
        if found[memory] is not None and found[memory] < 0:
            raise MisfitError(f"options.{memory} is {found[memory]}, expected bytes")
    options = EmitOptions(name=name, vectors=vectors, version=version, **found)
    try:  # they stand in comments of the C, which would end there if anything went
        parse_publication(options.license, options.author, options.url, options.package_version)
        parse_onnx(options.onnx_weights, options.onnx_outputs, options.onnx_form)
    except BlrcError as error:
        raise MisfitError(f"options: {error}") from None
    if options.input_scale is not None and not (isfinite(options.input_scale) and options.input_scale > 0):
        raise MisfitError(f"options.input_scale is {options.input_scale}, expected a positive number")
    return options


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value


def _typed(kind: Any, plain: Any, where: str, left_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the fields of the dataclass `kind` from an object that has exactly their names."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in left_out}
    if not isinstance(plain, Mapping) or plain.keys() != hints.keys():
        other = sorted(set(plain) ^ hints.keys()) if isinstance(plain, Mapping) else [plain]
        raise MisfitError(f"{where} has other names than this blrc's ({shown(other[0])})")
    return {name: _value(hint, plain[name], f"{where}.{name}") for name, hint in hints.items()}


def _value(hint: Any, plain: Any, where: str) -> Any:
    """Return the value of a field with this annotation, or raise a `MisfitError`."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        if plain is None and NoneType in get_args(hint):
            return None
        [hint] = [kind for kind in get_args(hint) if kind is not NoneType]
        return _value(hint, plain, where)
    if origin is Literal:
        if isinstance(plain, str) and plain in get_args(hint):
            return plain
        raise MisfitError(f"{where} is {shown(plain)}, expected one of {', '.join(map(str, get_args(hint)))}")
    if origin is tuple:
        if not isinstance(plain, list):
            raise MisfitError(f"{where} is {shown(plain)}, expected a list")
        return tuple(_value(get_args(hint)[0], item, f"{where}[{i}]") for i, item in enumerate(plain))
    if is_dataclass(hint) and isinstance(hint, type):
        return hint(**_typed(hint, plain, where))
    # A bool is an int in Python, but not in a manifest; an int serves as a float.
    kinds = (int, float) if hint is float else (hint,)
    if not isinstance(plain, kinds) or (isinstance(plain, bool) and hint is not bool):
        raise MisfitError(f"{where} is {shown(plain)}, expected {getattr(hint, '__name__', hint)}")
    try:
        return hint(plain)
    except OverflowError:  # an int of hundreds of digits
        raise MisfitError(f"{where} is {shown(plain)}, which is too large a number") from None
