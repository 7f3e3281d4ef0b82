"""Convert a stochastic network to a deterministic one, and initialise one from a full-precision network.

This package may import `blrc.nn.layers` and what that may import.
"""
