"""Compute stochastic layers faster in training by fusing norm, pool and sign.

This package may import `blrc.nn.layers` and what that may import.
"""
