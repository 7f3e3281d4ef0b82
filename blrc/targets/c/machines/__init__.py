"""Run an export on other processors: cross-compilers, linker scripts and emulators.

`table` lists the machines. May import: `blrc.targets.c.build` and what it may import.
"""
