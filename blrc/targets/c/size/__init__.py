"""Know what an export takes in flash, RAM and stack before anything is compiled, and choose what fits.

A layout comes in, bytes go out. May import: `blrc.targets.c.layout` and `blrc.targets.c.kernels`.
"""
