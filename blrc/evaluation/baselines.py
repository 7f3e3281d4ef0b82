"""Load other networks, to compare the evaluated one with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from blrc.errors import BlrcError
from blrc.frontend import checkpoint, full_precision
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, sample
from blrc.lowering.lower import lower
from blrc.nn import models
from blrc.program.program import Program, Value
from blrc.reading import sealed


def baselines_beside(source: Checkpoint, paths: Sequence[Path]) -> dict[str, Checkpoint | nn.Module]:
    """Return the networks that stand beside `source`, by the names of their rows (the files' names without suffix).

    A full-precision network (``blrc train --model fp``) is returned as a torch module, and everything else as a
    checkpoint. Of a network with several heads it is the one of the same name, or the first if `source` has one output.

    Raises:
        BlrcError: a name is taken, a file holds no network, or its network is for other data; the message names the
            file.
    """
    found: dict[str, Checkpoint | nn.Module] = {}
    own = lower([sample(source, MAP, running=True)])
    for path in paths:
        if path.stem in found or path.stem in ("map", "stochastic") or path.stem.isdecimal():
            raise BlrcError(f"--baseline {path}: a file's name is its row's, and {path.stem!r} is taken; rename it")
        if sealed.format_of(sealed.read(path)) == checkpoint.REAL_FORMAT:
            found[path.stem] = _real(path, own)
            continue
        other = checkpoint.load(path)
        if other.heads:
            other = other.of_head(next((head for head, _ in source.heads), None))
        program = lower([sample(other, MAP, running=True)])
        if (program.input, program.classes) != (own.input, own.classes):
            raise BlrcError(
                f"--baseline {path}: takes {program.input.dtype} {program.input.shape} (H, W, C) and has "
                f"{program.classes} classes, but {source.source} {own.input.dtype} {own.input.shape} and {own.classes}"
            )
        found[path.stem] = other
    return found


def _real(path: Path, program: Program) -> nn.Module:
    tensors = full_precision.load_real(path)
    norm, first = "norm1.weight" in tensors, tensors.get("conv1.weight")
    colour = first is not None and first.ndim == 4 and first.shape[1] == 3
    try:
        model = (
            models.cifar10("fp", len(first) / 128, norm) if colour and first is not None else models.mnist("fp", norm)
        )
        model.load_state_dict(tensors)
    except RuntimeError:
        raise BlrcError(f"--baseline {path}: not a network of 'blrc train mnist --model fp', or of cifar10") from None
    takes = Value("input", full_precision.real_kind(path), (32, 32, 3) if colour else (28, 28, 1))
    if program.input != takes or program.classes != models.CLASSES:
        raise BlrcError(
            f"--baseline {path}: takes {takes.dtype} {takes.shape} (H, W, C), but the evaluated network "
            f"{program.input.dtype} {program.input.shape}"
        )
    return model
