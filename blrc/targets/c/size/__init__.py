"""Compute what an export takes in flash, RAM and stack before anything is compiled, and choose a layout that fits.

A layout comes in, and bytes go out. May import: `blrc.targets.c.layout` and `blrc.targets.c.kernels`.
"""
