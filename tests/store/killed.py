"""Run by test_kills.py: writes a folder again and again, and is killed at another step each time.

killed.py FOLDER BASE TASK
    For n = 1, 1 + stride, ... a copy of BASE is made as FOLDER/n/out, and a process of its own replaces the export in
    it and is killed just before its n-th step; the last one is not killed. A line for each: what the step was. It
    imports nothing but blrc.store, so that forking is safe.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from blrc.store import steps
from blrc.store.claim import claimed
from blrc.store.listing import Content


def kill_at(number: int, report: int) -> None:
    """Have this process killed just before its step of this number, half of a file written where it is a write."""
    calls = 0

    def before(what: str, path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            if what == "write":
                path.write_bytes(b"half")
            os.write(report, f"{what} {path.name}".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    steps.before = before


def main() -> None:
    os.fsync = lambda descriptor: (
        None
    )  # a killed process loses nothing that the system has; thousands would take minutes
    folder, base = Path(sys.argv[1]), sys.argv[2]
    task = json.loads(Path(sys.argv[3]).read_bytes())
    files = {name: content.encode() for name, content in task["files"].items()}
    for number in range(1, 1000, task["stride"]):
        out = folder / str(number) / "out"
        out.parent.mkdir(parents=True)
        if base != "-":
            shutil.copytree(base, out, symlinks=True)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            kill_at(number, writing)
            with claimed(out) as place:
                place.write(files, {name: Content(**content) for name, content in task["replaced"].items()})
            os._exit(0)
        os.close(writing)
        status = os.waitpid(child, 0)[1]
        killed = os.read(reading, 1000).decode()
        sys.stdout.write(f"{killed or 'exit ' + str(os.waitstatus_to_exitcode(status))}\n")
        os.close(reading)
        if not os.WIFSIGNALED(status):
            return


if __name__ == "__main__":
    main()
