"""A network of your own: define, train, save, export, verify. Takes some seconds on two cores.

python examples/own_network/own_network.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import blrc
from blrc import datasets
from blrc import nn as bnn
from blrc.verification.report import to_text


class Digits(nn.Module):
    """Any module made of blrc.nn layers will do; nothing is registered. A linear layer gives a Gaussian for each output
    (its weights are random), a norm and a pool pass Gaussians on, and a sign samples +-1 from them."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            bnn.BinaryConv2d(1, 16, 5, stride=2, padding=2),
            bnn.StochasticBatchNorm2d(16),
            bnn.StochasticSign(),
            bnn.BinaryConv2d(16, 32, 3, padding="same"),
            bnn.StochasticBatchNorm2d(32),
            bnn.StochasticMaxPool2d(2),
            bnn.StochasticSign(),
        )
        self.classifier = bnn.SoftmaxLinear(32 * 7 * 7, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.features(x), 1))


folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="own_network-"))
torch.manual_seed(0)

# MNIST's 10,000 test images, which lie beside this example, split in two: enough to learn something.
digits = datasets.mnist(Path(__file__).parents[1] / "mnist" / "data", train=False)
train, test = digits[:8000], digits[8000:]

# The device sees raw uint8 pixels. The encoding standardises them, and training sees exactly what the device will see.
encoding = blrc.pixels((1, 28, 28), mean=[0.1307], std=[0.3081])
x, y = torch.from_numpy(encoding.real(train.images)), torch.from_numpy(train.labels.astype(np.int64))

# The logits of the weights' probabilities learn best with a larger rate than everything else.
model = Digits()
logits = [p for weights in bnn.distributions(model) for p in weights.parameters()]
others = [p for p in model.parameters() if all(p is not q for q in logits)]
adam = torch.optim.Adam([{"params": logits, "lr": 0.1}, {"params": others, "lr": 0.01}])
schedule = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, total_iters=3 * 80)
for epoch in range(3):
    for batch in torch.randperm(len(x)).split(100):
        loss = F.cross_entropy(model(x[batch]), y[batch]) + 1e-6 * bnn.variance_regulariser(model)
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

# The calibration samples are raw; norm statistics of the deterministic network are measured on them at export.
blrc.save(model, path=folder / "digits.pt", input=encoding, calibration=train.images[:1000])
blrc.export(folder / "digits.pt", folder=folder / "out", targets=["c", "onnx"], force=True)

# Compile the C, run it and the ONNX file, and compare every layer with the reference, also on the unseen images.
np.savez(folder / "test.npz", images=test.images, labels=test.labels)
report = blrc.verify(folder / "out", data=folder / "test.npz", random=500)
print(to_text(report))
sys.exit(0 if report.equal else 1)
