"""Compile networks to functions on NumPy arrays that their generated C computes (`blrc.compile`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from blrc.datasets.whitening import Whitening
from blrc.errors import BlrcError
from blrc.exports.again import expect_c, library_of
from blrc.exports.door import check_digest, expect_digest, open_export
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.members import MembersRequest, ask_members
from blrc.program import program_file
from blrc.program.program import Program
from blrc.reading.given import path_of, typed
from blrc.store.places import is_folder
from blrc.targets.c.native.library import library_files
from blrc.targets.c.native.network import Native
from blrc.targets.naming.names import check_name

PROGRAM = ".program.npz"


@typed
def compile(
    model: str | Path | Program | Checkpoint,
    *,
    members: str | int | None = None,
    seed: int = 0,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = 0,
    gate: str | float | Fraction | None = None,
    threads: int | None = None,
    flags: Sequence[str] | None = None,
    cc: str | None = None,
    whitening: Whitening | None = None,
    digest: str | None = None,
    trust_code: bool = False,
) -> Native:
    """Return a callable on NumPy arrays, backed by the C of a model, which is compiled once and then found in a cache.

    Args:
        model: a folder that `blrc.export` wrote, whose C is compiled if it is what blrc writes for the folder's
            program; or a program, a ``.program.npz``, a checkpoint or its path, or the path of an ONNX file, whose C is
            written first.
        members, seed, sample, freeze, gate: which networks of a checkpoint, as for `blrc.export`; by default ``map``.
        threads: the largest number of threads that share the samples of a call; by default, as many as this process may
            use CPUs.
        flags: flags of the compiler; by default those of fast code for this machine
            (`blrc.targets.c.native.library.host_flags`).
        cc: the compiler; by default ``$CC``, cc, gcc or clang.
        whitening: for a network of whitened images, the whitening of its checkpoint (`blrc.load(PATH).whitening`): the
            function then takes images, and whitens them; codes may be given as before.
        digest: the digest that the program must have, as `blrc export` prints it.
        trust_code: for a folder: whether to compile its own C, whoever wrote it, even that of another version of blrc.

    The cache is ``$BLRC_CACHE/native``, by default ``~/.cache/blrc/native``; it may be deleted at any time.

    Raises:
        BlrcError: there is no compiler or no such model, the model cannot be compiled, a folder does not fit its
            manifest, the program has another digest, or `members` is given where there is no choice.
    """
    chosen = members is not None or gate is not None or freeze != 0 or sample != "all"

    def ask() -> MembersRequest:
        return ask_members("map" if members is None else members, seed, sample, freeze, gate)

    name, program, files = sources(model, ask, chosen, digest, trust_code)
    return Native(files, name, program, threads, flags, cc, whitening=whitening)


def sources(
    model: str | Path | Program | Checkpoint,
    ask: Callable[[], MembersRequest] = MembersRequest,
    chosen: bool = False,
    digest: str | None = None,
    trust_code: bool = False,
) -> tuple[str, Program, dict[str, bytes]]:
    """Return the name, the program and the C of what `compile` is given.

    Args:
        ask: returns the request for a checkpoint's networks; it is not called if they are made already.
        chosen: whether the user named networks, so that a model whose networks are made already is refused.

    Raises:
        BlrcError: as for `compile`, except for a missing compiler.
    """
    if isinstance(model, bytes | os.PathLike):
        model = path_of(model)
    if digest is not None:
        check_digest(digest)
    if isinstance(model, str | Path) and is_folder(Path(model)):
        opened = open_export(Path(model), digest, trust_code)
        expect_c(opened)
        name, program, files = opened.name, opened.program, library_of(opened)
    elif trust_code:
        raise BlrcError(f"{model}: is no folder of an export, so it has no code to trust (trust_code, --trust-code)")
    elif isinstance(model, Program):
        name, program = "net", model
        files = library_files(program, name)
    elif isinstance(model, str | Path) and str(model).endswith(PROGRAM):
        program, name = program_file.load(Path(model)), _identifier(Path(model).name.removesuffix(PROGRAM))
        files = library_files(program, name)
    else:
        name, program = _sampled(model, ask())
        files, chosen = library_files(program, name), False
    if chosen:
        raise BlrcError(
            f"{name}: its networks are made already; choose members where it is exported, or of a checkpoint"
        )
    if digest is not None:
        expect_digest(name, program_file.digest(program), digest)
    return name, program, files


def _sampled(model: str | Path | Checkpoint, members: MembersRequest) -> tuple[str, Program]:
    from blrc.app.export import build  # an exported folder and a program do without all this
    from blrc.app.import_onnx import opened

    source = opened(model)
    return _identifier(Path(source.source).stem), build(source, members.of(source), members.gate)[0]


def _identifier(text: str) -> str:
    """Return a C name made from the name of a file; it is seen only in messages."""
    try:
        return check_name(re.sub(r"[^A-Za-z0-9_]", "_", text))
    except BlrcError:
        return "net"
