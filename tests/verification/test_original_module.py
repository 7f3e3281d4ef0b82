"""Exports are compared with the torch module that was saved, whose own forward runs in float32."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from averaged_networks import averaged_network, randomised
from by_night import first
from foreign_networks import NETWORKS, network
from random_networks import encoding_of
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.net.encoding import InputEncoding
from blrc.program.program import Constant, Program
from blrc.verification.inputs.stimuli import adversarial_inputs, random_inputs
from blrc.verification.original.compare import compare_original
from blrc.verification.original.module import open_module
from blrc.verification.original.report import Against

PIXELS = blrc.pixels((1, 6, 6), mean=[0.4], std=[0.3])
FEATURES, HIDDEN, CLASSES = 9, 6, 3
BITS = blrc.bits((FEATURES,))


def checkpoint_of(model: nn.Module, encoding: InputEncoding) -> Checkpoint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_model(model, encoding)


def program_of(model: nn.Module, encoding: InputEncoding) -> Program:
    return build(checkpoint_of(model, encoding), [MAP])[0]


def compared(model: nn.Module, program: Program, encoding: InputEncoding = BITS, count: int = 60) -> Against:
    original = open_module(model, encoding, "given", "exact")
    raw = np.concatenate([adversarial_inputs(program.input), random_inputs(program.input, count, 0)])
    return compare_original(program, original, [(raw, None)], lambda what, done, total: None)


def with_table(program: Program, name: str, table: Any) -> Program:
    return replace(program, constants={**program.constants, name: Constant((table,), (0,))})


def sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, 1.0, -1.0).to(x)


class Dense(nn.Module):
    """A dense layer, a factor, a shift, a norm of which some factors are negative, a sign, scores."""

    def __init__(self, factor: float = 1.0, shift: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc1, self.fc2 = nn.Linear(FEATURES, HIDDEN, bias=False), nn.Linear(HIDDEN, CLASSES)
        self.norm, self.factor, self.shift = nn.BatchNorm1d(HIDDEN), factor, shift
        self.norm.weight.data = torch.tensor([1.0, 1, -1, 2, 0.5, 1])
        self.norm.running_mean = torch.full((HIDDEN,), 0.3 if shift == 0 else 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.linear(x, sign(self.fc1.weight)) * self.factor + self.shift
        return self.fc2(self.decided(self.norm(x)))  # type: ignore[no-any-return]

    def decided(self, x: torch.Tensor) -> torch.Tensor:
        return sign(x)


@pytest.mark.parametrize("name", first(4, list(NETWORKS)))
def test_a_network_is_its_module(name: str) -> None:
    model = network(name)
    before = copy.deepcopy(model.state_dict())
    checkpoint = checkpoint_of(model, PIXELS)
    found = compared(model, build(checkpoint, [MAP])[0], checkpoint.encoding)
    assert found.same_program and not found.problems and found.original == name
    assert all(layer.bits and not layer.differ for layer in found.layers.values()) and len(found.layers) >= 2
    assert found.decisions > 1000 and not found.channels
    assert 0 < found.farthest <= found.bound
    assert model.training and all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_saved_module_is_verified_from_end_to_end(tmp_path: Path) -> None:
    model = Dense()
    example = torch.ones(2, FEATURES)
    blrc.save(model, path=tmp_path / "net.pt", input=BITS, example=example)
    done = blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="onnx")
    report = blrc.verify(done.folder, original=nn.DataParallel(model), model=tmp_path / "net.pt", random=100)
    assert report.equal and report.original is not None
    assert report.original.labels == report.original.same_labels >= 100
    assert "original Dense: reading it gives the same program" in str(report)


def test_a_changed_threshold_is_named_with_layer_and_channel() -> None:
    model = Dense()
    program = program_of(model, BITS)
    name = f"{program.ops[0].name}.thresholds"
    table = program.constant(name).copy()
    table[4] += 2
    found = compared(model, with_table(program, name, table))
    assert not found.same_program
    assert any(", channel 4: at z = " in problem for problem in found.problems)
    wrong = [channel for channel in found.channels if not channel.explained]
    assert [(each.channel, each.exported - each.exact) for each in wrong] == [(4, 2)]
    assert any("bits are not the original's" in problem for problem in found.problems)


def test_another_weight_is_found() -> None:
    program = program_of(Dense(), BITS)
    other = Dense()
    other.fc1.weight.data[2, 3] *= -1
    found = compared(other, program)
    assert any("weights is not what the original gives, first in channel 2 (1 of 6)" in p for p in found.problems)
    assert found.layers[program.ops[0].name].differ > 0


class Fickle(Dense):
    """Decides otherwise than it was read: what the comparison runs has to be this code, and no graph of it."""

    calls = 0

    def decided(self, x: torch.Tensor) -> torch.Tensor:
        Fickle.calls += 1
        return sign(x) if Fickle.calls <= self.reads else sign(x - 1)

    reads = 10**9


def test_the_oracle_is_the_modules_own_forward() -> None:
    model = Fickle()
    program = program_of(model, BITS)
    original = open_module(model, BITS, "given", "exact")
    Fickle.reads = Fickle.calls  # the comparison runs other steps than the reader saw
    raw = random_inputs(program.input, 40, 0)
    with pytest.raises(BlrcError, match="forward takes other steps"):
        compare_original(program, original, [(raw, None)], lambda what, done, total: None)


class Late(Dense):
    """The same steps with another number from some call on."""

    calls, reads = 0, 10**9

    def decided(self, x: torch.Tensor) -> torch.Tensor:
        Late.calls += 1
        return sign(x - (0.0 if Late.calls <= Late.reads else 1.0))


def test_bits_that_the_modules_own_forward_decides_otherwise_are_found() -> None:
    model = Late()
    program = program_of(model, BITS)
    original = open_module(model, BITS, "given", "exact")
    Late.reads = Late.calls
    raw = random_inputs(program.input, 40, 0)
    found = compare_original(program, original, [(raw, None)], lambda what, done, total: None)
    assert found.same_program
    assert any("channel 0: at z = " in problem for problem in found.problems)
    assert any("bits are not the original's" in problem for problem in found.problems)


# 3 x float32(0.1) is 1.5e-8 less than float32(0.3), but float32 rounds it to that, so that the difference is 0.
TIE = {"factor": 0.1, "shift": -0.3}


def test_where_float32_and_rationals_differ_the_channels_are_listed_and_explained(tmp_path: Path) -> None:
    model = Dense(**TIE)
    blrc.save(model, path=tmp_path / "net.pt", input=BITS)
    for rounding, differ in (("exact", True), ("float32", False)):
        done = blrc.export(tmp_path / "net.pt", folder=tmp_path / rounding, targets="onnx", rounding=rounding)
        report = blrc.verify(done.folder, original=model, random=200)
        assert report.equal, report
        found = report.original
        assert found is not None and found.same_program
        assert {each.z for each in found.channels} == {3} and all(each.explained for each in found.channels)
        (layer,) = found.layers.values()
        assert (layer.differ == layer.by_chain > 0) == differ


class Counting(nn.Module):
    """Looks at the number of samples before its layers, and flattens a map before the sign."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.fc = nn.Conv2d(1, 4, 3, bias=False), nn.Linear(64, CLASSES)
        self.conv.weight.data.sign_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        samples = x.shape[0]
        x = self.conv(x)
        return self.fc(sign((x - 0.5).view(samples, -1)))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "encoding",
    [
        blrc.pixel_bits((1, 6, 6), at=100),
        blrc.pixel_codes((1, 6, 6), table=np.arange(256) // 4 - 30, scale=10.0),
        blrc.int8_codes((1, 6, 6), scale=20.0),
        PIXELS,
    ],
    ids=["pixel_bits", "pixel_codes", "int8", "pixels"],
)
@pytest.mark.filterwarnings("ignore:.*pixels are rounded to int8 codes:UserWarning")
def test_every_kind_of_input(encoding: InputEncoding, tmp_path: Path) -> None:
    model = Counting()
    blrc.save(model, path=tmp_path / "net.pt", input=encoding)
    done = blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="onnx")
    report = blrc.verify(done.folder, original=model, random=50)
    assert report.equal and report.original is not None and report.original.same_program, report
    assert report.original.decisions > 0 and list(report.original.layers) == ["conv"]


def binarized() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(
        bnn.SteLinear(FEATURES, HIDDEN), nn.BatchNorm1d(HIDDEN), bnn.SteSign(), bnn.SoftmaxLinear(HIDDEN, CLASSES)
    )
    model[1].running_mean.fill_(0.7)
    model[1].running_var.fill_(5.0)
    return model.eval()


def samples() -> Any:
    return np.random.default_rng(0).integers(0, 2, (64, FEATURES), dtype=np.uint8)


def test_a_binarized_network_of_ours_is_compared_as_well(tmp_path: Path) -> None:
    model = binarized()
    blrc.save(model, path=tmp_path / "net.pt", input=BITS, calibration=samples())
    done = blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="onnx")
    report = blrc.verify(done.folder, original=model, random=50)
    assert report.equal and report.original is not None and report.original.same_program, report
    done = blrc.export(tmp_path / "net.pt", folder=tmp_path / "estimated", targets="onnx", norms="estimated")
    with pytest.raises(BlrcError, match=r"norms were estimated anew.*--norms given"):
        blrc.verify(done.folder, original=model, random=50)


def test_random_weights_have_no_original(tmp_path: Path) -> None:
    model = nn.Sequential(bnn.BinaryLinear(FEATURES, HIDDEN), bnn.StochasticSign(), bnn.SoftmaxLinear(HIDDEN, CLASSES))
    blrc.save(model, path=tmp_path / "net.pt", input=BITS)
    done = blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="onnx", norms="given")
    with pytest.raises(BlrcError, match="weights are random"):
        blrc.verify(done.folder, original=model, random=50)


def test_files_of_torch_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blrc.save(Dense(), path=tmp_path / "net.pt", input=BITS)
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="onnx")
    with pytest.raises(SystemExit) as end:
        main(["verify", str(tmp_path / "out"), "--original", str(tmp_path / "net.pt")])
    said = capsys.readouterr().err
    assert end.value.code == 2 and "give a checkpoint as --checkpoint, and a module from Python" in said
    with pytest.raises(BlrcError, match="original: a OrderedDict, where text, a path, a module or None is expected"):
        blrc.verify(tmp_path / "out", original=Dense().state_dict())  # type: ignore[arg-type]


class Averages(nn.Module):
    """Average bits 0 and 1, around which zeros lie, take the largest, and take a mean before the scores."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 3, bias=False), nn.Conv2d(6, 9, 2, bias=False)
        self.norm1, self.norm2, self.fc = nn.BatchNorm2d(6), nn.BatchNorm2d(9), nn.Linear(9, 3)
        self.norm1.weight.data, self.norm2.weight.data = torch.randn(6), torch.randn(9)
        self.norm2.running_mean = torch.randn(9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (sign(self.norm1(F.conv2d(x, sign(self.conv1.weight)))) + 1) / 2
        x = F.max_pool2d(F.avg_pool2d(x, 3, 2, padding=1), 2, 1)
        return self.fc(sign(self.norm2(F.conv2d(x, sign(self.conv2.weight)))).mean((2, 3)))  # type: ignore[no-any-return]


def test_averages_are_compared_by_what_is_decided_behind_them() -> None:
    """Compare counts, codes and scores of averages; a threshold that was changed is found in its channel."""
    model, encoding = Averages().eval(), blrc.bits((1, 11, 11))
    program = program_of(model, encoding)
    found = compared(model, program, encoding)
    assert found.same_program and not found.problems and not found.channels
    assert list(found.layers) == ["conv", "conv_2"] and all(layer.bits for layer in found.layers.values())
    assert found.farthest <= 1.001 * found.bound < 0.2
    table = program.constant("conv_2.thresholds").copy()
    table[4] += 2
    found = compared(model, with_table(program, "conv_2.thresholds", table), encoding)
    assert [(each.channel, each.exported - each.exact) for each in found.channels] == [(4, 2)]
    assert any("layer 'conv_2': " in each and "bits are not the original's" in each for each in found.problems)


@pytest.mark.parametrize("seed", first(1, range(0, 16, 2)))
def test_a_network_of_averages_is_its_original(seed: int) -> None:
    model, kind, shape = averaged_network(seed)
    encoding = encoding_of(kind, shape)
    model = randomised(model, seed).float().eval()
    found = compared(model, program_of(model, encoding), encoding)
    assert found.same_program and not found.problems
    assert found.decisions > 10_000 and found.farthest <= 1.001 * found.bound
