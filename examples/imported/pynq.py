"""Take the binary networks of BNN-PYNQ, whose weights and thresholds are integers, through blrc's layers.

https://github.com/Xilinx/BNN-PYNQ (BSD-3-Clause) has networks that were trained for FINN's accelerators: LFC, three
dense layers of 1024 (MNIST, NIST's characters), and CNV, six convolutions and three dense layers (CIFAR-10, street
view house numbers, road signs). Their parameters lie in bnn/params, as memories of the accelerator's elements: bits of
weights, and thresholds that a count has to exceed. This script reads them and writes a checkpoint:

    git clone --depth 1 https://github.com/Xilinx/BNN-PYNQ
    python examples/imported/pynq.py BNN-PYNQ/bnn/params/mnist/lfcW1A1 -o lfc.pt
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

import blrc
from blrc import nn as bnn


@dataclass(frozen=True)
class Shape:
    """Describe a layer of the accelerator (bnn/src/network/*/hw/config.h).

    Attributes:
        rows: its outputs; of the last layer there are as many as classes, padded.
        columns: its inputs, padded.
        elements, lanes: output n is computed by element n % elements, from so many inputs at once.
        inputs: its inputs that are no padding.
        kernel: width of the window; 0 for a dense layer.
        pool: whether a 2x2 maximum follows.
        counts: whether its counts are the result; a file of thresholds is left unread then.
    """

    rows: int
    columns: int
    elements: int
    lanes: int
    inputs: int
    kernel: int = 0
    pool: bool = False
    counts: bool = False


LFC = (
    Shape(1024, 832, 32, 64, 784),
    Shape(1024, 1024, 64, 32, 1024),
    Shape(1024, 1024, 32, 64, 1024),
    Shape(64, 1024, 16, 8, 1024),
)
CNV = (
    Shape(64, 27, 16, 3, 27, kernel=3),
    Shape(64, 576, 32, 32, 576, kernel=3, pool=True),
    Shape(128, 576, 16, 32, 576, kernel=3),
    Shape(128, 1152, 16, 32, 1152, kernel=3, pool=True),
    Shape(256, 1152, 4, 32, 1152, kernel=3),
    Shape(256, 2304, 1, 32, 2304, kernel=3),
    Shape(512, 256, 1, 4, 256),
    Shape(512, 512, 1, 8, 512),
    Shape(64, 512, 4, 1, 512, counts=True),
)
CODES, FRACTION = 128, 256
"""The first convolution's inputs count in 1/128, its thresholds in 1/256."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Hold a layer's numbers as the accelerator has them.

    Attributes:
        bits: weights, 0 and 1 ``(outputs, inputs)``; of a convolution in the order row, column, channel.
        thresholds: integers ``(outputs,)`` that have to be exceeded, or None where counts are the result.
    """

    shape: Shape
    bits: NDArray[np.int64]
    thresholds: NDArray[np.int64] | None


def read(folder: Path) -> list[Layer]:
    """Return the layers of a folder of bnn/params, without padding."""
    shapes = LFC if folder.name.startswith("lfc") else CNV
    classes = len((folder / "classes.txt").read_text().splitlines())
    layers = []
    for number, shape in enumerate(shapes):
        outputs = classes if shape is shapes[-1] else shape.rows
        words = np.stack([_words(folder / f"{number}-{e}-weights.bin") for e in range(shape.elements)])
        # (element, row of that element, group of columns, lane), lowest bit first
        words = words.reshape(shape.elements, -1, shape.columns // shape.lanes, 1)
        bits = (words >> np.arange(shape.lanes)) & 1
        bits = bits.swapaxes(0, 1).reshape(-1, shape.columns)[:outputs, : shape.inputs]
        thresholds = None
        if not shape.counts:
            each = np.stack([_words(folder / f"{number}-{e}-thres.bin") for e in range(shape.elements)])
            thresholds = each.T.reshape(-1)[:outputs]
        layers.append(Layer(shape, bits, thresholds))
    return layers


def codes() -> NDArray[np.int8]:
    """Return the 256 codes of pixels that CNV takes: 2 x / 255 - 1 in 1/128, rounded half up, saturated."""
    x = np.arange(256)
    return np.minimum((2 * x * 256 + 255) // 510 - 128, 127).astype(np.int8)


def build(layers: list[Layer]) -> tuple[nn.Module, blrc.InputEncoding]:
    """Return the network in blrc's layers, with the integers as they are, and what its input is."""
    stages = list[nn.Module]()
    dense = not layers[0].shape.kernel
    channels = 3
    for number, layer in enumerate(layers):
        shape, signs = layer.shape, torch.from_numpy(2 * layer.bits - 1).float()
        outputs = len(signs)
        if shape.kernel:
            linear: nn.Module = bnn.SteConv2d(channels, outputs, shape.kernel, bias=False)
            signs = signs.reshape(outputs, shape.kernel, shape.kernel, channels).permute(0, 3, 1, 2)
            channels = outputs
        else:
            if number and layers[number - 1].shape.kernel:
                stages.append(nn.Flatten())
            linear = bnn.SteLinear(shape.inputs, outputs, bias=False)
        linear.weight.data = signs.contiguous()  # type: ignore[assignment]
        stages.append(linear)
        if layer.thresholds is not None:
            stages.append(bnn.Threshold(at_of(number, layer, dense)))
        if shape.pool:
            stages.append(nn.MaxPool2d(2))
    encoding = blrc.pixel_bits((784,), at=128) if dense else blrc.pixel_codes((3, 32, 32), table=codes())
    return nn.Sequential(*stages), encoding


def at_of(number: int, layer: Layer, dense: bool) -> NDArray[np.int64]:
    """Return the thresholds of the sum of +-1 products: a count c > t of equal bits means 2 c - n >= 2 t - n + 1."""
    assert layer.thresholds is not None
    if number == 0 and not dense:  # z / 128 > t / 256, where z is the sum of codes
        return np.asarray(layer.thresholds * CODES // FRACTION + 1)
    return 2 * layer.thresholds - layer.shape.inputs + 1


def accelerator(layers: list[Layer], images: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Compute what the accelerator does, in counts of equal bits: its last layer's values ``(N, classes)``.

    Floats hold these integers exactly, since all sums are below 2^24.

    Args:
        images: pixels ``(N, channels, H, W)``.
    """
    dense = not layers[0].shape.kernel
    pixels = (images.reshape(len(images), -1) >= 128) if dense else codes()[images]
    x = torch.from_numpy(pixels.astype(np.float32))
    for number, layer in enumerate(layers):
        bits, kernel, n = torch.from_numpy(layer.bits).float(), layer.shape.kernel, len(x)
        side = x.shape[-1] - kernel + 1 if kernel else 1
        if kernel:
            bits = bits.reshape(len(bits), kernel, kernel, -1).permute(0, 3, 1, 2).flatten(1)
            x = F.unfold(x, kernel).transpose(1, 2)  # (N, positions, inputs of a window)
        x = x.reshape(-1, layer.shape.inputs)
        if number == 0 and not dense:
            values = x @ (2 * bits - 1).T * (FRACTION // CODES)
        else:  # equal bits: all, less those that are 1 in one of both
            values = layer.shape.inputs - x.sum(1, keepdim=True) - bits.sum(1) + 2 * (x @ bits.T)
        if layer.thresholds is not None:
            values = (values > torch.from_numpy(layer.thresholds)).float()
        x = values.reshape(n, side, side, -1).permute(0, 3, 1, 2)
        x = F.max_pool2d(x, 2) if layer.shape.pool else x
    return x.flatten(1).to(torch.int64).numpy()


def _words(path: Path) -> NDArray[np.int64]:
    return np.fromfile(path, dtype="<i8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="Folder of parameters, bnn/params/DATA/NETWORK.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="Checkpoint to write.")
    options = parser.parse_args()
    model, encoding = build(read(options.folder))
    blrc.save(model, path=options.output, input=encoding, calibration=None)


if __name__ == "__main__":
    main()
