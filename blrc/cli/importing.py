"""Define the command `blrc import`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from blrc.cli.ends import show
from blrc.cli.options import as_json, raw_input
from blrc.cli.progress import spoken
from blrc.cli.types import NAMES, OUTPUT, PATH
from blrc.errors import DIFFERS, BlrcError


@click.command("import")
@click.argument("file", type=PATH)
@click.option("-o", "--output", type=OUTPUT, help="Checkpoint to write.")
@click.option("--dry-run", is_flag=True, help="Say of every node what it is taken for, or why it is refused.")
@click.option("--heads", type=NAMES, help="Names of the outputs of a network with several: digit,parity.")
@click.option(
    "--outputs",
    type=click.Choice(["labels", "values"]),
    default="labels",
    show_default=True,
    help="What the outputs are: scores, of which the largest is the label, or real values.",
)
@raw_input
@as_json
@spoken
def import_(file: Path, output: Path | None, dry_run: bool, as_json: bool, outputs: str, **options: Any) -> None:
    """Import a binary network from an ONNX file: QONNX (Brevitas), FINN, or plain ONNX.

    The file is only read. Exit status of --dry-run: 1 if a node is refused.
    """
    if dry_run:
        from blrc.app.import_onnx import look

        walked = look(file, **options)
        lines = [{"node": line.node, "says": line.says, "remedy": line.remedy or None} for line in walked.lines]
        plain = {"nodes": lines, "notes": list(walked.notes), "refused": len(walked.refusals)}
        show(json.dumps(plain, indent=2) if as_json else str(walked))
        sys.exit(DIFFERS if walked.refusals else 0)
    if output is None:
        raise BlrcError("blrc import needs -o, the checkpoint to write, or --dry-run")
    import blrc

    notes: list[str] = []
    found = blrc.import_onnx(file, output=output, outputs=outputs, say=notes.append, **options)
    plain = {"checkpoint": str(output), "layers": len(found.nodes), "notes": notes}
    show(json.dumps(plain, indent=2) if as_json else "\n".join([*notes, f"{output}: {len(found.nodes)} layers"]))
