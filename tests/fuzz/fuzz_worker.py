"""Give readers and commands inputs that nobody should write, and say where one ends in something else than an answer.

    python tests/fuzz/fuzz_worker.py KIND:FIRST:COUNT...   inputs FIRST, FIRST + 1... of a kind; a line for each failure
    python tests/fuzz/fuzz_worker.py KIND:SEED             one input, with its traceback

The only good ends are success and `BlrcError`; on the command line status 0, 1 or 2, with a message where it is not 0.
Time, memory and standard streams of each input are bounded.
"""

from __future__ import annotations

import io
import json
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from fuzz_cases import KINDS, prepare  # noqa: E402

from blrc.errors import BlrcError  # noqa: E402

SECONDS = 20  # of one input
MEGABYTES = 700  # beyond what the process had before: with torch and the good inputs that is 300 or so
FORGET_THE_PEAK = "5"  # written to /proc/self/clear_refs: VmHWM begins at what the process has now
NO_MEMORY = "there is not enough memory"


def failure(kind: str, seed: int, good: Path, show: bool = False) -> str | None:
    """Return how an input ends that should not end so, or takes too much memory; else None."""
    with tempfile.TemporaryDirectory() as place:
        Path("/proc/self/clear_refs").write_text(FORGET_THE_PEAK, encoding="ascii")
        before = peak()
        found = _end(kind, seed, good, Path(place), show)
        grown = (peak() - before) // 1024
    return found or (f"takes {grown} MB" if grown > MEGABYTES else None)


def peak() -> int:
    """Return the most memory that was resident since it was last forgotten, in KiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))[1])  # type: ignore[index]


def _end(kind: str, seed: int, good: Path, place: Path, show: bool) -> str | None:
    rng = Random(f"{kind} {seed}")
    out, err = io.StringIO(), io.StringIO()
    signal.alarm(SECONDS)
    try:
        case = KINDS[kind][1](rng, good, place)
        # In the place, since a mutated option may name a folder to write.
        with chdir(place), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(action="ignore"):
            warnings.simplefilter("error", RuntimeWarning)  # of NumPy: no answer, and no refusal either
            case()
    except BlrcError as error:
        if "\n" in str(error):
            return f"a message of several lines: {str(error)[:200]!r}"
    except SystemExit as error:
        return _wrong_exit(error.code, err.getvalue(), out.getvalue())
    except BaseException as error:
        if show:
            traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]!r} at {Path(where.filename).name}:{where.lineno}"
    finally:
        signal.alarm(0)
    return None


def _wrong_exit(code: object, said: str, printed: str) -> str | None:
    if code not in (0, 1, 2):
        return f"exit status {code!r}"
    if code == 1 and printed:
        return None
    if code and ("Error: " not in said or "Traceback" in said or NO_MEMORY in said):
        return f"exit status {code} after {said[-300:]!r}"
    return None


def _too_long(signum: int, frame: object) -> None:
    raise TimeoutError(f"not done in {SECONDS} s")


def limit_memory() -> None:
    """Let allocations fail that are far beyond any limit, before the machine has no memory left."""
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + (2 << 30), resource.RLIM_INFINITY))


def main() -> None:
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        limit_memory()
        for wanted in sys.argv[1:]:
            kind, first, *count = wanted.split(":")
            began = time.process_time()
            for seed in range(int(first), int(first) + (int(count[0]) if count else 1)):
                found = failure(kind, seed, Path(folder), not count)
                if found is not None:
                    _report(kind=kind, seed=seed, end=found)
            _report(kind=kind, done=True, seconds=round(time.process_time() - began, 1))


def _report(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
