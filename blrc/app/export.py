"""`export`: from a checkpoint to the files of every target, one line a stage."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from blrc.app.provenance import describe, notes, recorded_inputs
from blrc.errors import BlrcError
from blrc.exports.door import previous_files
from blrc.exports.manifest import SUFFIX, Manifest, listed, to_bytes
from blrc.exports.recorded import to_plain
from blrc.frontend import checkpoint
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.members import parse_gate, parse_members
from blrc.frontend.sample import MAP, NONE, Member, binary_layers, parse_freeze, sample, sampled_layers
from blrc.inspection.budget import Form, check_budget, parse_budget
from blrc.lowering.calibrate import calibrate
from blrc.lowering.lower import lower
from blrc.net.net import Net
from blrc.program import program_file, vectors
from blrc.program.program import Program
from blrc.reading.given import path_of
from blrc.reading.regular import check_place
from blrc.store.claim import claimed
from blrc.targets.c.naming.names import check_name
from blrc.targets.c.packages.registry import parse_packages
from blrc.targets.c.size.choose import check_cpu, parse_optimize
from blrc.targets.onnx_options import parse_onnx
from blrc.targets.options import EmitOptions
from blrc.targets.publication import parse_publication
from blrc.targets.registry import NEEDS, TARGETS
from blrc.version import VERSION

Say = Callable[[str], None]


def quiet(what: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, eq=False)
class Exported:
    """What an export wrote."""

    folder: Path
    program: Program = field(repr=False)
    manifest: Manifest = field(repr=False)


def build(source: Checkpoint, members: Sequence[Member], gate: int = 0) -> tuple[Program, list[Net]]:
    """Sample, calibrate and lower: the program of `members`, and their calibrated nets.

    Args:
        gate: see `Program.gate`; with it the first member has to be MAP.

    Raises:
        BlrcError: no calibration samples in the checkpoint, or a network that cannot be compiled (layer named).
    """
    samples = source.samples()
    nets = [calibrate(sample(source, member), samples) for member in members]
    return lower(nets, gate), nets


def export(
    model: str | Path | Checkpoint,
    folder: str | Path,
    targets: str | Sequence[str] = ("c", "onnx"),
    members: str = "map",
    seed: int = 0,
    name: str | None = None,
    force: bool = False,
    say: Say = quiet,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = NONE,
    gate: str | float | Fraction | None = None,
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
        model: a checkpoint or its path.
        folder: is created; if it holds an earlier export, `force` replaces that export's files.
        targets: one or several names from `blrc.targets.registry.TARGETS`.
        members: ``map``, or a number of networks sampled from `seed`.
        name: prefix of every file and symbol; by default the checkpoint's file name.
        say: is told what is going on.
        sample: which binary layers of a member are sampled, the others stay at MAP and are stored once: ``all``,
            ``conv`` (every binary convolution), ``LAYER,LAYER``, or a list of names.
        freeze: weights whose rarer sign is less likely than this stay at MAP too: 0 to 0.5, taken as the decimal it is.
        gate: MAP becomes the first member, and where its top probability is at least this (above 0, at most 1), it
            answers alone; elsewhere it votes together with the sampled members. None: no gate.
        packages: one or several names from `blrc.targets.c.packages.registry.PACKAGES`: a library of that ecosystem,
            with an example, in ``<package>/<name>`` of the folder. Needs the target ``c``.
        flash, ram: bytes that the C may take of each, as numbers or such as ``256K``; what does not fit is refused.
        optimize: ``size``, or ``speed``: the C takes more RAM, at most `ram`, where that saves instructions on CPUs
            without a popcount instruction, such as Cortex-M; or ``ram``: the least RAM, for more code.
        cpu: ``portable``: C for every CPU; ``x86-64``: C that takes the best of popcnt, AVX2 and AVX-512 that it finds;
            ``aarch64``: NEON, with ``sdot`` where it is;
            ``cortex-m55``: with `optimize` ``speed``, convolutions of 128 pixels at once, in four times the memory.
        onnx_weights: ``bytes``, or ``bits``: weights take an eighth in the ONNX file, unpacked when it is loaded.
        license, author, url, package_version: of the model, for packages and the manifest: an SPDX expression, one line
            of text, a web address, and MAJOR.MINOR.PATCH. What is not given stays unspecified.
        onnx_outputs: ``all``, or ``scores``: the ONNX file has no head, and gives the scores of every member. None:
            what the form has.
        onnx_form: ``integer``; or ``float``: float32 and only ops that every runtime has, and the scores only.

    Raises:
        BlrcError: for every mistake that a user can make; nothing is written then.
    """
    folder = check_place(path_of(folder, "the path of the folder to write"))
    targets = (targets,) if isinstance(targets, str) else targets
    unknown = [target for target in targets if target not in TARGETS]
    if unknown or not targets:
        raise BlrcError(f"unknown target {', '.join(map(repr, unknown)) or '(none)'}; known: {', '.join(TARGETS)}")
    wanted = parse_packages(packages)
    if wanted and "c" not in targets:
        raise BlrcError(f"package {', '.join(wanted)}: packages hold the C; add the target c (--target c)")
    for target in set(targets) & set(NEEDS):
        NEEDS[target]()
    limits = parse_budget(flash, ram, targets)
    wanted_speed = parse_optimize(optimize)
    check_cpu(cpu, targets, flash is not None or ram is not None or bool(wanted) or optimize != "size")
    onnx = parse_onnx(onnx_weights, onnx_outputs, onnx_form, targets)
    if optimize != "size" and "c" not in targets:
        raise BlrcError(f"--optimize {optimize} is about the C; add --target c")
    publication = parse_publication(license, author, url, package_version)
    q16 = parse_gate(gate)
    parse_members(members, seed, gate=q16)  # refuses bad numbers before a file is read
    source = model if isinstance(model, Checkpoint) else checkpoint.load(model)
    chosen = parse_members(members, seed, sampled_layers(source, sample), parse_freeze(freeze), q16)
    if set(chosen) != {MAP}:
        check_random(source, "export")
    name = check_name(re.sub(r"[^A-Za-z0-9_]", "_", Path(source.source).stem) if name is None else name)
    with claimed(folder) as place:  # before the earlier export is looked at, until the new one is written
        replaced = previous_files(folder, force)
        for note in notes(source):
            say(f"warning: {source.source}: {note}")
            if say is quiet:  # whoever calls from Python and listens to nothing
                warnings.warn(f"{source.source}: {note}", stacklevel=2)
        say("calibrating")
        program, _ = build(source, chosen, q16)
        check_budget(source.source, program, limits, chosen[-1].layers is None, Form(wanted_speed, cpu))
        digest = program_file.digest(program)
        say(f"recording vectors of program {digest}")
        recorded = vectors.record(program, recorded_inputs(source, program))
        files = {
            f"{name}.program.npz": program_file.to_bytes(program),
            f"{name}.vectors.npz": vectors.to_bytes(program, recorded),
        }
        options = EmitOptions(
            name=name,
            vectors=recorded,
            version=VERSION,
            packages=wanted,
            optimize=wanted_speed,
            ram=limits.ram,
            flash=limits.flash,
            cpu=cpu,
            onnx_weights=onnx.weights,
            onnx_outputs=onnx.outputs,
            onnx_form=onnx.form,
            license=publication.license,
            author=publication.author,
            url=publication.url,
            package_version=publication.version,
            input_scale=source.encoding.scale if source.encoding.kind == "int8" else None,
        )
        about = {}
        for target in sorted(set(targets)):
            say(f"emitting {target}")
            emitted = TARGETS[target](program, options)
            files.update(emitted.files)
            about[target] = emitted.about
        settings = describe(source, chosen[-1], q16)
        manifest = Manifest(name, digest, VERSION, program.members, settings, to_plain(options), about, listed(files))
        files[f"{name}{SUFFIX}"] = to_bytes(manifest)
        place.write(files, replaced)
    return Exported(folder, program, manifest)


def check_random(source: Checkpoint, what: str) -> None:
    if not binary_layers(source):
        raise BlrcError(
            f"{source.source}: no weight of it is random (a Binarized NN), so all members would be the same; {what} it "
            "with --members map"
        )
