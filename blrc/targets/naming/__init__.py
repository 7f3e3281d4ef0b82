"""Name things in C: which names a model may have, and what its ops and values are called.

May import: `blrc.errors`.
"""
