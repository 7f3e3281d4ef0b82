"""`blrc.compile`: networks as functions on NumPy arrays, computed by their generated C."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from blrc import program_file
from blrc.advice.given import path_of
from blrc.errors import BlrcError
from blrc.manifest import read_manifest
from blrc.program import Program
from blrc.targets.c.names import check_name
from blrc.targets.c.native import Native
from blrc.targets.c.shared import exported_files, library_files
from blrc.whiten import Whitening

if TYPE_CHECKING:
    from blrc.checkpoint import Checkpoint

PROGRAM = ".program.npz"


def compile(
    model: str | Path | Program | Checkpoint,
    members: str | None = None,
    seed: int = 0,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = 0,
    gate: str | float | Fraction | None = None,
    threads: int | None = None,
    flags: Sequence[str] | None = None,
    cc: str | None = None,
    whitening: Whitening | None = None,
) -> Native:
    """A callable on NumPy arrays, backed by the C of a model, which is compiled once and then found in a cache.

    Args:
        model: a folder that `blrc.export` wrote, whose C is compiled as it lies there; or a program, a
            ``.program.npz``, or a checkpoint or its path, whose C is written first.
        members, seed, sample, freeze, gate: which networks of a checkpoint, as for `blrc.export`; by default ``map``.
        threads: to share the samples of a call among, at most; by default, as many as this process may use CPUs.
        flags: of the compiler; by default those of fast code for this machine (`blrc.targets.c.shared.host_flags`).
        cc: the compiler; by default ``$CC``, cc, gcc or clang.
        whitening: for a network of whitened images, that of its checkpoint (`blrc.load(PATH).whitening`): the function
            takes images then, and whitens them; codes may be given as before.

    The cache is ``$BLRC_CACHE/native``, by default ``~/.cache/blrc/native``; it may be deleted at any time.

    Raises:
        BlrcError: no compiler, no such model, one that cannot be compiled, or `members` where there is no choice.
    """
    name, program, files = sources(model, members, seed, sample, freeze, gate)
    return Native(files, name, program, threads, flags, cc, whitening=whitening)


def sources(
    model: str | Path | Program | Checkpoint,
    members: str | None = None,
    seed: int = 0,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = 0,
    gate: str | float | Fraction | None = None,
) -> tuple[str, Program, dict[str, bytes]]:
    """Name, program and C of what `compile` is given.

    Raises:
        BlrcError: as for `compile`, but for the compiler.
    """
    chosen = members is not None or gate is not None or freeze != 0 or sample != "all"
    if isinstance(model, bytes | os.PathLike):
        model = path_of(model)
    if isinstance(model, Program):
        name, program = "net", model
        files = library_files(program, name)
    elif isinstance(model, str | Path) and is_folder(Path(model)):
        name, program, files = _exported(Path(model))
    elif isinstance(model, str | Path) and str(model).endswith(PROGRAM):
        program, name = program_file.load(Path(model)), _identifier(Path(model).name.removesuffix(PROGRAM))
        files = library_files(program, name)
    else:
        name, program = _sampled(model, "map" if members is None else members, seed, sample, freeze, gate)
        files, chosen = library_files(program, name), False
    if chosen:
        raise BlrcError(
            f"{name}: its networks are made already; choose members where it is exported, or of a checkpoint"
        )
    return name, program, files


def _exported(folder: Path) -> tuple[str, Program, dict[str, bytes]]:
    manifest = read_manifest(folder)
    name = manifest.name
    if "c" not in manifest.targets:
        raise BlrcError(f"{folder}: holds no C; export it again with --target c")
    return name, program_file.load(folder / f"{name}{PROGRAM}"), exported_files(folder, name, manifest.files)


def _sampled(
    model: str | Path | Checkpoint,
    members: str,
    seed: int,
    sample: str | Sequence[str],
    freeze: str | float | Fraction,
    gate: str | float | Fraction | None,
) -> tuple[str, Program]:
    from blrc import api  # torch: an exported folder and a program do without
    from blrc.checkpoint import Checkpoint, load
    from blrc.members import parse_gate, parse_members
    from blrc.sample import parse_freeze, sampled_layers

    source = model if isinstance(model, Checkpoint) else load(model)
    q16 = parse_gate(gate)
    chosen = parse_members(members, seed, sampled_layers(source, sample), parse_freeze(freeze), q16)
    return _identifier(Path(source.source).stem), api.build(source, chosen, q16)[0]


def _identifier(text: str) -> str:
    """A name for C from that of a file; it is seen by nobody but in messages."""
    try:
        return check_name(re.sub(r"[^A-Za-z0-9_]", "_", text))
    except BlrcError:
        return "net"


def is_folder(path: Path) -> bool:
    """It is one.

    Raises:
        BlrcError: that cannot be found out.
    """
    try:
        return path.is_dir()
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None
