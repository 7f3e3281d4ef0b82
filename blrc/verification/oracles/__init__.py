"""Judge results independently: agreement with torch, a second lowering, and early stopping.

May import: `blrc.lowering`, `blrc.program`, `blrc.net`, and `blrc.verification.compare`.
"""
