"""Train one of the paper's networks (`blrc.train`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from blrc.errors import BlrcError
from blrc.extras import require
from blrc.reading.given import typed
from blrc.training.recipe import RECIPES, Recipe

if TYPE_CHECKING:
    from blrc.training.run import Trained


@typed
def train(
    task: str,
    *,
    output: str | Path,
    data: str | Path | None = None,
    recipe: str = "plain",
    resume: bool = False,
    stream: TextIO | None = None,
    threads: int | None = None,
    log: str | Path | None = None,
    device: str = "cpu",
    minutes: float = math.inf,
    **options: Any,
) -> Trained:
    """Train one of the paper's networks, or a baseline, and write its checkpoint.

    Args:
        task: ``mnist`` or ``cifar10``.
        output: the path of the checkpoint.
        data: the folder of the data set's files; by default the cache, to which they are downloaded if they are
            missing.
        recipe: the options to start from: ``plain``, ``paper`` or ``distilled``.
        resume, stream, threads, log, device, minutes: see `blrc.training.run.run`.
        options: fields of `blrc.training.recipe.Recipe` that replace the recipe's own, such as ``epochs=3``.

    Raises:
        BlrcError: torch is not installed, a task, recipe or option is unknown, or as for `blrc.training.run.run`.
    """
    require("torch", "blrc train")
    from blrc.training.run import run  # torch takes a second

    if task not in RECIPES:
        raise BlrcError(f"task {task!r}: expected {' or '.join(RECIPES)}")
    if recipe not in RECIPES[task]:
        raise BlrcError(f"recipe {recipe!r}: expected {' or '.join(RECIPES[task])}")
    known = Recipe.__dataclass_fields__.keys() - {"task"}
    if unknown := sorted(options.keys() - known):
        raise BlrcError(f"train takes no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    chosen = Recipe(**{**RECIPES[task][recipe], **options})
    return run(output, data, chosen, resume, stream, threads, log, device, minutes)
