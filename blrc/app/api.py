"""The public functions: `export` (in `blrc.app.export`), `verify` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from blrc.app.export import Exported, build, check_random, export
from blrc.datasets import labelled
from blrc.datasets.labelled import Labelled
from blrc.errors import BlrcError
from blrc.evaluation import choice as eval_choice
from blrc.extras import require
from blrc.frontend import checkpoint
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, NONE, Member, parse_freeze, sample, sampled_layers
from blrc.inspection import inspection
from blrc.lowering.lower import lower
from blrc.net.net import Net
from blrc.program.program import Program
from blrc.reading.given import path_of
from blrc.store.places import writable, write_atomically
from blrc.verification.devices import parse_machines
from blrc.verification.folder import verify_folder
from blrc.verification.report import Report
from blrc.verification.run import Progress

__all__ = ["Exported", "build", "evaluate", "export", "verify"]


def evaluate(
    model: str | Path | Checkpoint,
    data: str | Path,
    members: str = "stochastic,map,2,5,16",
    repeats: int = 1,
    seed: int = 0,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = NONE,
    validation: bool = False,
    baselines: Sequence[str | Path] = (),
    cheap: bool = False,
    plots: str | Path | None = None,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Accuracy, likelihood, calibration and certainty of a checkpoint's networks and ensembles.

    Args:
        model: a checkpoint or its path.
        data: test data (see `blrc.datasets.labelled.load`); with `validation` the last 5,000 training images of a
            folder.
        members: entries, ``map``, ``stochastic`` and numbers, with commas between.
        repeats: how often ensembles (and the stochastic network) are drawn anew: repeat r is of seed + r.
        sample, freeze: of the members, as for `export`.
        baselines: further checkpoints, evaluated as ``map``.
        cheap: measure cheap ensembles too (`blrc.evaluation.cheap`), of the largest number in `members`; those of
            `sample` and `freeze` are among them.
        plots: folder for figures (needs matplotlib); the re-estimation curve is measured for it.
        progress: is told what is being evaluated, how much of it is done, and how much there is.

    Returns:
        plain data, see `blrc.evaluation.report.to_plain`.

    Raises:
        BlrcError: for every mistake that a user can make.
    """
    require("torch", "evaluating a checkpoint")
    from blrc.evaluation import evaluation
    from blrc.evaluation.baselines import baselines_beside
    from blrc.evaluation.cheap import evaluate_cheap
    from blrc.evaluation.report import to_plain

    draw = None if plots is None else _plots()
    entries = eval_choice.parse_entries(members)
    source = model if isinstance(model, Checkpoint) else checkpoint.load(model)
    layers = sampled_layers(source, sample)
    choice = eval_choice.Choice(entries, repeats, seed, layers, parse_freeze(freeze))
    if cheap and max(choice.sizes, default=0) < 2:
        raise BlrcError(f"--cheap is about ensembles; name one of 2 or more in --members, for example {members},16")
    if set(entries) != {"map"}:
        check_random(source, "evaluate")
    others = baselines_beside(source, [Path(path) for path in baselines])
    if plots is not None:
        writable(Path(plots))  # an evaluation takes long; what cannot be written is found before it
    labels = _labelled(source, Path(data), validation)
    found = evaluation.evaluate(source, labels, choice, others, draw is not None, progress)
    rows = (
        evaluate_cheap(source, labels, max(choice.sizes), repeats, seed, progress, choice.layers, choice.freeze)
        if cheap
        else ()
    )
    name = f"{data} (validation)" if validation else str(data)
    plain = to_plain(found, source.source, name, inspection.weight_histograms(source), rows)
    if draw is not None and plots is not None:
        for file, content in draw(plain).items():
            write_atomically(Path(plots) / file, content)
    return plain


def _labelled(source: Checkpoint, path: Path, validation: bool) -> Labelled:
    program = lower([sample(source, MAP, running=True)])
    return labelled.load(path, program.input, program.classes, validation, source.whitening)


def _plots() -> Callable[[Mapping[str, Any]], dict[str, bytes]]:
    from blrc.evaluation import figures  # matplotlib is an extra

    return figures.figures


def verify(
    folder: str | Path,
    data: str | Path | None = None,
    model: str | Path | None = None,
    random: int | None = None,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
    on: str | None = None,
    strict: bool = False,
    digest: str | None = None,
    trust_code: bool = False,
) -> Report:
    """Compare everything in an exported folder with the reference, at every layer.

    Args:
        folder: written by `export`.
        data: test data (see `blrc.datasets.labelled.load`).
        model: the checkpoint: it is lowered again and must give the same program, and agreement with torch is measured.
            A network of whitened images takes a folder of `data` only with it.
        random: number of random inputs; by default 10,000, fewer for networks over 6 million operations.
        seed: of the random inputs.
        progress: is told what is being compared, how much of it is done, and how much there is.
        on: machines to run the C on in emulators, with commas between (`machines.ALL`), or ``all``.
        strict: a machine that was not checked (its tools are missing, or it has no room for the test) is an error.
        digest: the folder must hold this program.
        trust_code: compile and run the folder's own code, whoever wrote it, also that of another version of blrc;
            by default, only code that this blrc would have written itself is compiled and run.

    Raises:
        BlrcError: the folder is no export or does not fit its manifest, or tools are missing. A difference is not an
            error but in the report.
    """
    if seed < 0 or (random is not None and random < 0):
        raise BlrcError(f"seed {seed}, random {random}: must not be negative")
    machines = () if on is None else parse_machines(on)
    if strict and not machines:
        raise BlrcError("--strict is about machines; name some with --on")
    lower_again, whitening = None, None
    if model is not None:
        source = checkpoint.load(model)
        whitening = source.whitening

        def lower_again(members: Sequence[str], gate: int) -> tuple[Program, list[Net]]:
            try:
                parsed = [Member.parse(text) for text in members]
            except ValueError:
                raise BlrcError(f"{folder}: its program has members {', '.join(members)}; export it again") from None
            return build(source, parsed, gate)

    path = None if data is None else Path(data)
    return verify_folder(
        path_of(folder, "the path of an exported folder"),
        path,
        lower_again,
        random,
        seed,
        progress,
        machines,
        strict,
        whitening,
        digest,
        trust_code,
    )
