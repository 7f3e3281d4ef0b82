"""Measure with torch what a network's values are on average, and give norms the running statistics of a network."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.graph import GraphModel
from blrc.nn import StochasticBatchNorm1d, StochasticBatchNorm2d, deterministic, reestimate

SAMPLES = 640
"""Calibration samples for means and running statistics: five batches of `BATCH`, from which on accuracies are flat."""
BATCH = 128
"""Samples of one step, as in training."""
_NORMS = (StochasticBatchNorm1d, StochasticBatchNorm2d, nn.BatchNorm1d, nn.BatchNorm2d)


@torch.no_grad()
def means_of(checkpoint: Checkpoint, values: Collection[str]) -> dict[str, NDArray[np.float64]]:
    """Return the mean of each channel, over calibration samples and places, of values of the likeliest network.

    Raises:
        BlrcError: the checkpoint has no calibration samples.
    """
    if not values:
        return {}
    x = _inputs(checkpoint)
    model = deterministic(checkpoint.model().eval())
    assert isinstance(model, GraphModel)
    reestimate(model, x)
    found: dict[str, NDArray[np.float64]] = {}

    def keep(name: str) -> None:
        def hook(_: nn.Module, __: object, y: Tensor) -> None:
            found[name] = y.double().transpose(0, 1).flatten(1).mean(1).numpy()

        model.get_submodule(name).register_forward_hook(hook)

    for name in values:
        keep(name)
    model(x)
    return found


@torch.no_grad()
def with_statistics(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with new running statistics of its norms, in which training would go on.

    They are means over batches in training, of noise with a fixed seed, so that training can go on and the stochastic
    network can be evaluated. An export estimates those of its members anew.

    Raises:
        BlrcError: there are norms, and the checkpoint has no calibration samples.
    """
    if not any("norm" in node.kind for node in checkpoint.nodes):
        return checkpoint
    x, model = _inputs(checkpoint), checkpoint.model()
    before = {name: buffer.clone() for name, buffer in model.named_buffers() if name.endswith("num_batches_tracked")}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for norm in model.modules():
            if isinstance(norm, _NORMS):
                norm.reset_running_stats()
                norm.momentum = None  # the mean over all batches
        for part in torch.split(x, BATCH):
            if len(part) > 1:
                model.train()(part)
    for name, count in before.items():
        model.get_buffer(name).copy_(count)
    state = {name: buffer.numpy() for name, buffer in model.named_buffers()}
    return replace(checkpoint, tensors={key: state.get(key, held) for key, held in checkpoint.tensors.items()})


def _inputs(checkpoint: Checkpoint) -> Tensor:
    """Return what the network is trained on, of the first calibration samples."""
    return torch.from_numpy(np.asarray(checkpoint.encoding.real(checkpoint.samples()[:SAMPLES])))
