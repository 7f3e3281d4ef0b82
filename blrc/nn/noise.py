"""Random numbers laid out like the tensor that they are for, from torch's default generators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from blrc.errors import BlrcError

SLACK = 1 << 20  # numbers that a reused buffer has beyond one draw: as many offsets at which a draw can begin


@dataclass
class Noise:
    """Draws of one kind of noise.

    ``reuse`` = False draws anew each time. ``reuse`` = True draws a buffer once, a little larger than a draw, and then
    gives a slice of it at a random offset: values are independent within a draw, while two draws share values at other
    places. That costs nothing and trains as well (drawing is a third of an MNIST epoch on a CPU); `forget` drops the
    buffer, so that what follows depends only on the generator's seed then.

    Attributes:
        draw: fills a flat tensor in place with numbers from torch's default generator.
    """

    draw: Callable[[Tensor], Tensor]
    reuse: bool = False
    buffer: Tensor | None = None

    def like(self, x: Tensor) -> Tensor:
        """Noise of `x`'s shape, type, device and memory layout; not to be changed in place.

        `torch.randn_like` of a channels_last tensor takes a scalar path on the CPU, 5 times slower; so the numbers are
        drawn flat and then seen with the strides of `x`.
        """
        layout = torch.empty_like(x, device="meta")  # dense, in the layout of x where x is dense itself
        flat = self._flat(x)
        return flat.as_strided(layout.size(), layout.stride(), flat.storage_offset())

    def forget(self) -> None:
        """Draw a new buffer next time."""
        self.buffer = None

    def _flat(self, x: Tensor) -> Tensor:
        count = x.numel()
        if not self.reuse:
            return self.draw(torch.empty(count, dtype=x.dtype, device=x.device))
        held = self.buffer
        if held is None or held.numel() < count + SLACK or held.dtype != x.dtype or held.device != x.device:
            held = self.buffer = self.draw(torch.empty(count + SLACK, dtype=x.dtype, device=x.device))
        start = int(torch.randint(held.numel() - count + 1, ()))
        return held[start : start + count]


class Noisy(nn.Module):
    """A layer with noise. `train` and `eval` make it forget a reused buffer.

    Attributes:
        noise: where its noise comes from.
    """

    noise: Noise

    def train(self, mode: bool = True) -> Noisy:
        self.noise.forget()
        return super().train(mode)


def reuse_noise(model: nn.Module, reuse: bool = True) -> None:
    """Let every stochastic layer of a network reuse its noise (see `Noise`), or draw anew.

    Raises:
        BlrcError: the network has no such layer.
    """
    layers = [module for module in model.modules() if isinstance(module, Noisy)]
    if not layers:
        raise BlrcError("the network has no stochastic layer: build it of StochasticSign and StochasticMaxPool2d")
    for layer in layers:
        layer.noise.reuse = reuse
        layer.noise.forget()
