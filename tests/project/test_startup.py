"""The command line answers at once: heavy packages are loaded only by the commands that compute."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import blrc
from blrc.nn import models

SCRIPT = """
import sys
from click.testing import CliRunner
import blrc
from blrc.cli.main import main
result = CliRunner().invoke(main, sys.argv[1:])
assert result.exit_code == 0 and result.output, result.output
print([name for name in ("torch", "numpy", "onnx", "onnxruntime") if name in sys.modules])
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        *([name, "--help"] for name in ("export", "verify", "bench", "inspect", "eval", "import", "prune")),
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_loading_a_checkpoint_leaves_torchs_compiler_alone(tmp_path: Path) -> None:
    """Random initial values on the meta device loaded it: two seconds for every command that reads a checkpoint."""
    encoding = blrc.pixels((1, 28, 28), mean=[0.1307], std=[0.3081])
    blrc.save(models.mnist(), path=tmp_path / "mnist.pt", input=encoding, calibration=None)
    script = "import sys, blrc; blrc.load(sys.argv[1]); print('torch._dynamo' in sys.modules)"
    command = [sys.executable, "-c", script, str(tmp_path / "mnist.pt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
