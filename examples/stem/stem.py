"""An 8-bit front before ternary dense layers: few multiply-adds for the accuracy. Takes a minute.

python examples/stem/stem.py [FOLDER]
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import blrc
from blrc import datasets
from blrc import nn as bnn
from blrc.verification.report import to_text

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", nargs="?", type=Path)
options = parser.parse_args()
folder = options.folder or Path(tempfile.mkdtemp(prefix="stem-"))
torch.manual_seed(0)


def separable(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    """Return a depthwise and a pointwise layer with weights of 8 bits, and codes of 8 bits behind each."""
    return [
        bnn.Int8Conv2d(inputs, inputs, 3, stride=stride, padding=1, groups=inputs),
        nn.BatchNorm2d(inputs),
        bnn.SteLevels(bits=8, step=1 / 64),
        bnn.Int8Conv2d(inputs, outputs, 1),
        nn.BatchNorm2d(outputs),
        bnn.SteLevels(bits=8, step=1 / 64),
    ]


# Weights of 8 bits read pixels and codes; random ternary weights stand where most of the weights are.
model = nn.Sequential(
    bnn.Int8Conv2d(1, 8, 3, stride=2, padding=1),
    nn.BatchNorm2d(8),
    bnn.SteLevels(bits=8, step=1 / 64),
    *separable(8, 16, stride=1),
    *separable(16, 32, stride=2),
    nn.Flatten(),
    bnn.BinaryLinear(32 * 7 * 7, 64, weight="ternary"),
    bnn.StochasticBatchNorm1d(64),
    bnn.StochasticSign(),
    bnn.SoftmaxLinear(64, 10),
)

# MNIST's 10,000 test images, which lie beside this example, split in two: enough to learn something.
images = datasets.mnist(Path(__file__).parents[1] / "mnist" / "data", train=False)
known, test = images[:8000], images[8000:]
encoding = blrc.pixels((1, 28, 28), mean=[0.1307], std=[0.3081])
x, y = torch.from_numpy(encoding.real(known.images)), torch.from_numpy(known.labels.astype(np.int64))

# Logits of the random weights learn best with a larger rate than everything else.
logits = [p for weights in bnn.distributions(model) for p in weights.parameters()]
others = [p for p in model.parameters() if all(p is not q for q in logits)]
adam = torch.optim.Adam([{"params": logits, "lr": 0.05}, {"params": others, "lr": 0.005}])
schedule = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, total_iters=4 * 80)
for epoch in range(4):
    for batch in torch.randperm(len(x)).split(100):
        loss = F.cross_entropy(model(x[batch]), y[batch])
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

blrc.save(model, path=folder / "stem.pt", input=encoding, calibration=known.images[:1000])
blrc.export(folder / "stem.pt", folder=folder / "out", targets=["c", "onnx"], force=True)
print(blrc.inspect(folder / "stem.pt"))

# Compile the C, run it and the ONNX file, and compare every code of every layer with the reference.
np.savez(folder / "test.npz", images=test.images, labels=test.labels)
report = blrc.verify(folder / "out", data=folder / "test.npz", random=500)
print(to_text(report))
sys.exit(0 if report.equal else 1)
