"""Writes tiny.pt, a checkpoint of format 1 that every later version must read and compile to the same program.

It was made once, by ``python tests/golden/make_tiny.py``; making it again would defeat its purpose. Its parameters
come from integer arithmetic, and include a negative, a zero and a tiny gamma.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

import blrc
from blrc import nn as bnn


def spread(shape: tuple[int, ...], step: int, modulus: int) -> torch.Tensor:
    """Numbers from -1 to 1 in a fixed order."""
    count = int(np.prod(shape))
    values = (np.arange(1, count + 1, dtype=np.int64) * step % modulus) / (modulus // 2) - 1
    return torch.from_numpy(values.reshape(shape).astype(np.float32))


def network() -> nn.Module:
    model = nn.Sequential(
        bnn.BinaryConv2d(2, 5, 3, padding="same"),
        bnn.StochasticBatchNorm2d(5),
        bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(),
        bnn.BinaryConv2d(5, 33, (3, 2), stride=(1, 2), padding=1),
        bnn.StochasticBatchNorm2d(33),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.BinaryLinear(33 * 3 * 2, 7, bias=True),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(7, 3),
    )
    for index, (name, parameter) in enumerate(sorted(model.named_parameters())):
        scale = 4.0 if name.endswith("logits") else 1.5
        parameter.data = scale * spread(tuple(parameter.shape), 7919 + 2 * index, 1009)
    model[1].weight.data[:3] = torch.tensor([-0.5, 0.0, -2.9e-7])
    return model


if __name__ == "__main__":
    encoding = blrc.pixels((2, 6, 7), mean=(0.25, 0.5), std=(0.25, 0.5))
    samples = (np.arange(32 * 2 * 6 * 7, dtype=np.int64) * 2654435761 >> 7) % 256
    raw = samples.astype(np.uint8).reshape(32, 2, 6, 7)
    blrc.save(network(), path=Path(__file__).parent / "tiny.pt", input=encoding, calibration=raw, compact=True)
