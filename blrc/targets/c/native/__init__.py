"""Run an export's C in this process: shared libraries, built once and kept in a cache.

May import: `blrc.targets.c.emit`, `blrc.targets.c.build` and what these may import.
"""
