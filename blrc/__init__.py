"""Probabilistic binary neural networks, from training to bit-exact ONNX and C."""

__version__ = "0.1.0"
