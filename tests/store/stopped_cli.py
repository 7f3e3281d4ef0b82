"""Run by test_interrupted_cli.py: the command line, stopped at one step of what it writes.

stopped_cli.py kill WHAT COUNT ARGUMENT...    is killed just before the step WHAT ("rename net.c") comes for the
                                              COUNT-th time
stopped_cli.py wait WHAT COUNT ARGUMENT...    says "waiting" there, and goes on when it is told a line
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from blrc.cli.main import main
from blrc.store import steps


def stop_at(how: str, wanted: str, count: int) -> None:
    """Kill or hold up this process just before a step comes for the `count`-th time."""
    seen = 0

    def before(what: str, path: Path) -> None:
        nonlocal seen
        if wanted in (what, f"{what} {path.name}"):
            seen += 1
            if seen == count:
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                sys.stdout.write("waiting\n")
                sys.stdout.flush()
                sys.stdin.readline()

    steps.before = before


if __name__ == "__main__":
    stop_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    main(sys.argv[4:], prog_name="blrc")
