"""`export` and `verify`: one line a stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc import checkpoint, program_file, vectors
from blrc.calibrate import calibrate
from blrc.checkpoint import Checkpoint
from blrc.encode import device_layout
from blrc.errors import BlrcError
from blrc.files import write_folder
from blrc.head import MAX_MEMBERS
from blrc.lower import lower
from blrc.manifest import SUFFIX, Manifest, previous_files, sha256s, to_bytes
from blrc.net import Net
from blrc.program import Program
from blrc.sample import MAP, NONE, Member, parse_freeze, sample, sampled_layers
from blrc.targets.c.names import check_name
from blrc.targets.options import EmitOptions
from blrc.targets.registry import TARGETS
from blrc.verification.folder import verify_folder
from blrc.verification.report import Report
from blrc.verification.run import Progress
from blrc.verification.stimuli import adversarial_inputs
from blrc.version import VERSION

Say = Callable[[str], None]
RECORDED = 6  # calibration samples among the recorded vectors; the two extremes are recorded as well


@dataclass(frozen=True, eq=False)
class Exported:
    """What an export wrote."""

    folder: Path
    program: Program
    manifest: Manifest


def build(source: Checkpoint, members: Sequence[Member]) -> tuple[Program, list[Net]]:
    """Sample, calibrate and lower: the program of `members`, and their calibrated nets.

    Raises:
        BlrcError: no calibration samples in the checkpoint, or a network that cannot be compiled (layer named).
    """
    if source.calibration is None:
        raise BlrcError(
            f"{source.source}: holds no calibration samples, on which the norms are re-estimated; "
            "save it again with blrc.save(..., calibration=samples)"
        )
    nets = [calibrate(sample(source, member), source.calibration) for member in members]
    return lower(nets), nets


def parse_members(
    members: str, seed: int, layers: tuple[str, ...] | None = None, freeze: Fraction = NONE
) -> list[Member]:
    """``map``, or the number of networks to sample from `seed`; member k is the same whatever the number.

    Args:
        layers, freeze: of every sampled member (see `Member`); with ``map``, of which nothing is sampled, an error.
    """
    Member(seed, 0)  # refuses a bad seed, also where it is not used
    if members == "map":
        if layers is not None or freeze:
            raise BlrcError("--sample and --freeze choose what is sampled, and map samples nothing; add --members 16")
        return [MAP]
    digits = members.lstrip("0") if members.isdecimal() and members.isascii() else ""
    if not digits:
        raise BlrcError(f"--members {members!r}: expected map, or a number of sampled networks")
    if len(digits) > 4 or int(digits) > MAX_MEMBERS:
        raise BlrcError(f"--members {members[:20]}: sums of log-probabilities hold {MAX_MEMBERS} members at most")
    return [Member(seed, index, layers, freeze) for index in range(int(digits))]


def export(
    model: str | Path | Checkpoint,
    folder: str | Path,
    targets: str | Sequence[str] = ("c", "onnx"),
    members: str = "map",
    seed: int = 0,
    name: str | None = None,
    force: bool = False,
    say: Say = lambda _: None,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = NONE,
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

    Raises:
        BlrcError: for every mistake that a user can make; nothing is written then.
    """
    folder = Path(folder)
    targets = (targets,) if isinstance(targets, str) else targets
    unknown = [target for target in targets if target not in TARGETS]
    if unknown or not targets:
        raise BlrcError(f"unknown target {', '.join(map(repr, unknown)) or '(none)'}; known: {', '.join(TARGETS)}")
    parse_members(members, seed)  # refuses bad numbers before a file is read
    source = model if isinstance(model, Checkpoint) else checkpoint.load(model)
    chosen = parse_members(members, seed, sampled_layers(source, sample), parse_freeze(freeze))
    name = check_name(re.sub(r"[^A-Za-z0-9_]", "_", Path(source.source).stem) if name is None else name)
    replaced = previous_files(folder, force)
    say("calibrating")
    program, _ = build(source, chosen)
    digest = program_file.digest(program)
    say(f"recording vectors of program {digest}")
    recorded = vectors.record(program, _recorded_inputs(source, program))
    files = {
        f"{name}.program.npz": program_file.to_bytes(program),
        f"{name}.vectors.npz": vectors.to_bytes(program, recorded),
    }
    about = {}
    for target in sorted(set(targets)):
        say(f"emitting {target}")
        emitted = TARGETS[target](program, EmitOptions(name, recorded, VERSION))
        files.update(emitted.files)
        about[target] = emitted.about
    manifest = Manifest(name, digest, VERSION, program.members, _settings(source), about, sha256s(files))
    files[f"{name}{SUFFIX}"] = to_bytes(manifest)
    write_folder(folder, files, replaced)
    return Exported(folder, program, manifest)


def _settings(source: Checkpoint) -> dict[str, object]:
    encoding, samples = source.encoding, source.calibration
    return {
        "input": {
            "kind": encoding.kind,
            "shape": list(encoding.shape),
            "scale": encoding.scale,
            "mean": list(encoding.mean),
            "std": list(encoding.std),
        },
        "calibration_samples": 0 if samples is None else len(samples),
    }


def _recorded_inputs(source: Checkpoint, program: Program) -> NDArray[Any]:
    extremes = adversarial_inputs(program.input)[:2]
    if source.calibration is None:
        return extremes
    samples = device_layout(source.calibration[:RECORDED])
    return np.concatenate([samples.astype(extremes.dtype), extremes])


def verify(
    folder: str | Path,
    data: str | Path | None = None,
    model: str | Path | None = None,
    random: int | None = None,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> Report:
    """Compare everything in an exported folder with the reference, at every layer.

    Args:
        folder: written by `export`.
        data: test data (see `blrc.labelled.load`).
        model: the checkpoint: it is lowered again and must give the same program, and agreement with torch is measured.
        random: number of random inputs; by default 10,000, fewer for networks over 6 million operations.
        seed: of the random inputs.
        progress: is told what is being compared, how much of it is done, and how much there is.

    Raises:
        BlrcError: the folder is no export, or tools are missing. A difference is not an error but in the report.
    """
    if seed < 0 or (random is not None and random < 0):
        raise BlrcError(f"seed {seed}, random {random}: must not be negative")
    lower_again = None
    if model is not None:
        source = checkpoint.load(model)

        def lower_again(members: Sequence[str]) -> tuple[Program, list[Net]]:
            try:
                parsed = [Member.parse(text) for text in members]
            except ValueError:
                raise BlrcError(f"{folder}: its program has members {', '.join(members)}; export it again") from None
            return build(source, parsed)

    return verify_folder(Path(folder), None if data is None else Path(data), lower_again, random, seed, progress)
