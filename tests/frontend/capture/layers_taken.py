"""A layer of each known class, a network around it, and what refusing it says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.capture.known import SKIPPED, known_class
from blrc.frontend.capture.trace import capture


def network(layer: nn.Module) -> nn.Sequential:
    """The layer as the second of a network that tracing can follow."""
    return nn.Sequential(bnn.StochasticSign() if known_class(layer) not in SKIPPED else nn.Identity(), layer)


def refusal(model: nn.Module) -> str:
    with pytest.raises(BlrcError) as error:
        capture(model)
    assert "\n" not in str(error.value)
    return str(error.value)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(bnn.BinaryConv2d(1, 2, 3), nn.Identity(), bnn.StochasticSign(), nn.Flatten())
        self.scores = bnn.SoftmaxLinear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.features(x))  # type: ignore[no-any-return]
