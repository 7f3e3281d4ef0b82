"""Say on standard error what a command is doing, in as much detail as -q and -v ask for."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

import click

Command = Callable[..., Any]
STAND_INS: dict[str, str] = {}
"""Paths of temporary files, and the names that the user gave for what is in them."""
TENTHS = 10
"""A log gets a line for each tenth of a task's steps."""


def share_cores() -> None:
    """Let waiting threads sleep instead of spinning, which must be set before torch is loaded.

    On a machine that others use, spinning took 12 CPU seconds for an export that needs 5.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def spoken(command: Command) -> Command:
    """Add -q and -v to a command; `Progress` reads them."""
    for flag, name, text in (
        ("-v", "verbose", "Show every step on a line of its own, with the seconds since the start."),
        ("-q", "quiet", "Show no progress, only warnings, errors and the result."),
    ):
        command = click.option(flag, f"--{name}", is_flag=True, expose_value=False, callback=_keep, help=text)(command)
    return command


def _keep(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[f"blrc.{param.name}"] = value


class Progress:
    """Report the progress of the running command.

    On a terminal one line is rewritten. A log gets a line when a task begins, ends, changes its name or has done
    another tenth of its steps.
    """

    def __init__(self) -> None:
        context = click.get_current_context(silent=True)
        meta = {} if context is None else context.meta
        self.verbose = bool(meta.get("blrc.verbose"))
        self.quiet = bool(meta.get("blrc.quiet")) and not self.verbose
        self.start, self.said = time.monotonic(), ("", -1)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say that `done` of `total` steps are done."""
        before, self.said = self.said, (what, TENTHS * done // max(total, 1))
        line = f"{what}: {done:,} of {total:,}"
        if self.verbose or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            if self.verbose or done == 0 or done >= total or before != self.said:
                self.say(line)
        elif not self.quiet:
            _rewrite(line, done >= total)

    def say(self, what: str) -> None:
        """Say a line; warnings are shown even with -q."""
        if self.verbose:
            warn(f"{time.monotonic() - self.start:8.2f} s  {what}")
        elif not self.quiet or what.startswith("warning: "):
            warn(what)

    @property
    def stream(self) -> TextIO:
        """Return the stream for a bar or for lines of progress."""
        if self.quiet:
            return io.StringIO()
        return _Lines(self.start) if self.verbose else sys.stderr


class _Lines(io.StringIO):
    """Write to standard error as to a stream that is no terminal, each line with the seconds since the start."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self._start, self._begins = start, True

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            if self._begins:
                sys.stderr.write(f"{time.monotonic() - self._start:8.2f} s  ")
            sys.stderr.write(line)
            self._begins = line.endswith("\n")
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


_open_line = False  # on the terminal


def _rewrite(line: str, ends: bool) -> None:
    """Show a line in place of the one before, and end it or leave it open."""
    global _open_line
    with suppress(OSError):
        click.echo(f"\r\033[K{line}", nl=ends, err=True)
        _open_line = not ends


def named(text: str) -> str:
    """Return a text in which files that stand in for streams have the names that the user gave."""
    for path, name in STAND_INS.items():
        text = text.replace(path, name)
    return text


def warn(what: str) -> None:
    """Print on standard error, below an open line. If that cannot be written to, the command goes on."""
    global _open_line
    with suppress(OSError):
        click.echo(named(f"\n{what}" if _open_line else what), err=True)
        _open_line = False


def coloured(text: str, colour: str, stream: TextIO | None) -> str:
    """Colour a text if a terminal shows it and the user has not turned colours off (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or stream is None or not stream.isatty() else click.style(text, fg=colour)
