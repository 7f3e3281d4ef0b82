"""Classify MNIST's test images with the exported file, in ONNX Runtime alone: nothing here needs blrc.

blrc export examples/mnist/mnist.pt --target onnx -o out/onnx
python examples/onnx_runtime/classify.py out/onnx/mnist.onnx examples/mnist/data
"""

import gzip
import sys
from pathlib import Path

import numpy as np
import onnxruntime

model, data = Path(sys.argv[1]), Path(sys.argv[2])
images = np.frombuffer(gzip.decompress((data / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
truth = np.frombuffer(gzip.decompress((data / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)

session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
outputs = ["label", "mean", "variance", "members"]
label, mean, variance, members = session.run(outputs, {"input": images.reshape(-1, 1, 28, 28)})  # raw pixels, any batch
probability, deviation = mean / 2**16, np.sqrt(variance / 2**32)  # of the label, over the members
print(f"members: {members.mean():.4g}")  # of each image; fewer than all where a gate lets the first answer alone
print(f"first image: {label[0]}, probability {probability[0]:.3f} +- {deviation[0]:.3f}")
print(f"accuracy: {100 * np.mean(label == truth):.2f} %")
# The paper's measure of certainty is the variance; with one member it is 0 everywhere, and the probability serves.
surest = np.argsort(variance if members.max() > 1 else -mean, kind="stable")[: len(label) // 2]
print(f"accuracy on the surer half: {100 * np.mean(label[surest] == truth[surest]):.2f} %")
