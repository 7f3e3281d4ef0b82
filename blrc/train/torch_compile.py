"""torch.compile for a training step, where it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.nn.noise import Noisy


def compiled(model: nn.Module) -> nn.Module:
    """`model` for training steps, by torch.compile. It shares its tensors; evaluation goes on with `model` itself.

    Noise stays outside the compiled parts: where in a reused buffer it begins is drawn anew for each step.
    """
    for module in model.modules():
        if isinstance(module, Noisy):
            module.noise.like = torch.compiler.disable(module.noise.like)  # type: ignore[method-assign, no-untyped-call]
    return cast(nn.Module, torch.compile(model, dynamic=False))


@contextmanager
def reported(on: bool) -> Iterator[None]:
    """What torch.compile cannot do, as a message that says what to leave out; nothing where it is not `on`.

    Raises:
        BlrcError: it failed, mostly for want of a C++ compiler.
    """
    if not on:
        yield
        return
    from torch._dynamo.exc import TorchDynamoException

    try:
        yield
    except TorchDynamoException as error:
        reason = str(error).strip().splitlines()
        raise BlrcError(
            f"torch.compile failed ({reason[0] if reason else type(error).__name__}); it needs a C++ compiler and "
            "Python's headers; leave out --compile, or install them"
        ) from None
