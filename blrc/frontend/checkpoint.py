"""Read checkpoints: trained networks in one file, from which an export needs nothing else. This needs no torch.

The file is a sealed torch zip of tensors and plain data (`blrc.reading.sealed`); `blrc.frontend.saving` writes it.

    format, version    "blrc-checkpoint", and 1, or 2 where a layer has other random weights than +-1
    nodes              the graph of named layers: name, kind, inputs, options
    tensors            parameters and buffers by state_dict key; logits as float32, or as int8 codes
                       (`blrc.frontend.weights`): ``weight.logits``, of ternary layers ``weight.zero_logits`` and
                       ``weight.sign_logits``; a Binarized NN's shadow weights as float32, or their signs as int8
    input              the input's encoding
    calibration        raw samples on which norm statistics are re-estimated, deflated, or None
    whitening          how images become raw samples (`blrc.datasets.whitening`), or None
    original           the ONNX file that the network was imported from (`blrc.frontend.origin`), or None
    heads              of a network with several heads: [name, layer that gives its scores] for each, in order
    values             of a network that gives values: [scale, offset] of each head, or of its only output

A file may come from a stranger, so everything in it is checked for its type, its range and its size before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blrc.datasets import whitening as whiten
from blrc.datasets.whitening import Whitening
from blrc.display import Preformatted, sizes, table
from blrc.errors import BlrcError
from blrc.extras import require
from blrc.frontend.fields import (
    MOST_SAMPLE_BYTES,
    MOST_SAMPLES,
    calibration_of,
    encoding_of,
    ends_of,
    expect,
    expect_only,
    field,
    invalid,
)
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import shown
from blrc.frontend.kinds.table import check_nodes, kind_of, tensors_of
from blrc.frontend.origin import Origin, origin_of
from blrc.frontend.weights import logits
from blrc.frontend.weights.record import Coded, Coding
from blrc.frontend.weights.table import coding_of, holds_logits
from blrc.net.encoding import InputEncoding
from blrc.net.heads import Heads, Units, check_ends, check_units
from blrc.reading import sealed
from blrc.reading.given import path_of

if TYPE_CHECKING:
    from torch import nn

FORMAT = "blrc-checkpoint"
REAL_FORMAT = "blrc-full-precision"
VERSION = 3
OF_VALUES = 3
"""The newest version that is read (see `version_of`), and the first that knows networks which give values."""
_KEYS = ("format", "version", "nodes", "tensors", "input", "calibration", "whitening", "original", "heads", "values")
_SINGLE = np.finfo(np.float32)


@dataclass(frozen=True, eq=False, repr=False)
class Checkpoint(Preformatted):
    """Hold a loaded checkpoint.

    Attributes:
        nodes: the layers in order.
        tensors: parameters and buffers by state_dict key; logits may be int8 codes, shadow weights int8 signs.
        encoding: how raw input becomes codes.
        calibration: raw samples ``(N, *encoding.shape)``, or None.
        source: what messages call the checkpoint (its path).
        whitening: how images become raw input, where the network takes whitened images.
        original: the ONNX file that the network was imported from, if it was.
        heads: the heads of a network that has several; or the only one that is looked at (`of_head`).
        values: the units of a network that gives values (`blrc.net.heads.Unit`); empty for one that gives labels.
    """

    nodes: tuple[Node, ...]
    tensors: Mapping[str, NDArray[Any]]
    encoding: InputEncoding
    calibration: NDArray[Any] | None
    source: str
    whitening: Whitening | None = None
    original: Origin | None = None
    heads: Heads = ()
    values: Units = ()

    def __repr__(self) -> str:
        encoding = self.encoding
        names = [node.name for node in self.nodes if "norm" not in node.kind]
        endings = ("weight.logits", "weight.zero_logits", "weight")
        held = [self.tensors.get(f"{name}.{ending}") for name in names for ending in endings]
        weights = sum(tensor.size for tensor in held if tensor is not None)
        samples = 0 if self.calibration is None else len(self.calibration)
        heads = f", heads {' and '.join(name for name, _ in self.heads)}" if self.heads else ""
        return (
            f"Checkpoint({self.source!r}: {encoding.kind} {sizes(encoding.shape)}, {len(self.nodes)} layers, "
            f"{weights:,} weights, {samples:,} calibration samples{heads}{', gives values' if self.values else ''})"
        )

    def __str__(self) -> str:
        rows = [("layer", "kind"), *((node.name, node.kind) for node in self.nodes)]
        return "\n".join([repr(self), *table(rows, left=2)])

    def model(self) -> nn.Module:
        """Return the network as a torch module in training mode, with the state_dict keys of the module that was saved.

        Raises:
            BlrcError: torch is not installed.
        """
        require("torch", "a checkpoint's model()")
        from blrc.frontend.graph import build

        shadows = shadows_of(self)
        tensors = {key: self._single(key, value, shadows) for key, value in self.tensors.items()}
        model = build(self.nodes, tensors, self.heads, self.encoding if self.encoding.exact else None)
        model.units_ = self.values
        return model

    def of_head(self, name: str | None) -> Checkpoint:
        """Return the network of one head alone, by default the first, which gives the same scores as beside the others.

        Raises:
            BlrcError: there is no such head.
        """
        chosen = tuple(each for each in self.heads if name in (None, each[0]))[:1]
        if name is not None and not chosen:
            have = f"its heads are {', '.join(each for each, _ in self.heads)}" if self.heads else "it has one output"
            raise BlrcError(f"{self.source}: has no head {shown(name)}; {have}")
        if not chosen:
            return self
        needed = {chosen[0][1]}
        for node in reversed(self.nodes):
            needed.update(node.inputs if node.name in needed else ())
        nodes = tuple(node for node in self.nodes if node.name in needed)
        tensors = {key: held for key, held in self.tensors.items() if key.startswith(tuple(f"{n}." for n in needed))}
        values = self.values and (self.values[self.heads.index(chosen[0])],)
        return replace(self, nodes=nodes, tensors=tensors, heads=chosen, values=values)

    def _single(self, key: str, value: NDArray[Any], shadows: frozenset[str]) -> NDArray[Any]:
        """Return a tensor in float32, as a module holds it, without losing the sign of a tiny weight."""
        if holds_logits(key) and value.dtype == np.int8:
            return logits.from_codes(value)
        if value.dtype != np.float64:
            return value
        if holds_logits(key) or key in shadows:
            least = np.copysign(float(_SINGLE.tiny), value)
            value = np.where((value != 0) & (np.abs(value) < _SINGLE.tiny), least, value)
        return value.astype(np.float32)

    def samples(self) -> NDArray[Any]:
        """Return the calibration samples.

        Raises:
            BlrcError: the checkpoint has none.
        """
        if self.calibration is None:
            raise BlrcError(
                f"{self.source}: holds no calibration samples, on which the norms are re-estimated; "
                "save it again with blrc.save(..., calibration=samples)"
            )
        return self.calibration

    def coded(self, layer: str) -> Coded:
        """Return a layer's random weights as 8-bit codes, which are computed here if the checkpoint holds floats."""
        coding, held = self._held(layer)
        coded = all(tensor.dtype == np.int8 for tensor in held)
        return Coded(coding, held if coded else coding.encode(*self.real_logits(layer)))

    def real_logits(self, layer: str) -> tuple[NDArray[np.float64], ...]:
        """Return the logits of a layer's random weights, in the order of `Coding.tensors`; of codes, the middles."""
        reals = (logits.from_codes(tensor) if tensor.dtype == np.int8 else tensor for tensor in self._held(layer)[1])
        return tuple(tensor.astype(np.float64) for tensor in reals)

    def _held(self, layer: str) -> tuple[Coding, tuple[NDArray[Any], ...]]:
        coding = next(coding_of(node.kind) for node in self.nodes if node.name == layer)
        assert coding is not None
        return coding, tuple(self.tensors[f"{layer}.weight.{name}"] for name in coding.tensors)

    def signs(self, layer: str) -> NDArray[np.int8]:
        """Return the +-1 weights of a layer of a Binarized NN."""
        return signs_of(self.tensors[f"{layer}.weight"])


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint without executing anything in the file.

    Raises:
        BlrcError: there is no such file, or it is not a checkpoint, truncated, damaged, of a newer format version, or
            has values that are not finite.
    """
    path = path_of(path)
    content = sealed.read(path)
    if sealed.format_of(content) == REAL_FORMAT:
        raise BlrcError(f"{path}: a full-precision network, which cannot be compiled; train one with --model blrnet")
    if sealed.format_of(content) != FORMAT:
        raise BlrcError(f"{path}: not a blrc checkpoint; make one with blrc.save() or 'blrc train'")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise BlrcError(
            f"{path}: checkpoint format version {shown(version)}, but this blrc reads up to {VERSION}; update blrc"
        )
    try:
        checkpoint = _decode(content, str(path))
    except BlrcError as error:
        raise BlrcError(f"{path}: {error}") from None
    check(checkpoint)
    return checkpoint


def version_of(checkpoint: Checkpoint) -> int:
    """Return the version of the format that holds a network: the oldest whose readers know all of it."""
    return max(OF_VALUES if checkpoint.values else 1, *(kind_of(node).since for node in checkpoint.nodes))


def _decode(content: Mapping[str, Any], source: str) -> Checkpoint:
    expect_only("it", content, _KEYS)
    nodes = tuple(_node(expect(dict, node, "a layer")) for node in field(list, content, "nodes"))
    check_nodes(nodes)
    tensors = field(dict, content, "tensors")
    for key, value in tensors.items():
        expect(np.ndarray, value, f"tensor {shown(key)}")
    _check_tensors(nodes, tensors)
    encoding = encoding_of(field(dict, content, "input"))
    if "calibration" not in content:
        invalid("calibration is missing")
    samples, held = content["calibration"], content.get("whitening")
    original = content.get("original")
    whitening = None if held is None else whiten.unpack(expect(dict, held, "whitening"))
    if whitening is not None and whitening.shape != encoding.shape:
        invalid("its whitening is of other images than its input")
    return Checkpoint(
        nodes,
        {key: np.array(value, value.dtype.newbyteorder("="), order="C") for key, value in tensors.items()},
        encoding,
        None if samples is None else calibration_of(expect(dict, samples, "calibration"), encoding),
        source,
        whitening,
        None if original is None else origin_of(expect(dict, original, "the original")),
        *ends_of(content),
    )


def _node(held: Mapping[str, Any]) -> Node:
    expect_only("a layer", held, ("name", "kind", "inputs", "options"))
    inputs = tuple(expect(str, x, "an input of a layer") for x in field(list, held, "inputs"))
    return Node(field(str, held, "name"), field(str, held, "kind"), inputs, field(dict, held, "options"))


def check(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint whose layers, tensors, values or samples do not fit together.

    Raises:
        BlrcError: names the layer or tensor of the first thing that does not fit.
    """
    where = checkpoint.source
    try:
        check_nodes(checkpoint.nodes)
        _check_tensors(checkpoint.nodes, checkpoint.tensors)
        check_ends(checkpoint.heads, {node.name for node in checkpoint.nodes})
        check_units(checkpoint.values, checkpoint.heads)
    except BlrcError as error:
        raise BlrcError(f"{where}: {error}") from None
    for key, value in checkpoint.tensors.items():
        if value.dtype.kind != "f" or (np.abs(value) <= _SINGLE.max).all():  # false for NaN
            continue
        layer, what = key.rsplit(".", 1)[0].removesuffix(".weight"), key.rsplit(".", 1)[1]
        rows = np.atleast_1d(value)
        channel = int(np.argmax(~(np.abs(rows.reshape(len(rows), -1)) <= _SINGLE.max).all(axis=1)))
        raise BlrcError(
            f"{where}: layer {layer!r}: {what} of channel {channel} is NaN or infinite, or beyond float32; the "
            "training diverged: use an earlier checkpoint"
        )
    samples = checkpoint.calibration
    if samples is not None:
        checkpoint.encoding.check(samples, f"{where}: calibration samples")
        if len(samples) < 2:
            raise BlrcError(
                f"{where}: calibration needs at least 2 samples, got {len(samples)}; a few hundred are better"
            )
        if len(samples) > MOST_SAMPLES or samples.nbytes > MOST_SAMPLE_BYTES:
            raise BlrcError(
                f"{where}: {len(samples)} calibration samples of {samples.nbytes} bytes together; at most "
                f"{MOST_SAMPLES} samples of {MOST_SAMPLE_BYTES} bytes are taken, and a few hundred suffice"
            )


def _check_tensors(nodes: tuple[Node, ...], tensors: Mapping[str, NDArray[Any]]) -> None:
    """Refuse tensors that are missing, belong to no layer, or have another shape or type than their layers' options."""
    wanted = tensors_of(nodes)
    for key in sorted({*wanted, *tensors}):
        held = tensors.get(key)
        if held is None or key not in wanted:
            raise BlrcError(f"tensor {shown(key)} is {'missing' if held is None else 'of no layer'}")
        if not wanted[key].takes(held):
            raise BlrcError(
                f"tensor {shown(key)} is {held.dtype} {held.shape}, but its layer has {wanted[key].numbers} "
                f"{wanted[key].shape}; save the model again"
            )


def shadows_of(checkpoint: Checkpoint) -> frozenset[str]:
    """Return the keys of the weights of a Binarized NN, of which only the signs count."""
    return frozenset(
        key
        for node in checkpoint.nodes
        if node.kind.startswith("ste_") and (key := f"{node.name}.weight") in checkpoint.tensors
    )


def signs_of(weights: NDArray[Any]) -> NDArray[np.int8]:
    return np.where(weights >= 0, np.int8(1), np.int8(-1))
