"""Binary networks in plain PyTorch are read by value: the module in float64 is the oracle of scores, bits, labels."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from foreign_networks import NETWORKS, network
from torch import nn

import blrc
from blrc.app.export import build
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.lowering.lower import score_scale
from blrc.net.encoding import device_layout
from blrc.program import reference

ENCODING = blrc.pixels((1, 6, 6), mean=[0.4], std=[0.3])
SAMPLES = 150
LAST = {"HubaraMlp": "fc4", "XnorNet": "fc", "IRNet": "fc", "ReActChain": "fc"}
"""The real last layers, whose input are bits."""
REAL_LAST = {*LAST, "Functional"}


def taken(model: nn.Module, encoding: blrc.InputEncoding = ENCODING, **options: Any) -> Checkpoint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_model(model, encoding, **options)


def raw(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (SAMPLES, 1, 6, 6)).astype(np.uint8)


def real(x: Any, encoding: blrc.InputEncoding) -> Any:
    """Return what a module is given: codes of rounded pixels where it pads them, else the pixels themselves."""
    return encoding.standardised(x, np.float64) if encoding.exact else encoding.codes(x) / encoding.scale


def original(name: str, seed: int, x: Any, encoding: blrc.InputEncoding) -> tuple[Any, Any]:
    """Return the module's scores in float64 (its own type where its code fixes that), and its last layer's input."""
    model = network(name, seed).eval()
    seen: list[Any] = []
    if name in LAST:
        model.get_submodule(LAST[name]).register_forward_pre_hook(lambda m, args: seen.append(args[0].numpy()))
    dtype = torch.float32 if name == "Functional" else torch.float64
    with torch.no_grad():
        scores = model.to(dtype)(torch.from_numpy(real(x, encoding)).to(dtype))
    return scores.double().numpy(), seen[0] if seen else None


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", NETWORKS)
def test_the_program_computes_what_the_module_does(name: str, seed: int) -> None:
    checkpoint = taken(network(name, seed))
    program, nets = build(checkpoint, [MAP])
    x = raw(seed)
    expected, bits = original(name, seed, x, checkpoint.encoding)
    scale = score_scale(nets)
    found = reference.scores(program, device_layout(x)) * scale
    if name in ("HubaraMlp", "HubaraVgg", "LarqNet"):  # softmax: up to a number that is the same for all classes
        expected = np.log(expected) if name == "LarqNet" else expected
        expected, found = (each - each.mean(1, keepdims=True) for each in (expected, found))
    inputs = checkpoint.tensors[f"{checkpoint.nodes[-1].name}.weight"].shape[1] if name in REAL_LAST else 0
    slack = (inputs + 1.001) * scale / 2 if name in REAL_LAST else 2e-2  # weights become int8
    if name != "LarqNet":  # its probabilities underflow
        assert np.abs(found - expected).max() <= slack
    if bits is not None:
        last = dict(reference.trace(program, device_layout(x), 0))[program.ops[-2].y.name]
        mine = np.where(last, 1.0, -1.0).transpose(0, 3, 1, 2).reshape(len(x), -1)
        turned = (mine == -bits).all(axis=0)  # behind a pool, where a norm's gamma is negative
        assert np.array_equal(np.where(turned, -mine, mine), bits) and (name == "XnorNet" or not turned.all())
    margin = np.sort(expected, axis=1)
    clear = margin[:, -1] - margin[:, -2] > 2 * slack if name != "LarqNet" else np.ones(len(x), dtype=bool)
    assert clear.any() or name == "XnorNet"  # most of whose sums are large
    assert np.array_equal(found.argmax(1)[clear], expected.argmax(1)[clear])


@pytest.mark.nightly
def test_compiled_c_gives_the_labels_of_the_module() -> None:
    checkpoint = taken(network("HubaraVgg"))
    x = raw(5)
    expected, _ = original("HubaraVgg", 0, x, checkpoint.encoding)
    assert np.array_equal(blrc.compile(checkpoint)(device_layout(x)), expected.argmax(1))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_module_stays_as_it_is(name: str) -> None:
    model = network(name)
    before = copy.deepcopy(model.state_dict())
    taken(model)
    assert model.training and not hasattr(next(model.parameters()), "org")
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
