"""Read the tensors that layers compute with, under the keys of a ``state_dict``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from blrc.frontend.capture.walk import all_names


def array_of(value: torch.Tensor) -> NDArray[Any]:
    """Return a copy of a tensor's values as a NumPy array.

    bfloat16, which NumPy does not have, and float16 become float32.
    """
    # contiguous() first: a channels_last tensor has its values in another order of bytes.
    plain = value.detach().cpu().contiguous()
    return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy().copy()


def tensors_of(model: nn.Module, layers: Sequence[str]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield parameters and buffers of the named layers and of what they hold, in the order of ``state_dict``.

    They are read from where the layers read them, because a ``state_dict`` may be overridden, or changed by hooks. A
    tensor that several layers share comes under each of its names.
    """
    prefixes = tuple(f"{layer}." for layer in layers)
    for name, module in all_names(model).items():
        for registry in (module._parameters, module._buffers):
            for key, value in registry.items():
                full = f"{name}.{key}" if name else key
                if value is not None and full.startswith(prefixes):
                    yield full, array_of(value)
