"""Train the network of Larq's introductory tutorial with Larq itself, and write it as an ONNX file with tf2onnx.

The network is that of https://docs.larq.dev/larq/tutorials/mnist/, with its optimiser, batch size and number of epochs.
`--network strided` is another one: it takes pixels as they are, and its convolutions have stride 2 and TensorFlow's
padding "same", which pads the right and the bottom alone.

Larq works with TensorFlow 2.15 at the latest, on Python 3.10 or 3.11, in an environment of its own:

    make larq    # python -m venv .venv-larq, then pip install -r constraints-larq.txt
    .venv-larq/bin/python examples/imported/larq_tutorial.py --data DIR -o larq_tutorial.onnx

DIR is the folder of MNIST's files. The small network of the tests, `tests/importing/larq_strided.onnx`, was written
with `--network strided --width 4 --epochs 1`.
"""

from __future__ import annotations

import argparse
import gzip
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import larq as lq
import numpy as np
import tensorflow as tf
import tf2onnx

layers = tf.keras.layers
HEADS = {"images": 16, "labels": 8}
"""Bytes before the values in MNIST's files."""
BINARY = {"input_quantizer": "ste_sign", "kernel_quantizer": "ste_sign", "kernel_constraint": "weight_clip"}
FIRST = {"kernel_quantizer": "ste_sign", "kernel_constraint": "weight_clip"}
"""The first layer's input is not binarised."""


def tutorial() -> Any:
    """The tutorial's network, which takes pixels from -1 to 1."""
    return tf.keras.Sequential(
        [
            lq.layers.QuantConv2D(32, (3, 3), use_bias=False, input_shape=(28, 28, 1), **FIRST),
            layers.MaxPooling2D((2, 2)),
            layers.BatchNormalization(scale=False),
            lq.layers.QuantConv2D(64, (3, 3), use_bias=False, **BINARY),
            layers.MaxPooling2D((2, 2)),
            layers.BatchNormalization(scale=False),
            lq.layers.QuantConv2D(64, (3, 3), use_bias=False, **BINARY),
            layers.BatchNormalization(scale=False),
            layers.Flatten(),
            lq.layers.QuantDense(64, use_bias=False, **BINARY),
            layers.BatchNormalization(scale=False),
            lq.layers.QuantDense(10, use_bias=False, **BINARY),
            layers.BatchNormalization(scale=False),
            layers.Activation("softmax"),
        ]
    )


def strided(width: int) -> Any:
    """A network with strides and padding, which takes pixels from 0 to 255.

    Padding is 0 for the first layer, too. That is a pixel of 128, since pixels become x / 128 - 1.
    """
    return tf.keras.Sequential(
        [
            layers.Rescaling(1 / 128, offset=-1, input_shape=(28, 28, 1), dtype=tf.float32),
            lq.layers.QuantConv2D(width, 3, strides=2, padding="same", use_bias=False, **FIRST),
            layers.BatchNormalization(),
            lq.layers.QuantConv2D(2 * width, 3, strides=2, padding="same", use_bias=False, **BINARY),
            layers.MaxPooling2D(2, padding="same"),
            layers.BatchNormalization(),
            layers.Flatten(),
            lq.layers.QuantDense(2 * width, use_bias=False, **BINARY),
            layers.BatchNormalization(),
            lq.layers.QuantDense(10, use_bias=False, **BINARY),
            layers.BatchNormalization(),
            layers.Activation("softmax"),
        ]
    )


def mnist(folder: Path, what: str) -> Any:
    """Images (N, 28, 28, 1) or labels of MNIST's training set, from its file, compressed or not."""
    name = f"train-{what}-idx{3 if what == 'images' else 1}-ubyte"
    packed = folder / f"{name}.gz"
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()
    values = np.frombuffer(content, np.uint8, offset=HEADS[what])
    return values.reshape(-1, 28, 28, 1) if what == "images" else values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="Folder of MNIST's files.")
    parser.add_argument("-o", "--output", type=Path, default=Path("larq_tutorial.onnx"), help="ONNX file to write.")
    parser.add_argument("--network", choices=["tutorial", "strided"], default="tutorial", help="Network to train.")
    parser.add_argument("--width", type=int, default=32, help="Channels of the strided network's first layer.")
    parser.add_argument("--epochs", type=int, default=6, help="Of training; the tutorial takes 6.")
    parser.add_argument("--seed", type=int, default=0, help="Of all randomness.")
    options = parser.parse_args()
    tf.keras.utils.set_random_seed(options.seed)
    images, labels = mnist(options.data, "images"), mnist(options.data, "labels")
    if options.network == "tutorial":
        model, images, kind = tutorial(), (images / 127.5 - 1).astype(np.float32), tf.float32
    else:
        model, kind = strided(options.width), tf.uint8
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(images, labels, batch_size=64, epochs=options.epochs, verbose=2)
    signature = [tf.TensorSpec((None, 28, 28, 1), kind, name="image")]
    tf2onnx.convert.from_keras(model, signature, opset=17, output_path=str(options.output))


if __name__ == "__main__":
    main()
