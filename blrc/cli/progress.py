"""Show on standard error what a command is doing."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click


def share_cores() -> None:
    """Let threads that wait sleep (before torch is loaded): by default they spin, which on a machine that others use
    took 12 CPU seconds for an export that needs 5."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def say(what: str, end: bool = True) -> None:
    """Print a line of progress. A standard error that takes no more stops no command."""
    with suppress(OSError):
        click.echo(what, nl=end, err=True)


class Changes:
    """Progress of several tasks: in a log a line for the first and last of each, and where it says something new."""

    def __init__(self) -> None:
        self.said = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        show_progress(what, done, total, every=what != self.said)
        self.said = what


class Steps:
    """Progress of many steps: in a log a line for each tenth of them."""

    def __init__(self) -> None:
        self.said = -1

    def __call__(self, what: str, done: int, total: int) -> None:
        tenth = 10 * done // total
        if sys.stderr.isatty() or done == 0 or tenth != self.said:
            show_progress(what, done, total, every=True)
        self.said = tenth


def show_progress(what: str, done: int, total: int, every: bool = False) -> None:
    """Rewritten on a terminal; in a log the first and the last, or every one."""
    if sys.stderr.isatty():
        end = "\n" if done >= total else ""
        say(f"\r\033[K{what}: {done:,} of {total:,}{end}", end=False)
    elif every or done == 0 or done >= total:
        say(f"{what}: {done:,} of {total:,}")
