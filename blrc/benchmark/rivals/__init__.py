"""Run what else could compute the same network: torch, ONNX Runtime, Larq Compute Engine, and published figures.

May import: `blrc.benchmark.clock` and `blrc.benchmark.subject`, and rooms below `blrc.benchmark`.
"""
