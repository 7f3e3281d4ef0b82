"""Compute the same layers faster: fused norm, pool and sign for training.

May import: `blrc.nn.layers` and what it may import.
"""
