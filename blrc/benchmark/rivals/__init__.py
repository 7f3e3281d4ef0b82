"""Run the same network in other software: torch, ONNX Runtime and Larq Compute Engine; and hold published figures.

This package may import `blrc.benchmark.clock` and `blrc.benchmark.subject`, and what `blrc.benchmark` may import.
"""
