"""The command line answers at once: heavy packages are loaded only by the commands that compute."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from click.testing import CliRunner
import blrc
from blrc.cli import main
result = CliRunner().invoke(main, sys.argv[1:])
assert result.exit_code == 0 and result.output, result.output
print([name for name in ("torch", "numpy", "onnx", "onnxruntime") if name in sys.modules])
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["export", "--help"], ["verify", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
