"""Activations of a few bits: codes of `--bits` bits in place of signs. Weights are binary or ternary. Takes a minute.

python examples/levels/levels.py [FOLDER] [--bits K] [--weights binary|ternary] [--average]
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
parser.add_argument("--bits", type=int, default=2, choices=range(1, 9))
parser.add_argument("--weights", default="binary", choices=["binary", "ternary"])
parser.add_argument("--average", action="store_true", help="Average pooling, of codes of at most 6 bits.")
options = parser.parse_args()
folder = options.folder or Path(tempfile.mkdtemp(prefix="levels-"))
torch.manual_seed(0)


def digits(activation: type[nn.Module] | None) -> nn.Sequential:
    """Return the network with real weights and `activation`, or, for None, with random weights and levels."""
    real = activation is not None
    random = {} if real else {"weight": options.weights}

    def behind(norm: nn.Module, *pool: nn.Module) -> list[nn.Module]:
        levels = bnn.SteLevels(bits=options.bits, step=1.0)  # the steps are chosen below
        return [nn.Identity() if real else bnn.GaussianSample(), norm, *pool, activation() if activation else levels]

    conv, norm = nn.Conv2d if real else bnn.BinaryConv2d, nn.BatchNorm2d(32)
    return nn.Sequential(
        conv(1, 16, 5, stride=2, padding=2, **random),
        *behind(nn.BatchNorm2d(16)),
        conv(16, 32, 3, padding=1, **random),
        *([*behind(norm), nn.AvgPool2d(2)] if options.average else behind(norm, nn.MaxPool2d(2))),
        nn.Flatten(),
        (nn.Linear if real else bnn.SoftmaxLinear)(32 * 7 * 7, 10),
    )


def train(model: nn.Module, epochs: int) -> None:
    """Train with Adam; the logits of the weights' probabilities learn best with a larger rate than everything else."""
    logits = [p for weights in bnn.distributions(model) for p in weights.parameters()]
    others = [p for p in model.parameters() if all(p is not q for q in logits)]
    groups = [{"params": logits, "lr": 0.05}] if logits else []
    adam = torch.optim.Adam([*groups, {"params": others, "lr": 0.005}])
    schedule = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, total_iters=epochs * 80)
    for epoch in range(epochs):
        for batch in torch.randperm(len(x)).split(100):
            loss = F.cross_entropy(model(x[batch]), y[batch])
            adam.zero_grad()
            loss.backward()
            adam.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")


# MNIST's 10,000 test images, which lie beside this example, split in two: enough to learn something.
images = datasets.mnist(Path(__file__).parents[1] / "mnist" / "data", train=False)
known, test = images[:8000], images[8000:]
encoding = blrc.pixels((1, 28, 28), mean=[0.1307], std=[0.3081])
x, y = torch.from_numpy(encoding.real(known.images)), torch.from_numpy(known.labels.astype(np.int64))

# A network with ReLUs comes first: weights start from its weights, and the steps of the codes suit its activations.
source, model = digits(nn.ReLU), digits(None)
train(source, 2)
bnn.transfer_(model, source)
bnn.choose_steps_(model, source.eval(), x[:1000])
train(model, 3)

blrc.save(model, path=folder / "levels.pt", input=encoding, calibration=known.images[:1000])
blrc.export(folder / "levels.pt", folder=folder / "out", targets=["c", "onnx"], force=True)

# Compile the C, run it and the ONNX file, and compare every code of every layer with the reference.
np.savez(folder / "test.npz", images=test.images, labels=test.labels)
report = blrc.verify(folder / "out", data=folder / "test.npz", random=500)
print(to_text(report))
sys.exit(0 if report.equal else 1)
