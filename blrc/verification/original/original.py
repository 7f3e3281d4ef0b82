"""Hold the original network of an export: an ONNX file, what its import makes of it, and how it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blrc.errors import BlrcError
from blrc.extras import require
from blrc.frontend.sample import MAP, sample
from blrc.importing.declared import Declared
from blrc.importing.file import MOST_BYTES, Graph, read
from blrc.importing.flow import Flow
from blrc.importing.walk import walk
from blrc.net.choices import Rounding
from blrc.net.net import Net
from blrc.reading import regular
from blrc.store.listing import content_of
from blrc.verification.original.standard import standard


@dataclass(frozen=True, eq=False)
class Original:
    """Hold the original network.

    Attributes:
        path, sha256: its file.
        graph, flows: what the import read, and what it makes of each tensor.
        net: the net that it is imported to.
        model: the file with standard operators only.
    """

    path: Path
    sha256: str
    graph: Graph
    flows: Mapping[str, Flow]
    net: Net
    model: Any

    @property
    def batch(self) -> int | None:
        """Return the batch that the file fixes, or None."""
        shape = self.graph.source.shape
        return shape[0] if shape and shape[0] else None


def open_original(path: Path, declared: Declared | None, rounding: Rounding) -> Original:
    """Read the original network that an export is compared with.

    Args:
        declared: what its raw input is, if the file does not say it.
        rounding: what decides the export's bits.

    Raises:
        BlrcError: the file cannot be imported, or be written in standard operators.
    """
    require("onnxruntime", "comparing an export with its original")
    graph = read(path)
    sha256 = content_of(regular.read(path, MOST_BYTES)).sha256
    walked = walk(graph, declared, str(path))
    if walked.checkpoint is None:
        raise BlrcError(f"{path}: {walked.refusals[0]}")
    net = replace(sample(walked.checkpoint, MAP, running=True), rounding=rounding)
    ranks = {name: len(flow.axes) + 1 for name, flow in walked.flows.items()}
    return Original(path, sha256, graph, walked.flows, net, standard(path, ranks))
