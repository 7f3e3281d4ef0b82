"""Convert networks: a deterministic twin of a stochastic one, and weights from a full-precision one.

May import: `blrc.nn.layers` and what it may import.
"""
