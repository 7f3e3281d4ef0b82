"""Classify MNIST's test images with the exported file, in ONNX Runtime alone: nothing here needs blrc.

blrc export examples/mnist/mnist.pt --target onnx -o out
python examples/onnx_runtime/classify.py out/mnist.onnx examples/mnist/data
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
label, scores = session.run(["label", "scores"], {"input": images.reshape(-1, 1, 28, 28)})  # raw pixels, any batch
scale = float(session.get_modelmeta().custom_metadata_map["blrc.score_scale"])
print(f"first image: {label[0]}, scores {np.round(scores[0] * scale, 2)}")
print(f"accuracy: {100 * np.mean(label == truth):.2f} %")
