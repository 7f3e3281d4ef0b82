"""``python -m blrc``, and the command ``blrc``."""

from __future__ import annotations

import sys
from contextlib import suppress

from blrc.errors import UNCHECKED


def main() -> None:
    """Run the command line. Ctrl-C ends it in one line also while its modules are loaded."""
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
