"""Run the command line as ``python -m blrc``, or as the command ``blrc``."""

from __future__ import annotations

import sys
from contextlib import suppress

from blrc.errors import UNCHECKED


def main() -> None:
    """Run the command line, and end in one line if Ctrl-C comes while its modules are still being loaded."""
    try:
        from blrc.cli.main import main as run
    except KeyboardInterrupt:
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write("\nError: stopped\n")
        sys.exit(UNCHECKED)
    run()


if __name__ == "__main__":
    main()
