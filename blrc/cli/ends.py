"""End a command with its exit status, and if that is not 0, with a message on standard error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from blrc.cli.progress import coloured, named, warn
from blrc.errors import UNCHECKED, WELL, BlrcError

STATUSES = """\b
Exit status of every command:
  0  all is well
  1  what was checked differs, or does not fit the stated budget
  2  it could not be checked: a mistake in the options, a file that cannot
     be read or written, a program that is missing, ctrl-C
  75 (train only) --minutes are over; the same command with --resume goes on
"""


class Group(click.Group):
    """Run the commands, and turn whatever a user, a file or the system does wrong into a message and a status.

    No traceback is shown for it.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command and exit, or only run it if `standalone_mode` is off."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        _prepare_streams()
        printing, status = sys.stdout, UNCHECKED
        try:
            _check_current_folder()
            result = super().main(args, prog_name, complete_var, False, **extra)
            status = result if isinstance(result, int) else WELL
        except SystemExit as error:
            if sys.stdout is not printing:  # click's own way out where the reader of a pipe has gone
                complain(str(_no_output(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))))
            else:
                status = error.code if isinstance(error.code, int) else WELL if error.code is None else UNCHECKED
        except click.UsageError as error:
            with suppress(OSError):
                error.show()
        except click.ClickException as error:
            complain(error.format_message())
        except BlrcError as error:
            complain(str(error))
            status = error.status
        except (KeyboardInterrupt, click.Abort):
            complain("stopped")
        except MemoryError:
            complain("there is not enough memory for this; free some, or raise the limit on it")
        except OSError as error:
            where = f"{error.filename}: " if error.filename is not None else ""
            complain(f"{where}cannot go on: {error.strerror or error}")
        _leave(status)


def show(text: str) -> None:
    """Print a result on standard output.

    Raises:
        BlrcError: it cannot be printed, because the disk behind it is full, or because its reader has gone.
    """
    try:
        click.echo(named(text))
    except OSError as error:
        raise _no_output(error) from None


def complain(message: str) -> None:
    """Print a mistake on standard error; do nothing if that is closed."""
    warn(f"{coloured('Error:', 'red', sys.stderr)} {message}")


def _no_output(error: OSError) -> BlrcError:
    return BlrcError(f"standard output: cannot write: {error.strerror or error}")


def _prepare_streams() -> None:
    """Let names that are no valid text be printed, and open closed streams, so that no other file takes their place.

    A standard output that is closed remains one that cannot be written to, because a result that nobody gets is no
    success.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, mode)  # takes the lowest number that is free
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:  # it was closed when Python began
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        elif hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _check_current_folder() -> None:
    """Refuse to run if the current folder was removed, because libraries that torch loads would end the process.

    Raises:
        BlrcError: it was removed.
    """
    try:
        os.getcwd()  # noqa: PTH109
    except OSError as error:
        raise BlrcError(f"the current folder cannot be found: {error.strerror}; go to another one") from None


def _leave(status: int) -> NoReturn:
    """Flush what was printed, and exit. If that fails, make sure that Python does not try it again and complain."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if status != UNCHECKED:  # else it has been said why
            complain(str(_no_output(error)))
        status = UNCHECKED
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)
