"""Define the types of options: what a user may write, what help and completion show, and what is refused.

The package that owns an option checks it. It is imported only when there is a value, so that ``--help`` answers at
once.
"""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from blrc.cli.progress import STAND_INS
from blrc.errors import BlrcError
from blrc.reading.regular import check_name, check_output

if TYPE_CHECKING:
    from blrc.frontend.weights.prior import Prior

    _Type = click.ParamType[Any]  # type: ignore[type-arg, unused-ignore] # of click before 8.2
else:
    _Type = click.ParamType  # no generic class before click 8.2


PIECE = 2**20  # bytes of standard input that are in memory at a time


class Choices(_Type):
    """Accept one of some names, which are looked up only when needed.

    The names are shown in the help and completed by the shell.
    """

    name = "choice"

    def __init__(self, names: Callable[[], Collection[str]]) -> None:
        self.names = names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(self.names())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it is; the package that owns the option refuses others."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]


class Parsed(_Type):
    """Accept a text that a function of the option's owner reads; the function also takes its own results.

    Args:
        name: what the help shows in its place.
        parse: takes the text and the option as it is typed, and gives the value; raises a `BlrcError` that names the
            option.
        words: what completion offers.
    """

    def __init__(
        self, name: str, parse: Callable[[Any, str], Any], words: Callable[[], Collection[str]] = lambda: ()
    ) -> None:
        self.name, self.parse, self.words = name, parse, words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if ctx is not None and ctx.resilient_parsing:  # the shell's completion: nothing is computed with it
            return value
        return self.parse(value, param.opts[0] if param is not None else self.name)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(f"{before}{comma}{word}") for word in self.words() if word.startswith(last)]


class Named(click.Path):
    """Accept a path, which need not exist. ``-`` is refused: what is read or written has to be a file or a folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            return self.checked(Path(value))
        except BlrcError as error:
            self.fail(str(error), param, ctx)

    def checked(self, path: Path) -> Path:
        if str(path) == "-":
            raise BlrcError("-: cannot be standard input or output here; give a path (./- is a file of that name)")
        return check_name(path)


class Output(Named):
    """Accept a file to write: a new one, or a regular one, which is replaced."""

    def checked(self, path: Path) -> Path:
        return check_output(super().checked(path))


class Model(Named):
    """Accept a file to read; ``-`` is standard input, which is kept in a temporary file meanwhile."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if str(value) != "-" or ctx is None:
            return super().convert(value, param, ctx)
        path = _standard_input()
        ctx.call_on_close(lambda: shutil.rmtree(path.parent, ignore_errors=True))
        return path


def _standard_input() -> Path:
    """Copy a checkpoint from standard input to a file, which goes when the process ends at the latest."""
    from blrc.reading.sealed import MOST_BYTES

    if sys.stdin is None or sys.stdin.isatty():
        raise BlrcError("-: standard input is a terminal or closed; pipe a checkpoint into the command")
    folder = Path(tempfile.mkdtemp(prefix="blrc-stdin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # click closes no context whose other options are wrong
    path = folder / "model"
    STAND_INS.update(dict.fromkeys((str(path), json.dumps(str(path)).strip('"')), "-"))
    left = MOST_BYTES + 1
    with path.open("wb") as file:
        while left and (part := sys.stdin.buffer.read(min(left, PIECE))):
            left -= file.write(part)
    if not left:
        raise BlrcError(f"-: standard input has more than {MOST_BYTES:,} bytes, the most that a checkpoint may have")
    return path


def _bytes(value: Any, option: str) -> int | None:
    from blrc.targets.c.options import parse_bytes

    return parse_bytes(value, option)


def _share(value: Any, option: str) -> Fraction:
    from blrc.frontend.sample import exact

    try:
        return exact(value)
    except (ValueError, ZeroDivisionError):
        raise BlrcError(f"{option} {str(value)[:40]!r}: expected a share such as 0.1 or 1/10") from None


def _members(value: Any, option: str) -> str:
    from blrc.frontend.members import parse_members

    parse_members(str(value), 0)
    return str(value)


def _entries(value: Any, option: str) -> str:
    from blrc.evaluation.choice import parse_entries

    return ",".join(parse_entries(str(value)))


def _machines(value: Any, option: str) -> tuple[str, ...]:
    from blrc.verification.devices import parse_machines

    return parse_machines(value)


def _machine_names() -> Collection[str]:
    from blrc.targets.c.machines.table import ALL

    return (*ALL, "all")


def _targets() -> Collection[str]:
    from blrc.targets.registry import TARGETS

    return tuple(TARGETS)


def _packages() -> Collection[str]:
    from blrc.targets.c.options import NO_PACKAGE, PACKAGES

    return (*PACKAGES, NO_PACKAGE)


def _optimize() -> Collection[str]:
    from blrc.targets.c.options import OPTIMIZE

    return OPTIMIZE


def _cpus() -> Collection[str]:
    from blrc.targets.c.options import CPUS

    return CPUS


def _inputs() -> Collection[str]:
    from blrc.net.choices import INPUTS

    return INPUTS


def _numbers(value: Any, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in str(value).split(","))
    except ValueError:
        raise BlrcError(f"{option} {str(value)[:40]!r}: expected numbers such as 0.5 or 0.49,0.48,0.45") from None


def _prior(value: Any, option: str) -> Prior:
    from blrc.frontend.weights.prior import parse_prior

    return parse_prior(value, option)


def _channels(value: Any, option: str) -> Fraction:
    from blrc.pruning.request import parse_share

    return parse_share(value, option)


def _by() -> Collection[str]:
    from blrc.pruning.choices import BY

    return BY


def _names(value: Any, option: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in str(value).split(","))


PATH, OUTPUT, MODEL = Named(), Output(), Model()


def _norms() -> tuple[str, ...]:
    from blrc.net.choices import NORMS

    return NORMS


def _roundings() -> tuple[str, ...]:
    from blrc.net.choices import ROUNDINGS

    return ROUNDINGS


NORMS, ROUNDING = Choices(_norms), Choices(_roundings)
TARGET, PACKAGE, OPTIMIZE, CPU = Choices(_targets), Choices(_packages), Choices(_optimize), Choices(_cpus)
INPUT, NUMBERS, NAMES = Choices(_inputs), Parsed("number,...", _numbers), Parsed("name,...", _names)
PRIOR = Parsed("number|layer=number,...", _prior, lambda: ("0.5",))
BY, CHANNELS = Choices(_by), Parsed("share", _channels, lambda: ("25%", "50%", "75%"))
SIZE = Parsed("bytes", _bytes)
SHARE = Parsed("share", _share)
MEMBERS = Parsed("map|number", _members, lambda: ("map",))
ENTRIES = Parsed("list", _entries, lambda: ("map", "stochastic"))
MACHINES = Parsed("machine,...", _machines, _machine_names)
