"""Networks over time in plain PyTorch: (C, L) inputs, convolutions, norms and pools of one dimension, read by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import blrc
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.lowering.lower import score_scale
from blrc.net.encoding import InputEncoding, device_layout
from blrc.program import reference

CHANNELS, LENGTH = 3, 26


def sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, 1.0, -1.0).to(x)


class Conv(nn.Conv1d):
    """A scale for each output channel, as in XNOR-Net without K."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = sign(self.weight) * self.weight.abs().mean((1, 2), keepdim=True)
        return F.conv1d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)  # type: ignore[arg-type]


class Line(nn.Module):
    """Pool before the norm and after the sign, stride, dilation, groups, a window over all of the line."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.pool1, self.norm1 = Conv(CHANNELS, 8, 5, padding=2, bias=True), nn.MaxPool1d(2), norm(8)
        self.conv2, self.norm2 = Conv(8, 12, 3, stride=2, dilation=2, groups=4, bias=False), norm(12)
        self.fc = nn.Linear(12 * 3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = sign(F.hardtanh(self.norm1(self.pool1(self.conv1(x)))))
        x = F.max_pool1d(sign(self.norm2(self.conv2(x))), 3, stride=2, padding=1)
        return self.fc(x.flatten(1))  # type: ignore[no-any-return]


class Global(nn.Module):
    """The largest value of a line at the end, behind a norm whose factors are negative, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.pool = Conv(CHANNELS, 9, 4, bias=False), norm(9), nn.AdaptiveMaxPool1d(1)
        self.fc = nn.Linear(9, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(sign(self.pool(self.norm(self.conv(x)))).squeeze(-1))  # type: ignore[no-any-return]


class Padding(nn.Module):
    """Numbers on one side, put around lines that torch's pools then see as maps of one row, and none at all."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = Conv(CHANNELS, 8, 3, stride=2, bias=True), norm(8), nn.Linear(8 * 4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.pad(self.norm(self.conv(F.pad(F.pad(x, (0, 0)), (0, 5)))), (2, 0), value=-torch.inf)
        x = F.pad(sign(F.max_pool1d(x, 3, 2)), (1, 0), value=-1.0)
        return self.fc(F.max_pool1d(F.pad(x, (0, 0)), 2, 2).flatten(1))  # type: ignore[no-any-return]


def norm(channels: int) -> nn.BatchNorm1d:
    made = nn.BatchNorm1d(channels)
    made.running_mean, made.running_var = torch.randn(channels), torch.rand(channels) * 4 + 0.5
    made.weight.data, made.bias.data = torch.randn(channels), 0.3 * torch.randn(channels)
    return made


def made(kind: type[nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return kind().eval()


ENCODINGS = {
    "int8": blrc.int8_codes((CHANNELS, LENGTH), scale=30.0),
    "bits": blrc.bits((CHANNELS, LENGTH)),
    "pixels": blrc.pixels((CHANNELS, LENGTH), mean=[0.4] * CHANNELS, std=[0.3] * CHANNELS),
}


def raw(encoding: InputEncoding, count: int) -> Any:
    low, high = {"uint8": (0, 256), "int8": (-128, 128), "bits": (0, 2)}[encoding.kind]
    return np.random.default_rng(5).integers(low, high, (count, *encoding.shape)).astype(encoding.dtype)


@pytest.mark.parametrize("kind", [Line, Global, Padding])
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.filterwarnings("ignore:.*pixels are rounded to int8 codes:UserWarning")
def test_the_program_computes_what_the_module_does(kind: type[nn.Module], name: str) -> None:
    encoding, model = ENCODINGS[name], made(kind)
    checkpoint = from_model(model, encoding, example=torch.randn(5, CHANNELS, LENGTH))
    assert not {"ste_conv2d", "plain_pool2d"} & {node.kind for node in checkpoint.nodes}
    program, nets = build(checkpoint, [MAP])
    x = raw(encoding, 80)
    seen: list[Any] = []
    model.get_submodule("fc").register_forward_pre_hook(lambda m, args: seen.append(args[0].numpy()))
    real = encoding.codes(x) / encoding.scale
    if checkpoint.encoding.exact:
        real = checkpoint.encoding.standardised(x, np.float64)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(real)).numpy()
    device = device_layout(x).astype(bool) if encoding.kind == "bits" else device_layout(x)
    scale, inputs = score_scale(nets), seen[0].shape[1]
    assert np.abs(reference.scores(program, device) * scale - expected).max() <= (inputs + 1.001) * scale / 2
    last = dict(reference.trace(program, device, 0))[program.ops[-2].y.name]
    mine = np.where(last, 1.0, -1.0).transpose(0, 3, 1, 2).reshape(len(x), -1)
    turned = (mine == -seen[0]).all(axis=0)  # behind a pool, where a norm's gamma is negative
    assert np.array_equal(np.where(turned, -mine, mine), seen[0]) and not turned.all()


def test_layers_keep_the_names_of_their_modules() -> None:
    names = [node.name for node in from_model(made(Line), ENCODINGS["bits"]).nodes]
    assert {"conv1", "pool1", "norm1", "conv2", "norm2", "fc"} <= set(names)


def test_a_network_over_time_is_exported_and_verified_against_its_module(tmp_path: Path) -> None:
    model = made(Line)
    blrc.save(model, path=tmp_path / "net.pt", input=ENCODINGS["int8"], example=torch.randn(2, CHANNELS, LENGTH))
    done = blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="onnx")
    report = blrc.verify(done.folder, original=model, model=tmp_path / "net.pt", random=60)
    assert report.equal, report
    assert report.original is not None and list(report.original.layers) == ["conv1", "conv2"]


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(CHANNELS, 4, (1, LENGTH)), nn.Linear(4, 3)
        self.conv.weight.data.sign_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(sign(self.conv(x.unsqueeze(2))).flatten(1))  # type: ignore[no-any-return]


def test_a_line_as_a_map_of_one_row_is_refused_with_advice() -> None:
    said = r"layer 'conv' \(Conv2d\): reads \(3, 26\) as a map of one row; .* \(3, 1, 26\)"
    with pytest.raises(BlrcError, match=said):
        from_model(Wide(), ENCODINGS["bits"])
