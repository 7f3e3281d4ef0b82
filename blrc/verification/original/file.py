"""Hold the original network of an export: an ONNX file, what its import makes of it, and how it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.extras import require
from blrc.frontend.sample import MAP, sample
from blrc.importing.declared import Declared
from blrc.importing.file import MOST_BYTES, Graph, read
from blrc.importing.flow import Bits, Flow, Raw, Signed, Sums, Test
from blrc.importing.walk import walk
from blrc.net.choices import Rounding
from blrc.net.net import INPUT, Net
from blrc.net.pieces import Stage
from blrc.reading import regular
from blrc.store.listing import content_of
from blrc.verification.original.original import Tensor
from blrc.verification.original.rounding import HALF, SINGLE
from blrc.verification.original.runs import FilePart
from blrc.verification.original.standard import standard


@dataclass(frozen=True, eq=False)
class OriginalFile:
    """Hold the original network, as `blrc.verification.original.original.Original` describes it.

    Attributes:
        path, sha256: its file.
        graph, flows: what the import read, and what it makes of each tensor.
        scores: the names of the tensors of scores, of each head in order.
        net: the net that it is imported to.
        model: the file with standard operators only.
    """

    path: Path
    sha256: str
    graph: Graph
    flows: Mapping[str, Flow]
    scores: tuple[str, ...]
    net: Net
    model: Any

    @property
    def name(self) -> str:
        """Return how reports call the file."""
        return self.sha256

    @property
    def unit(self) -> float:
        """Return the relative error of one operation in the file's type."""
        return HALF if self.graph.source.element == "FLOAT16" else SINGLE

    @property
    def source(self) -> Tensor:
        """Return the last tensor that is still the raw input; it is what the comparison feeds."""
        found = self._tensor(self.graph.source.name)
        for name, flow in self.flows.items():
            if flow.layer == INPUT and isinstance(flow, Raw | Bits) and not any(flow.pads):
                found = self._tensor(name)
        return found

    @property
    def ends(self) -> tuple[Tensor, ...]:
        """Return the tensors of the scores, of each head in order."""
        return tuple(map(self._tensor, self.scores))

    def bits(self, stage: Stage) -> Tensor:
        """Return the file's tensor of a stage's bits; a Sign or a comparison may be read as it is."""
        own = next((each for each in self._of(Bits) if each.layer == stage.sign.name), None)
        if own is not None:
            return own
        open_ = [each for each in self._of(Signed | Test) if each.layer in _layers(stage)]
        if not open_:
            raise BlrcError(f"layer {stage.sign.name!r}: the original has no tensor of its bits")
        return open_[-1]

    def sums(self, stage: Stage) -> Tensor:
        """Return the output of the node that a stage's linear layer was imported from."""
        for op in self.graph.ops:
            for name in op.outputs:
                if isinstance(flow := self.flows.get(name), Sums) and flow.layer in _layers(stage):
                    return self._tensor(name)
        raise BlrcError(f"layer {stage.linear.name!r}: the original has no tensor of its sums")

    def pooled(self, layer: str) -> Tensor:
        """Return the file's tensor of a pool of bits."""
        return next(each for each in self._of(Bits) if each.layer == layer)

    def is_plus(self, tensor: Tensor, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values of a tensor of bits are +1."""
        flow = self.flows[tensor.name]
        if isinstance(flow, Bits):
            return np.asarray((values > float(flow.offset)) == (flow.scale > 0))
        return np.asarray(values > float(flow.offset)) if isinstance(flow, Signed) else values.astype(bool)

    def fed(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Return what the file is given for raw samples; of pixels its own values, except where they are rounded."""
        flow, encoding = self.flows[self.source.name], self.net.encoding
        if isinstance(flow, Raw) and flow.seen is not None and (encoding.given or encoding.at):
            return _seen(flow, raw)
        codes = encoding.codes(raw).astype(np.float64).reshape(len(raw), *flow.shape)
        if isinstance(flow, Bits):
            return codes * float(flow.scale) + float(flow.offset)
        assert isinstance(flow, Raw)
        if encoding.is_binary:  # a sign follows
            return codes
        factor, offset = flow.factor.reshape(-1)[0], flow.offset.reshape(-1)[0]
        real = codes / encoding.scale
        return np.sign(float(factor)) * real if encoding.mean else float(factor) * real + float(offset)

    def seen(self, raw: NDArray[Any]) -> NDArray[Any] | None:
        """Return the file's own values of pixels that are rounded to codes, or None if none are."""
        flow = self.flows[self.source.name]
        rounds = isinstance(flow, Raw) and flow.seen is not None and self.net.encoding.mean
        return _seen(flow, raw) if rounds and isinstance(flow, Raw) else None

    def part(self, source: Tensor, outputs: Sequence[Tensor]) -> FilePart:
        """Return the part of the file from one tensor to others."""
        shape = self.graph.source.shape
        batch = shape[0] if shape and shape[0] else None
        flows = {each.name: self.flows[each.name] for each in outputs}
        return FilePart(self.model, source.name, self.flows[source.name], flows, batch)

    def _tensor(self, name: str) -> Tensor:
        return Tensor(name, self.flows[name].layer, self.flows[name].shape)

    def _of(self, kinds: Any) -> Iterator[Tensor]:
        return (self._tensor(name) for name, flow in self.flows.items() if isinstance(flow, kinds))


def _layers(stage: Stage) -> set[str]:
    return {stage.linear.name, *(step.name for step in stage.chain)}


def _seen(flow: Raw, raw: NDArray[Any]) -> NDArray[Any]:
    """Return what the file makes of pixels, ``(N, *flow.shape)``."""
    assert flow.seen is not None
    pixels = raw.reshape(len(raw), *flow.shape)
    table = np.broadcast_to(flow.seen, (len(flow.seen), *flow.shape))
    return np.asarray(table[(pixels, *np.ogrid[tuple(slice(n) for n in (1, *flow.shape))][1:])])


def open_file(
    path: Path, declared: Declared | None, rounding: Rounding, heads: Sequence[str] | None = None
) -> OriginalFile:
    """Read the ONNX file that an export is compared with.

    Args:
        declared: what its raw input is, if the file does not say it.
        rounding: what decides the export's bits.
        heads: the names of the export's heads, where it has several.

    Raises:
        BlrcError: the file cannot be imported, or be written in standard operators.
    """
    require("onnxruntime", "comparing an export with its original")
    graph = read(path)
    sha256 = content_of(regular.read(path, MOST_BYTES)).sha256
    walked = walk(graph, declared, str(path), heads)
    if walked.checkpoint is None:
        raise BlrcError(f"{path}: {walked.refusals[0]}")
    net = replace(sample(walked.checkpoint, MAP, running=True), rounding=rounding)
    ranks = {name: len(flow.axes) + 1 for name, flow in walked.flows.items()}
    return OriginalFile(path, sha256, graph, walked.flows, walked.scores, net, standard(path, ranks))
