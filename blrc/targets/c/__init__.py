"""The C target: a program as portable C99 with constant tables."""

from blrc.targets.c.emit import emit

__all__ = ["emit"]
