"""Train networks on MNIST."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from blrc.training.data import MNIST as ENCODING
from blrc.training.recipe import Recipe
from blrc.training.run import Trained, run

__all__ = ["ENCODING", "train_mnist"]


def train_mnist(
    output: str | Path,
    data: str | Path | None = None,
    recipe: Recipe | None = None,
    resume: bool = False,
    stream: TextIO | None = None,
    threads: int | None = None,
    log: str | Path | None = None,
) -> Trained:
    """Train the paper's MNIST network, or a baseline, and write its checkpoint; see `blrc.training.run.run`.

    Args:
        output: path of the checkpoint.
        data: folder of IDX files; None is the cache, to which absent files are downloaded.
        recipe: options; None means `Recipe`'s defaults.
        resume, stream, threads, log: as in `blrc.training.run.run`.
    """
    return run(output, data, recipe or Recipe(), resume, stream, threads, log)
