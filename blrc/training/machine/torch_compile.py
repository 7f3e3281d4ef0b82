"""Apply torch.compile to training steps where the recipe asks for it."""

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
    """Return a network for training steps that uses torch.compile and shares its tensors with `model`.

    Use `model` itself for evaluation. Of a stochastic network only the passes over maps are compiled
    (`blrc.nn.fast.fused`). The rest stays as it is, because noise is drawn anew for each step and convolutions gain
    nothing. Any other network is compiled as a whole.

    Raises:
        BlrcError: torch.compile does not support this version of Python.
    """
    try:
        if any(isinstance(module, Noisy) for module in model.modules()):
            return fused(model, torch_compiled)
        return cast(nn.Module, torch.compile(model, dynamic=False))
    except RuntimeError as error:  # an unsupported version of Python
        raise _failed(error) from None


@contextmanager
def reported(on: bool) -> Iterator[None]:
    """Turn a failure of torch.compile into an error that says which option to leave out; do nothing if not `on`.

    Raises:
        BlrcError: torch.compile failed, usually because there is no C++ compiler.
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
    """Check that torch.compile works, before hours of training that do not need it yet.

    Raises:
        BlrcError: torch.compile does not work.
    """
    try:
        torch.compile(_small, dynamic=False)(torch.ones(64, device=device))
    except RuntimeError as error:  # an unsupported version of Python; also a TorchDynamoException, which is a subclass
        raise _failed(error) from None


def _small(x: torch.Tensor) -> torch.Tensor:
    return x.sqrt() + 1.0


def _failed(error: Exception) -> BlrcError:
    reason = str(error).strip().splitlines()
    return BlrcError(
        f"torch.compile failed ({reason[0] if reason else type(error).__name__}); it needs a C++ compiler and "
        "Python's headers; leave out --compile, or install them"
    )
