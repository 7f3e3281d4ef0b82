"""torch.compile for a training step, where it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.nn.fast.fused import fused
from blrc.nn.fast.passes import torch_compiled
from blrc.nn.noise import Noisy


def compiled(model: nn.Module) -> nn.Module:
    """`model` for training steps, by torch.compile. It shares its tensors; evaluation goes on with `model` itself.

    Of a stochastic network the passes over maps are compiled (`blrc.nn.fast.fused`), and the rest is as before: noise
    is drawn anew for each step, and convolutions gain nothing. Another network is compiled whole.

    Raises:
        BlrcError: torch.compile is not made for this Python.
    """
    try:
        if any(isinstance(module, Noisy) for module in model.modules()):
            return fused(model, torch_compiled)
        return cast(nn.Module, torch.compile(model, dynamic=False))
    except RuntimeError as error:  # a Python that it does not know
        raise _failed(error) from None


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
        raise _failed(error) from None


def check(device: torch.device | str = "cpu") -> None:
    """See that torch.compile works, before hours of training that need no compiler yet.

    Raises:
        BlrcError: it does not.
    """
    try:
        torch.compile(_small, dynamic=False)(torch.ones(64, device=device))
    except RuntimeError as error:  # a Python that it does not know; a TorchDynamoException is one, too
        raise _failed(error) from None


def _small(x: torch.Tensor) -> torch.Tensor:
    return x.sqrt() + 1.0


def _failed(error: Exception) -> BlrcError:
    reason = str(error).strip().splitlines()
    return BlrcError(
        f"torch.compile failed ({reason[0] if reason else type(error).__name__}); it needs a C++ compiler and "
        "Python's headers; leave out --compile, or install them"
    )
