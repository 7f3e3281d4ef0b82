"""Networks over time: (C, L) inputs, convolutions, pools and norms of one dimension, down to C and ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from random_networks import randomise
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.net.encoding import InputEncoding, bits, device_layout, int8_codes, pixel_bits, pixels, torch_layout
from blrc.program import reference
from blrc.verification.oracles.agreement import torch_agreement
from blrc.verification.oracles.lowered import first_other_bits

LENGTH = 23


def stochastic(channels: int) -> nn.Sequential:
    return nn.Sequential(
        bnn.BinaryConv1d(channels, 6, 5, padding="same", bias=True), bnn.StochasticBatchNorm1d(6),
        bnn.StochasticMaxPool1d(2), bnn.StochasticSign(),
        bnn.BinaryConv1d(6, 33, 3, stride=2, dilation=2, padding=1, groups=3), bnn.StochasticBatchNorm1d(33),
        bnn.StochasticSign(), nn.Identity(),
        nn.Flatten(), bnn.BinaryLinear(33 * 5, 8), bnn.StochasticBatchNorm1d(8), bnn.StochasticSign(),
        bnn.SoftmaxLinear(8, 4),
    )  # fmt: skip


def binarized(channels: int) -> nn.Sequential:
    return nn.Sequential(
        bnn.SteConv1d(channels, 6, 4, stride=2), nn.MaxPool1d(2), nn.BatchNorm1d(6), bnn.SteSign(),
        bnn.SteConv1d(6, 10, 3), nn.BatchNorm1d(10), bnn.SteSign(), nn.MaxPool1d(2), nn.Flatten(),
        bnn.SteLinear(10, 4), nn.BatchNorm1d(4),
    )  # fmt: skip


def encodings(channels: int) -> list[InputEncoding]:
    shape = (channels, LENGTH)
    return [
        int8_codes(shape, scale=30.0),
        bits(shape),
        pixel_bits(shape, at=list(range(100, 100 + channels))),
        pixels(shape, mean=[0.4] * channels, std=[0.3] * channels),
    ]


def drawn(encoding: InputEncoding, count: int) -> np.ndarray:  # type: ignore[type-arg]
    low, high = {"uint8": (0, 256), "int8": (-128, 128), "bits": (0, 2)}[encoding.kind]
    return np.random.default_rng(5).integers(low, high, (count, *encoding.shape)).astype(encoding.dtype)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("make", [stochastic, binarized])
def test_the_program_decides_as_torch_does(make: object, place: int) -> None:
    channels = 3
    model = randomise(make(channels), place, ties=False)  # type: ignore[operator]
    encoding = encodings(channels)[place]
    raw = drawn(encoding, 30)
    source = from_model(model, encoding, raw, check_samples=4)
    program, (net,) = build(source, [MAP])
    assert program.input.shape == (1, LENGTH, channels)
    device = device_layout(raw)
    assert np.array_equal(torch_layout(device, encoding.shape), raw)
    scores = reference.scores(program, device.astype(bool) if encoding.kind == "bits" else device)
    assert first_other_bits(program, net, raw) is None
    found = torch_agreement(net, raw, scores.argmax(1))
    assert found.differences == 0 and found.decisions > 1000
    if make is binarized:
        with torch.no_grad():
            want = model.eval().double()(torch.from_numpy(encoding.codes(raw).astype(np.float64) / encoding.scale))
        assert (want.numpy().argmax(1) == scores.argmax(1)).mean() > 0.9


@pytest.mark.nightly
def test_everything_that_an_export_gives_is_equal(tmp_path: Path) -> None:
    encoding = encodings(3)[0]
    raw = drawn(encoding, 20)
    blrc.save(randomise(stochastic(3), 1), path=tmp_path / "net.pt", input=encoding, calibration=raw)
    assert blrc.load(tmp_path / "net.pt").encoding == encoding
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", members=2)
    report = blrc.verify(tmp_path / "out", model=tmp_path / "net.pt", random=50)
    assert report.verdict == "yes"
    with blrc.compile(tmp_path / "out") as net:
        labels = net(device_layout(raw))
        assert np.array_equal(net(raw, order="NCHW"), labels)
        assert np.array_equal(net(raw.transpose(0, 2, 1)), labels)


def test_options_of_one_dimension_are_checked_by_name() -> None:
    with pytest.raises(BlrcError, match="BinaryConv1d: kernel_size"):
        bnn.BinaryConv1d(1, 1, 0)
    with pytest.raises(BlrcError, match="SteConv1d: stride"):
        bnn.SteConv1d(1, 1, 3, stride=0)
    with pytest.raises(BlrcError, match=r"BinaryConv1d takes \(N, 2, L\), got \(1, 2, 3, 4\)"):
        bnn.BinaryConv1d(2, 1, 3)(torch.ones(1, 2, 3, 4))
    with pytest.raises(BlrcError, match="StochasticMaxPool1d: padding"):
        bnn.StochasticMaxPool1d(2, padding=2)
    with pytest.raises(BlrcError, match="input shape"):
        bits((2, 3, 4, 5))


def test_a_transfer_and_a_fixed_copy_take_one_dimension() -> None:
    target = stochastic(3)
    source = nn.Sequential(
        nn.Conv1d(3, 6, 5, padding="same"), nn.BatchNorm1d(6), nn.MaxPool1d(2), nn.Tanh(),
        nn.Conv1d(6, 33, 3, stride=2, dilation=2, padding=1, groups=3), nn.BatchNorm1d(33), nn.Tanh(), nn.Identity(),
        nn.Flatten(), nn.Linear(165, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4),
    )  # fmt: skip
    bnn.transfer_(target, source)
    fixed = bnn.deterministic(target)
    assert type(fixed[0]) is nn.Conv1d and type(fixed[2]) is nn.MaxPool1d  # type: ignore[index]
    assert bool((fixed[0].weight == source[0].weight.sign()).all())  # type: ignore[index, union-attr]
