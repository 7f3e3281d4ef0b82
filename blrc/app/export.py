"""Export a checkpoint to the files of every target (`blrc.export`), with one line of progress for each stage."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from blrc.app.import_onnx import opened
from blrc.app.provenance import constant_notes, describe, notes, recorded_inputs
from blrc.app.sizes import sizes_of
from blrc.app.sizes import to_plain as to_plain_sizes
from blrc.display import Preformatted
from blrc.errors import BlrcError
from blrc.exports.door import previous_files
from blrc.exports.manifest import SUFFIX, Manifest, listed, to_bytes
from blrc.exports.recorded import to_plain
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.members import MembersRequest, ask_members
from blrc.frontend.sample import MAP, NONE, Member, binary_layers
from blrc.lowering.lower import lower
from blrc.lowering.statistics import (
    Moved,
    as_saved,
    moved_by_estimation,
    nets_of,
    norms_of,
    parse_norms,
    parse_rounding,
)
from blrc.net.choices import Norms, Rounding
from blrc.net.net import Net
from blrc.program import program_file, vectors
from blrc.program.program import Program
from blrc.reading.given import path_of, typed
from blrc.reading.regular import check_place
from blrc.store.claim import claimed
from blrc.targets.naming.names import check_name
from blrc.targets.onnx.options import parse_onnx
from blrc.targets.options import EmitOptions, check_heads
from blrc.targets.publication import Publication, parse_publication
from blrc.targets.registry import NEEDS, TARGETS, parse_targets, refuse_options
from blrc.targets.requests import COptions, OnnxOptions
from blrc.version import VERSION

Say = Callable[[str], None]


def quiet(what: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class ExportRequest:
    """Describe what is to be exported, and where to. Each part was checked by the package that owns it.

    Attributes:
        folder, force: where to write, and whether to replace an earlier export.
        targets: the names of the targets, sorted, each once.
        members: which networks to export.
        publication: what is known of the model, for when it is published.
        c, onnx: the options of these targets; None if they are not asked for.
        name: the prefix of every file and symbol; None takes the checkpoint's file name.
        norms, rounding: see `blrc.lowering.statistics.nets_of`.
    """

    folder: Path
    targets: tuple[str, ...]
    members: MembersRequest
    publication: Publication
    c: COptions | None
    onnx: OnnxOptions | None
    name: str | None
    force: bool
    norms: Norms | None = None
    rounding: Rounding = "exact"

    def emit_options(self, name: str, recorded: vectors.Vectors, source: Checkpoint) -> EmitOptions:
        """Return the options that are passed to the targets."""
        c, onnx = self.c or COptions(), self.onnx or OnnxOptions()
        return EmitOptions(
            name=name,
            vectors=recorded,
            version=VERSION,
            **vars(c),
            onnx_weights=onnx.weights,
            onnx_outputs=onnx.outputs,
            onnx_form=onnx.form,
            license=self.publication.license,
            author=self.publication.author,
            url=self.publication.url,
            package_version=self.publication.version,
            input_scale=source.encoding.scale if source.encoding.kind == "int8" else None,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Exported(Preformatted):
    """Describe what an export wrote; ``print`` shows its sizes.

    Attributes:
        moved: how far thresholds moved, if norms were estimated anew and the network as saved can be compared with.
    """

    folder: Path
    program: Program
    manifest: Manifest
    moved: Moved | None = None

    def __repr__(self) -> str:
        targets = ", ".join(self.manifest.targets)
        return f"Exported('{self.folder}': {targets} of {self.manifest.name!r}, program {self.manifest.digest[:16]})"

    def __str__(self) -> str:
        moved = [] if self.moved is None else [str(self.moved)]
        return "\n".join([*sizes_of(self.folder, self.manifest), *moved])

    def to_plain(self) -> dict[str, Any]:
        """Return what was written, and its sizes, as plain data for JSON."""
        moved = None if self.moved is None else self.moved.to_plain()
        return {**to_plain_sizes(self.folder, self.manifest), "moved_thresholds": moved}


def build(
    source: Checkpoint,
    members: Sequence[Member],
    gate: int = 0,
    norms: Norms | None = None,
    rounding: Rounding = "exact",
) -> tuple[Program, list[Net]]:
    """Sample, calibrate and lower `members`; return their program and their calibrated nets.

    Args:
        gate: see `Program.gate`; with it the first member has to be MAP.
        norms, rounding: see `blrc.lowering.statistics.nets_of`.

    Raises:
        BlrcError: the checkpoint has no calibration samples where they are needed, or a network cannot be compiled; the
            message names the layer.
    """
    nets = nets_of(source, members, norms, rounding)
    return lower(nets, gate), nets


@typed
def export(
    model: str | Path | Checkpoint,
    *,
    folder: str | Path,
    targets: str | Sequence[str] = ("c", "onnx"),
    members: str | int = "map",
    seed: int = 0,
    name: str | None = None,
    force: bool = False,
    say: Say = quiet,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = NONE,
    gate: str | float | Fraction | None = None,
    norms: str | None = None,
    rounding: str = "exact",
    packages: str | Sequence[str] = (),
    flash: str | int | None = None,
    ram: str | int | None = None,
    optimize: str = "size",
    cpu: str = "portable",
    onnx_weights: str = "bytes",
    license: str | None = None,
    author: str | None = None,
    url: str | None = None,
    package_version: str | None = None,
    onnx_outputs: str | None = None,
    onnx_form: str = "integer",
) -> Exported:
    """Compile a checkpoint and write the artefacts of every target into one folder.

    Args:
        model: a checkpoint, or its path; the path of an ONNX file of another tool is imported (`blrc.import_onnx`).
        folder: the folder to write, which is created; if it holds an earlier export, `force` replaces that export's
            files.
        targets: one or several names from `blrc.targets.registry.TARGETS`.
        members: ``map``, or a number of networks sampled from `seed`.
        name: the prefix of every file and symbol; by default the checkpoint's file name.
        say: is told what is going on.
        sample: which binary layers of a member are sampled; the others stay at MAP and are stored once: ``all``,
            ``conv`` (every binary convolution), ``LAYER,LAYER``, or a list of names.
        freeze: weights whose values other than the likeliest have a probability below this stay at MAP too: 0 to 0.5,
            taken as the exact decimal.
        gate: MAP becomes the first member, and if its top probability is at least this (above 0, at most 1), it answers
            alone; otherwise it votes together with the sampled members. None: no gate.
        norms: ``given``: norms keep the statistics of training; ``estimated``: they get those of the calibration
            samples. None: given where no weight is random, else estimated.
        rounding: ``exact``: bits are decided by rational numbers; ``float32``: as float32 decides, which rounds after
            every step. They differ only where a value is almost 0.
        packages: one or several names from `blrc.targets.c.options.PACKAGES`: each writes a library of that ecosystem,
            with an example, into ``<package>/<name>`` of the folder. This needs the target ``c``.
        flash, ram: bytes that the C may take of each, as numbers or such as ``256K``; a network that does not fit is
            refused.
        optimize: ``size``; or ``speed``: the C takes more RAM, at most `ram`, where that saves instructions on CPUs
            without a popcount instruction, such as Cortex-M; or ``ram``: the least RAM, for more code.
        cpu: ``portable``: C for every CPU; ``x86-64``: C that takes the best of popcnt, AVX2 and AVX-512 that it finds;
            ``aarch64``: NEON, with ``sdot`` where available; ``cortex-m55``: with `optimize` ``speed``, convolutions of
            128 pixels at once, in four times the memory; ``rv64gcv``: portable C, which counts bits in RISC-V's
            vectors.
        onnx_weights: ``bytes``; or ``bits``: weights take an eighth in the ONNX file, and are unpacked when it is
            loaded.
        license, author, url, package_version: facts about the model, for packages and the manifest: an SPDX expression,
            one line of text, a web address, and MAJOR.MINOR.PATCH. What is not given stays unspecified.
        onnx_outputs: ``all``; or ``scores``: the ONNX file has no head, and gives the scores of every member. None: all
            outputs that the form has.
        onnx_form: ``integer``; or ``float``: float32 and only ops that every runtime has, and the scores only.

    Raises:
        BlrcError: for every mistake that a user can make; nothing is written then.
    """
    wanted = parse_targets(targets)
    for target in set(wanted) & set(NEEDS):
        NEEDS[target]()
    request = ExportRequest(
        folder=check_place(path_of(folder, "the path of the folder to write")),
        targets=wanted,
        c=_c_options(wanted, packages, optimize=optimize, cpu=cpu, flash=flash, ram=ram),
        onnx=_onnx_options(wanted, weights=onnx_weights, outputs=onnx_outputs, form=onnx_form),
        publication=parse_publication(license, author, url, package_version),
        members=ask_members(members, seed, sample, freeze, gate),
        name=name,
        force=force,
        norms=parse_norms(norms),
        rounding=parse_rounding(rounding),
    )
    return run(opened(model, say), request, say)


def run(source: Checkpoint, request: ExportRequest, say: Say = quiet) -> Exported:
    """Export a checkpoint as a request asks.

    Raises:
        BlrcError: the network cannot be compiled, the folder cannot be written, or the C exceeds its budget.
    """
    check_heads(request.targets, [name for name, _ in source.heads], bool(source.values))
    if source.values and request.members.gate:
        raise BlrcError(f"{source.source}: gives values; a gate (--gate) stops at a likely label: leave it out")
    chosen, gate = request.members.of(source), request.members.gate
    if set(chosen) != {MAP}:
        check_random(source, "export")
    stem = re.sub(r"[^A-Za-z0-9_]", "_", Path(source.source).stem)
    name = check_name(stem if request.name is None else request.name)
    with claimed(request.folder) as place:  # before the earlier export is looked at, until the new one is written
        replaced = previous_files(request.folder, request.force)
        for note in notes(source):
            say(f"warning: {source.source}: {note}")
            if say is quiet:  # whoever calls from Python and listens to nothing
                warnings.warn(f"{source.source}: {note}", stacklevel=4)
        norms = norms_of(source, request.norms)
        if norms == "estimated":
            say("calibrating")
        program, nets = build(source, chosen, gate, norms, request.rounding)
        for note in constant_notes(nets[0]):
            say(f"note: {note}")
        moved = moved_by_estimation(as_saved(source), nets[0]) if norms == "estimated" else None
        if request.c is not None and (request.c.flash or request.c.ram):
            _check_budget(source, program, request.c, chosen[-1].layers is None)
        digest = program_file.digest(program)
        say(f"recording vectors of program {digest}")
        recorded = vectors.record(program, recorded_inputs(source, program))
        files = {
            f"{name}.program.npz": program_file.to_bytes(program),
            f"{name}.vectors.npz": vectors.to_bytes(program, recorded),
        }
        options = request.emit_options(name, recorded, source)
        about = {}
        for target in request.targets:
            say(f"emitting {target}")
            emitted = TARGETS[target](program, options)
            files.update(emitted.files)
            about[target] = emitted.about
        settings = describe(source, chosen[-1], gate, norms, request.rounding)
        manifest = Manifest(name, digest, VERSION, program.members, settings, to_plain(options), about, listed(files))
        files[f"{name}{SUFFIX}"] = to_bytes(manifest)
        place.write(files, replaced)
    return Exported(request.folder, program, manifest, moved)


def _c_options(targets: Sequence[str], packages: str | Iterable[str], **given: Any) -> COptions | None:
    """Return the options of the C target, or None without that target, whose package is not imported then."""
    packages = (packages,) if isinstance(packages, str) else tuple(packages)
    if "c" in targets:
        from blrc.targets.c.options import parse_c

        return parse_c(packages, **given)
    defaults = vars(COptions())
    named = {f"--{name}": value if value != defaults[name] else None for name, value in given.items()}
    refuse_options("c", {"--package": ", ".join(name for name in packages if name != "none") or None, **named})
    return None


def _onnx_options(targets: Sequence[str], **given: Any) -> OnnxOptions | None:
    if "onnx" in targets:
        return parse_onnx(**given)
    defaults = {**vars(OnnxOptions()), "outputs": None}
    named = {f"--onnx-{name}": value if value != defaults[name] else None for name, value in given.items()}
    refuse_options("onnx", named)
    return None


def _check_budget(source: Checkpoint, program: Program, c: COptions, all_sampled: bool) -> None:
    from blrc.inspection.budget import Budget, Form, check_budget  # it knows the C

    check_budget(source.source, program, Budget(c.flash, c.ram), all_sampled, Form(c.optimize, c.cpu))


def check_random(source: Checkpoint, what: str) -> None:
    if not binary_layers(source):
        raise BlrcError(
            f"{source.source}: no weight of it is random (a Binarized NN), so all members would be the same; {what} it "
            "with --members map"
        )
