"""The golden export: every generated file of one tiny network, as text in tests/golden/c.

Write it again after a deliberate change, and read the difference:

    python tests/targets/c/c_golden.py
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "golden" / "c"


def golden_files() -> dict[str, bytes]:
    """What is compared: all that is generated; the runtime's files are copies and have their own history."""
    import numpy as np
    from c_exports import one_conv

    from blrc.program.program import Window
    from blrc.program.vectors import record
    from blrc.targets.c.emit import emit
    from blrc.targets.options import EmitOptions

    program = one_conv((5, 4, 1), 5, Window((3, 3), padding=(1, 1, 1, 1)), pool=Window((2, 2), (2, 2)), kind="uint8")
    inputs = np.arange(2 * 20, dtype=np.uint8).reshape(2, 5, 4, 1) * 6
    files = emit(program, EmitOptions("tiny", record(program, inputs), "0.0")).files
    return {file: content for file, content in files.items() if not file.startswith("tiny_blrc")}


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[up]) for up in (2, 3)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, content in golden_files().items():
        (FOLDER / name).write_bytes(content)
