"""Measure a checkpoint's networks and ensembles on labelled data (`blrc.evaluate`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from blrc.app.export import check_random
from blrc.app.import_onnx import opened
from blrc.datasets import labelled
from blrc.datasets.labelled import Labelled
from blrc.display import Figures
from blrc.errors import BlrcError
from blrc.evaluation.choice import Choice, EvalRequest, parse_entries
from blrc.extras import require
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, NONE, parse_freeze, sample
from blrc.inspection import inspection
from blrc.lowering.lower import lower
from blrc.reading.given import typed
from blrc.store.places import writable, write_atomically
from blrc.verification.run import Progress


class EvalReport(Figures):
    """Hold what `evaluate` found, as plain data (`blrc.evaluation.report.to_plain`)."""

    def __repr__(self) -> str:
        """Return the accuracies, in per cent, or the errors of values, on one line."""
        if self.get("outputs") == "values":
            off = ", ".join(f"{name} {row['rmse_mean']:.5g}" for name, row in self["members"].items())
            return f"EvalReport({self['checkpoint']!r} on {self['samples']:,} samples: root mean squared error {off})"
        found = ", ".join(f"{name} {row['accuracy_mean']:.2f} %" for name, row in self["members"].items())
        return f"EvalReport({self['checkpoint']!r} on {self['samples']:,} samples: {found})"

    def __str__(self) -> str:
        from blrc.evaluation.report import to_text

        return to_text(self)


@typed
def evaluate(
    model: str | Path | Checkpoint,
    *,
    data: str | Path,
    members: str | int = "stochastic,map,2,5,16",
    repeats: int = 1,
    seed: int = 0,
    sample: str | Sequence[str] = "all",
    freeze: str | float | Fraction = NONE,
    validation: bool = False,
    baselines: Sequence[str | Path] = (),
    cheap: bool = False,
    plots: str | Path | None = None,
    head: str | None = None,
    progress: Progress = lambda what, done, total: None,
) -> EvalReport:
    """Measure accuracy, likelihood, calibration and certainty of a checkpoint's networks and ensembles.

    Of a network that gives values, it measures how far off they are (`blrc.evaluation.values`).

    Args:
        model: a checkpoint, or its path, or that of an ONNX file, which is imported.
        data: test data (see `blrc.datasets.labelled.load`); with `validation` the last 5,000 training images of a
            folder.
        members: the entries: ``map``, ``stochastic`` and numbers of members, separated by commas.
        repeats: how often ensembles (and the stochastic network) are drawn anew: repeat r uses seed + r.
        sample, freeze: what of the members is sampled, as for `export`.
        baselines: further checkpoints, evaluated as ``map``.
        cheap: whether to measure cheap ensembles too (`blrc.evaluation.cheap`), of the largest number in `members`;
            those of `sample` and `freeze` are among them.
        plots: a folder for figures (needs matplotlib); the re-estimation curve is measured for it.
        head: of a network with several heads, the one that the labels are for, and that is measured; None takes the
            first.
        progress: is told what is being evaluated, how much of it is done, and how much there is.

    Returns:
        plain data, see `blrc.evaluation.report.to_plain`; ``print`` shows it as tables.

    Raises:
        BlrcError: for every mistake that a user can make.
    """
    require("torch", "evaluating a checkpoint")
    request = EvalRequest(
        data=Path(data),
        entries=parse_entries(str(members)),
        repeats=repeats,
        seed=seed,
        sample=sample if isinstance(sample, str) else tuple(sample),
        freeze=parse_freeze(freeze),
        validation=validation,
        cheap=cheap,
        baselines=tuple(Path(path) for path in baselines),
        plots=None if plots is None else Path(plots),
    )
    return run(opened(model).of_head(head), request, progress)


def run(source: Checkpoint, request: EvalRequest, progress: Progress) -> EvalReport:
    """Evaluate a checkpoint as a request asks.

    Raises:
        BlrcError: as for `evaluate`.
    """
    from blrc.evaluation import evaluation
    from blrc.evaluation.baselines import baselines_beside
    from blrc.evaluation.cheap import evaluate_cheap
    from blrc.evaluation.report import to_plain

    draw = None if request.plots is None else _drawing()
    choice = request.of(source)
    if source.values:
        return _of_values(source, request, choice, progress)
    if set(choice.entries) != {"map"}:
        check_random(source, "evaluate")
    others = baselines_beside(source, request.baselines)
    if request.plots is not None:
        writable(request.plots)  # an evaluation takes long; what cannot be written is found before it
    labels = _labelled(source, request.data, request.validation)
    found = evaluation.evaluate(source, labels, choice, others, draw is not None, progress)
    rows = (
        evaluate_cheap(
            source, labels, max(choice.sizes), choice.repeats, choice.seed, progress, choice.layers, choice.freeze
        )
        if request.cheap
        else ()
    )
    name = f"{request.data} (validation)" if request.validation else str(request.data)
    name += "".join(f", head {head}" for head, _ in source.heads)
    plain = to_plain(found, source.source, name, inspection.weight_histograms(source), rows)
    if draw is not None and request.plots is not None:
        for file, content in draw(plain).items():
            write_atomically(request.plots / file, content)
    return EvalReport(plain)


def _of_values(source: Checkpoint, request: EvalRequest, choice: Choice, progress: Progress) -> EvalReport:
    from blrc.evaluation import values

    asked = {
        "--cheap": request.cheap,
        "--baseline": bool(request.baselines),
        "--plots": request.plots is not None,
        "--validation": request.validation,
    }
    if unfit := [option for option, given in asked.items() if given]:
        raise BlrcError(f"{source.source}: gives values, and {', '.join(unfit)} is about labels: leave it out")
    if set(choice.entries) != {"map"}:
        check_random(source, "evaluate")
    program = lower([sample(source, MAP, running=True)])
    data = labelled.load_values(request.data, program.input, program.classes)
    name = f"{request.data}" + "".join(f", head {head}" for head, _ in source.heads)
    found = values.evaluate(source, data, choice, progress)
    return EvalReport(values.to_plain(found, source, choice, name, len(data.raw)))


def _labelled(source: Checkpoint, path: Path, validation: bool) -> Labelled:
    program = lower([sample(source, MAP, running=True)])
    return labelled.load(path, program.input, program.classes, validation, source.whitening)


def _drawing() -> Callable[[Mapping[str, Any]], dict[str, bytes]]:
    from blrc.evaluation import figures  # matplotlib is an extra

    return figures.figures
