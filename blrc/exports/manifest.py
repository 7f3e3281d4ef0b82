"""Write and parse the manifest, ``<name>.manifest.json``: what was exported, and size and SHA-256 of every file.

A stranger may have written it. `parse` refuses whatever `blrc export` does not write: another type, a number out of
range, a key too many, or a name of a file that is not plain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from blrc.display import Brief
from blrc.errors import BlrcError
from blrc.net.choices import NORMS, ROUNDINGS, Rounding
from blrc.net.heads import MOST as MOST_HEADS
from blrc.program import head
from blrc.reading import schema
from blrc.reading.schema import MisfitError, shown
from blrc.store.listing import MOST_FILES, check_apart, check_path, check_sha256, check_total, content_of, files_up_to
from blrc.targets.naming.names import check_name
from blrc.targets.registry import TARGETS

FORMAT = 2
SUFFIX = ".manifest.json"
PROGRAM, VECTORS = ".program.npz", ".vectors.npz"

LARGEST = 4 * 2**20
"""Bytes of a manifest: that of the shipped networks has 11 thousand."""
MOST_KEPT = 2**29
"""Bytes of the files that are held in memory, the program's and the vectors': those of 100 members of the paper's
largest network have 180 million."""
_TEXT = 4096  # characters of a text: a licence's name, an address, a layer
_NOTES = 16  # warnings about a checkpoint: there is one kind
_LAYERS = 65536  # of a list: layers, channels, sampled layers


@dataclass(frozen=True)
class Listed:
    """Describe one file by its size in bytes and its SHA-256.

    A manifest of format 1 had no sizes; there, `size` is None.
    """

    size: int | None
    sha256: str


@dataclass(frozen=True, repr=False)
class Manifest(Brief):
    """Describe what was exported.

    Attributes:
        name: the prefix of all files and symbols.
        digest: the digest of the program.
        version: the version of blrc.
        members: one description for each member.
        settings: the input's encoding and how the norms were calibrated.
        options: the options of the targets: every field of `EmitOptions` but the name, the version and the vectors.
        targets: what each target says of itself (for C: ABI, arena, kernels and bytes of each layer...).
        files: size and SHA-256 by name, of every file but the manifest.
    """

    name: str
    digest: str
    version: str
    members: tuple[str, ...]
    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    targets: Mapping[str, Any]
    files: Mapping[str, Listed]

    @property
    def norms(self) -> str:
        """Return which statistics the norms have: ``given`` or ``estimated``, as all had before there was a choice."""
        return str(self.settings.get("norms", "estimated"))

    @property
    def rounding(self) -> Rounding:
        """Return what decides bits: ``exact`` rational numbers, or ``float32``."""
        return "float32" if self.settings.get("rounding") == "float32" else "exact"

    @property
    def original(self) -> Mapping[str, Any] | None:
        """Return what names the ONNX file that was imported (`blrc.frontend.origin.Origin`), if one was."""
        held = self.settings.get("original")
        return held if isinstance(held, Mapping) else None

    def __repr__(self) -> str:
        """Name the export, its program and its targets."""
        targets = ", ".join(self.targets)
        return f"Manifest({self.name!r}, program {self.digest[:12]}, {targets}, {len(self.files)} files)"


def to_bytes(manifest: Manifest) -> bytes:
    """Return the content of the manifest's file: JSON with sorted keys."""
    plain = {
        "format": FORMAT,
        "name": manifest.name,
        "digest": manifest.digest,
        "blrc": manifest.version,
        "members": list(manifest.members),
        "settings": manifest.settings,
        "options": manifest.options,
        "targets": manifest.targets,
        "files": {name: asdict(listed) for name, listed in manifest.files.items()},
    }
    return (json.dumps(plain, indent=2, sort_keys=True) + "\n").encode()


def listed(files: Mapping[str, bytes]) -> dict[str, Listed]:
    """Return the size and SHA-256 of every file."""
    return {name: Listed(**asdict(content_of(content))) for name, content in sorted(files.items())}


def parse(content: bytes, where: str) -> Manifest:
    """Parse a manifest of this version's format.

    Args:
        where: the file, for messages.

    Raises:
        BlrcError: it is of another format, or is not what an export writes.
    """
    try:
        plain = schema.read_json(content)
        schema.an_object(plain, schema.WHOLE)
        if _format(plain) != FORMAT:
            raise BlrcError(
                f"{where}: manifest format {plain['format']}, written by another version of blrc; this one reads "
                f"{FORMAT}, whether code is trusted or not; export again"
            )
        _WHOLE(plain, schema.WHOLE)
        files = {name: Listed(**entry) for name, entry in plain["files"].items()}
        _check_files(plain["name"], files)
    except MisfitError as error:
        raise _refused(where, error) from None
    return Manifest(
        plain["name"],
        plain["digest"],
        plain["blrc"],
        tuple(plain["members"]),
        plain["settings"],
        plain["options"],
        plain["targets"],
        files,
    )


def parse_replaceable(content: bytes, where: str) -> tuple[str, dict[str, Listed]]:
    """Read the name and the files of an export that another one is to replace; format 1 is accepted too.

    Raises:
        BlrcError: as for `parse`.
    """
    try:
        plain = schema.read_json(content)
        schema.an_object(plain, schema.WHOLE)
        if _format(plain) != 1:
            manifest = parse(content, where)
            return manifest.name, dict(manifest.files)
        for key, check in (("name", _name), ("files", _FILES_OF_1)):
            check(plain.get(key), key)
        files = {name: Listed(None, sha256) for name, sha256 in plain["files"].items()}
        check_apart([*files, plain["name"] + SUFFIX])
    except MisfitError as error:
        raise _refused(where, error) from None
    return plain["name"], files


def _refused(where: str, error: MisfitError) -> BlrcError:
    return BlrcError(f"{where}: not a manifest that blrc writes, or damaged: {error}; export again")


def _format(plain: Mapping[str, Any]) -> int:
    schema.whole(0, 2**31)(plain.get("format"), "format")
    return int(plain["format"])


def _check_files(name: str, files: Mapping[str, Listed]) -> None:
    check_apart([*files, name + SUFFIX])
    for ending in (PROGRAM, VECTORS):
        if name + ending not in files:
            raise MisfitError(f"files has no {name + ending!r}")
    check_total((entry.size or 0 for entry in files.values()), "files")


def _name(value: Any, where: str) -> None:
    schema.text(_TEXT)(value, where)
    try:
        check_name(value)
    except BlrcError as error:
        raise MisfitError(str(error)) from None


def _target(value: Any, where: str) -> None:
    if value not in TARGETS:
        raise MisfitError(f"{where}, {shown(value)}, is no target that this blrc knows")


_COUNT = schema.whole(0, 2**31)
_WORDS = schema.text(_TEXT)
_INPUT = {
    "kind": _WORDS,
    "shape": schema.listing(schema.whole(1, 2**31), 3, 1),
    "scale": schema.number,
    "mean": schema.listing(schema.number, _LAYERS),
    "std": schema.listing(schema.number, _LAYERS),
}
_OF_INPUT: Mapping[str, schema.Check] = {"at": schema.listing(schema.whole(0, 256), _LAYERS), "exact": schema.truth}
"""List what the input of a manifest may have besides: thresholds of pixels, and whether pixels are not rounded."""


def _one_of(*known: str) -> schema.Check:
    def check(value: Any, where: str) -> None:
        if value not in known:
            raise schema.MisfitError(f"{where} is {schema.shown(value)}, expected {' or '.join(known)}")

    return check


_ORIGINAL = {
    "sha256": check_sha256,
    "input": _WORDS,
    "mean": schema.listing(schema.number, _LAYERS),
    "std": schema.listing(schema.number, _LAYERS),
    "scale": schema.number,
}
_MANY = schema.whole(0, 2**63)
_COMPARED = {
    "original": _WORDS,
    "sha256": schema.optional(check_sha256),
    **dict.fromkeys(("bits", "bits_that_differ", "bits_not_explained", "decisions", "channels_that_differ"), _MANY),
    **dict.fromkeys(("scores", "labels", "labels_that_differ", "problems"), _MANY),
}
_OPTIONAL: Mapping[str, tuple[Any, schema.Check]] = {
    "notes": ([], schema.listing(_WORDS, _NOTES)),
    "norms": ("estimated", _one_of(*NORMS)),
    "rounding": ("exact", _one_of(*ROUNDINGS)),
    "heads": ([], schema.listing(_WORDS, MOST_HEADS)),
    "values": ([], schema.listing(schema.listing(schema.number, 2, 2), MOST_HEADS)),
    "original": (None, schema.optional(schema.record(_ORIGINAL))),
    "compared": (None, schema.optional(schema.record(_COMPARED))),  # `blrc verify --original` adds it
}
"""Settings that a manifest may lack: what that means, and the check of what is there."""

_SETTINGS = {
    "input": schema.record(_INPUT),
    "calibration_samples": _COUNT,
    "sampled_layers": schema.listing(_WORDS, _LAYERS),
    "freeze": _WORDS,
    "gate": schema.optional(
        schema.record({"q16": schema.whole(1, head.ONE), "probability": schema.number}),
    ),
}


def _settings(value: Any, where: str) -> None:
    """Check the settings, of which those in `_OPTIONAL` may be missing."""
    schema.an_object(value, where)
    for key, (default, check) in _OPTIONAL.items():
        check(value.get(key, default), f"{where}.{key}")
    given = value.get("input")
    if isinstance(given, dict):
        for key in _OF_INPUT.keys() & given.keys():
            _OF_INPUT[key](given[key], f"{where}.input.{key}")
        value = {**value, "input": {key: item for key, item in given.items() if key not in _OF_INPUT}}
    schema.record(_SETTINGS)({key: item for key, item in value.items() if key not in _OPTIONAL}, where)


_WHOLE = schema.record(
    {
        "format": schema.whole(FORMAT, FORMAT),
        "name": _name,
        "digest": check_sha256,
        "blrc": schema.text(_TEXT, 1),
        "members": schema.listing(_WORDS, head.MAX_MEMBERS, 1),
        "settings": _settings,
        "options": schema.mapping(_WORDS, schema.anything, 64),  # each is checked where it is used
        "targets": schema.mapping(_target, schema.an_object, len(TARGETS)),
        "files": files_up_to(MOST_FILES),
    }
)
_FILES_OF_1 = schema.mapping(check_path, check_sha256, MOST_FILES)
