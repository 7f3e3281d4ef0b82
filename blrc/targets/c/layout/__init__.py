"""Choose a kernel for every op, and lay out maps and row strips in memory.

A program comes in, and a `Layout` goes out: steps, tables, and offsets in the arena. May import:
`blrc.targets.c.kernels`, `blrc.program` and `blrc.net`.
"""
