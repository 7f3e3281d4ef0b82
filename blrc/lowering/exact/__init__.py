"""Compute exact integer sums of binary layers by whichever library is there: torch, or NumPy alone.

A layer of the net and its integer inputs come in, its integer pre-activations go out. Both libraries give the same
bits. Imports the net; `by_torch` alone imports torch, and only `blrc.lowering.preactivations` imports `by_torch`.
"""
