"""Exact integer sums of binary layers, by whichever library is there: torch, or NumPy alone. Both give the same bits.

In: a layer of the net and its integer inputs. Out: its integer pre-activations. Imports the net; `by_torch` alone
imports torch, and is imported by nothing but `blrc.lowering.preactivations`.
"""
