"""Compile an export for the host or another machine, run it, and measure its objects.

Files of an export come in; values of layers, answers, and bytes of code and stack go out. `compiler` finds and calls
the compiler, `objects` keeps what it has compiled, `driver` writes the program around an export, and `host` runs that.
May
import: `blrc.targets.c.text` and what it may import, and `blrc.store`.
"""
