"""Runs the page's own scripts in Node, which has WebAssembly and no page."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blrc.targets.web.emit import PAGE


def node(scripts: Sequence[str | Path], expression: str, given: Any = None) -> Any:
    """The value of a JavaScript expression (it may be a promise) behind the scripts, as plain data.

    Args:
        scripts: names of the page's scripts, or paths.
        given: plain data, which the expression finds as ``given``.
    """
    texts = [(PAGE / script if isinstance(script, str) else script).read_text(encoding="utf-8") for script in scripts]
    program = [
        *texts,  # as in a page, all scripts share one scope
        'const given = JSON.parse(require("fs").readFileSync(0, "utf-8"));',
        f"Promise.resolve({expression}).then((value) => process.stdout.write(JSON.stringify(value)));",
    ]
    with tempfile.TemporaryDirectory() as folder:
        main = Path(folder) / "main.js"
        main.write_text("\n".join(program), encoding="utf-8")
        done = subprocess.run(["node", main], input=json.dumps(given), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
