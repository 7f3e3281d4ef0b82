"""Train the binary network of Larq's introductory tutorial in plain PyTorch, and write it as an ONNX file.

The network is that of https://docs.larq.dev/larq/tutorials/mnist/, layer by layer, with its optimiser, batch size and
number of epochs. Nothing of blrc is in it, apart from the values of the pixels that a device will see. Pooling comes
before the norm, as is usual there. Run it with the folder of MNIST's files:

    python examples/imported/tutorial.py --data DIR -o tutorial.onnx
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import blrc

PIXELS = {"mean": (0.5,), "std": (0.5,)}
"""The tutorial takes pixels from -1 to 1."""


class SignSte(torch.autograd.Function):
    """Sign, whose gradient passes where |x| <= 1 (Larq's ``ste_sign``)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * (x.abs() <= 1)


def sign(x: Tensor) -> Tensor:
    result: Tensor = SignSte.apply(x) if torch.is_grad_enabled() else torch.where(x >= 0, 1.0, -1.0)
    return result


class QuantConv(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, sign(self.weight))


class QuantDense(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, sign(self.weight))


class Tutorial(nn.Module):
    """Three convolutions and two dense layers; the first takes pixels, all others signs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = QuantConv(1, 32, 3, bias=False), QuantConv(32, 64, 3, bias=False)
        self.conv3 = QuantConv(64, 64, 3, bias=False)
        self.norm1, self.norm2, self.norm3 = nn.BatchNorm2d(32), nn.BatchNorm2d(64), nn.BatchNorm2d(64)
        self.dense1, self.dense2 = QuantDense(64 * 9, 64, bias=False), QuantDense(64, 10, bias=False)
        self.norm4, self.norm5 = nn.BatchNorm1d(64), nn.BatchNorm1d(10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(F.max_pool2d(self.conv1(x), 2))
        x = self.norm2(F.max_pool2d(self.conv2(sign(x)), 2))
        x = self.norm3(self.conv3(sign(x)))
        x = self.norm4(self.dense1(torch.flatten(sign(x), 1)))
        x = self.norm5(self.dense2(sign(x)))
        return x


def train(data: Path, epochs: int, seed: int) -> Tutorial:
    torch.manual_seed(seed)
    encoding = blrc.pixels((1, 28, 28), mean=PIXELS["mean"], std=PIXELS["std"])
    images = blrc.datasets.mnist(data, train=True)
    x, y = torch.from_numpy(encoding.real(images.images)), torch.from_numpy(images.labels.astype("int64"))
    model = Tutorial()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(model(x[batch]), y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                for layer in model.modules():
                    if isinstance(layer, QuantConv | QuantDense):
                        layer.weight.clamp_(-1, 1)
            total += float(loss) * len(batch)
        print(f"epoch {epoch + 1} of {epochs}: loss {total / len(x):.4f}", flush=True)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="Folder of MNIST's files.")
    parser.add_argument("-o", "--output", type=Path, default=Path("tutorial.onnx"), help="ONNX file to write.")
    parser.add_argument("--epochs", type=int, default=6, help="Of training; the tutorial takes 6.")
    parser.add_argument("--seed", type=int, default=0, help="Of all randomness.")
    options = parser.parse_args()
    model = train(options.data, options.epochs, options.seed)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this exporter is the older one
        torch.onnx.export(model, (torch.zeros(1, 1, 28, 28),), options.output, dynamo=False, opset_version=17)


if __name__ == "__main__":
    main()
