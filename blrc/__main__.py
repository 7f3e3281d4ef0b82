"""``python -m blrc``."""

from blrc.cli import main

if __name__ == "__main__":
    main()
