"""Regression: by how many degrees a handwritten digit leans. Takes half a minute.

python examples/regression/regression.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import blrc
from blrc import datasets
from blrc import nn as bnn

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="regression-"))
torch.manual_seed(0)


def leaning(images: np.ndarray) -> np.ndarray:
    """Return the angle of a digit's main axis to the vertical in degrees, from the moments of its ink."""
    ink = images[:, 0].astype(np.float64)
    rows, columns = np.arange(28)[:, None], np.arange(28)[None]
    total = ink.sum(axis=(1, 2))
    y = rows - (ink * rows).sum(axis=(1, 2))[:, None, None] / total[:, None, None]
    x = columns - (ink * columns).sum(axis=(1, 2))[:, None, None] / total[:, None, None]
    return np.degrees(np.arctan2(-(ink * x * y).sum(axis=(1, 2)), (ink * y * y).sum(axis=(1, 2))))


# MNIST's 10,000 test images, which lie beside this example: some to learn from, others to test with.
images = datasets.mnist(Path(__file__).parents[1] / "mnist" / "data", train=False).images
known, test = images[:4000], images[9000:]
angles = leaning(known)
mean, std = angles.mean(), angles.std()
encoding = blrc.pixels((1, 28, 28), mean=[0.1307], std=[0.3081])
x, y = torch.from_numpy(encoding.real(known)), torch.from_numpy((angles - mean) / std).float()[:, None]

model = nn.Sequential(
    bnn.SteConv2d(1, 16, 5, stride=2, padding=2),
    nn.BatchNorm2d(16),
    bnn.SteSign(),
    bnn.SteConv2d(16, 32, 3, padding=1),
    nn.MaxPool2d(2),
    nn.BatchNorm2d(32),
    bnn.SteSign(),
    nn.Flatten(),
    bnn.SoftmaxLinear(32 * 7 * 7, 1),
)
EPOCHS = 5
adam = torch.optim.Adam(model.parameters(), lr=0.005)
schedule = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, total_iters=EPOCHS * 40)
for epoch in range(EPOCHS):
    for batch in torch.randperm(len(x)).split(100):
        loss = nn.functional.mse_loss(model(x[batch]), y[batch])
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

# The network learnt (angle - mean) / std, so its values are angles with this scale and offset.
outputs = blrc.values(scale=std, offset=mean)
blrc.save(model, path=folder / "slant.pt", input=encoding, calibration=known[:1000], outputs=outputs)
blrc.export(folder / "slant.pt", folder=folder / "out", targets=["c", "onnx"], force=True)

# How far off it is on images that it has not seen, and whether C and ONNX give the same integers.
np.savez(folder / "test.npz", images=test, values=leaning(test))
print(blrc.evaluate(folder / "slant.pt", data=folder / "test.npz", members="map"))
report = blrc.verify(folder / "out", data=folder / "test.npz", random=100)
print(report)
sys.exit(0 if report.equal else 1)
