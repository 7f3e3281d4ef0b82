"""Write a torch module to a checkpoint: one sealed file, which `blrc.frontend.checkpoint` describes and reads."""

from __future__ import annotations

import hashlib
import io
import sys
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc.datasets import whitening as whiten
from blrc.datasets.whitening import Whitening
from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.front import captured_strictly, unwrapped
from blrc.frontend.capture.byvalue.read import read, values_of
from blrc.frontend.capture.byvalue.rules.entry import ROUND
from blrc.frontend.capture.check import check_count, check_equal, inputs_of
from blrc.frontend.capture.walk import array_of, named_modules, tensors_of
from blrc.frontend.checkpoint import FORMAT, Checkpoint, check, shadows_of, signs_of, version_of
from blrc.frontend.graph import GraphModel, of_codes
from blrc.frontend.sample import binary_layers, sample
from blrc.net.encoding import InputEncoding, exactly
from blrc.net.heads import Outputs, units_of
from blrc.net.pieces import pieces
from blrc.net.shapes import check_shapes
from blrc.reading.given import path_of, samples_of
from blrc.reading.sealed import SEAL, SEAL_BYTES
from blrc.store.places import write_atomically

ROUNDED = (
    "pixels are rounded to int8 codes, and some labels may be others than those of a module that was trained on "
    "unrounded ones: blrc.verify(folder, original=model, data=...) counts them, and blrc.pixels(..., exact=False) says "
    "that it is meant; the reason is that of "
)
"""Warn of plain PyTorch whose pixels have no exact form; the layer and the reason follow."""


LEFT_OUT = "leaves out the "
"""Begins the notes of `blrc.frontend.capture.byvalue.emit` on what follows the scores and changes no label."""


def save(
    model: nn.Module,
    *,
    path: str | Path,
    input: InputEncoding,
    calibration: NDArray[Any] | torch.Tensor | None = None,
    compact: bool = False,
    whitening: Whitening | None = None,
    check_samples: int | None = None,
    example: torch.Tensor | None = None,
    heads: Sequence[str] | None = None,
    outputs: Outputs | None = None,
) -> None:
    """Write a checkpoint (atomically).

    Args:
        model: any module made of `blrc.nn` layers, or a binary network in plain PyTorch, whose layers are recognised by
            their values: weights of two values for each output channel are binary, and whole numbers of 8 bits times a
            scale are taken as such. A user's own class needs no registration.
        input: how raw input becomes codes (see `blrc.net.encoding`).
        calibration: raw samples ``(N, *input.shape)`` of type ``input.dtype``, at least 2; a few hundred suffice. None
            leaves a checkpoint whose norms cannot be re-estimated, as networks with random weights need.
        compact: hold logits as 8-bit codes, a quarter of the size. MAP weights and samples stay the same bit for bit.
            Of a Binarized NN only the signs are held: the network is the same, but training cannot go on as if it had
            not been saved.
        whitening: kept with a network that takes whitened images, so that `blrc eval` and others can whiten (9.5 MB).
        check_samples: number of calibration samples (or random ones) on which the module runs beside its captured
            graph, at least 1; by default 32, or 8 for a network of more than a million weights.
        example: of plain PyTorch: one more batch of inputs, as forward takes them, on which the module has to take the
            same steps.
        heads: names for the outputs of a module that returns several, in their order. None takes the keys of a
            dictionary or the fields of a named tuple, and head0, head1 and so on for those of a plain tuple. All heads
            read the same bits, and all have either binary or real weights.
        outputs: ``labels``: the outputs are scores of classes, and the largest is the answer; ``values``: they are real
            values, such as those of a regression or an autoencoder. ``blrc.values(scale=..., offset=...)`` says besides
            what they stand for, and a dictionary by the names of several heads what those of each do. None takes what
            a network from `blrc.load` had, and labels for any other.

    Warns:
        UserWarning: something was left out that changes no label, such as a softmax at the end; or pixels of a module
            in plain PyTorch are rounded to codes, as where its channels have several stds or zeros are padded.

    Raises:
        BlrcError: layers without a binary form, a module that computes something else than its captured graph, values
            that are not finite, samples of the wrong shape or type.
    """
    path = path_of(path, "the path of the checkpoint to write")
    if whitening is not None and not isinstance(whitening, Whitening):
        raise BlrcError(
            f"whitening={type(whitening).__name__}: expected a blrc.datasets.whitening.Whitening, as blrc.load has"
        )
    checkpoint = from_model(model, input, calibration, str(path), check_samples, example, heads, outputs)
    write(replace(checkpoint, whitening=whitening), path, compact)


def write(checkpoint: Checkpoint, path: Path, compact: bool = False) -> None:
    """Write a checkpoint that is in memory (atomically); `save` describes `compact`."""
    input, small = checkpoint.encoding, _compacted(checkpoint) if compact else {}
    tensors = {key: torch.from_numpy(np.array(small.get(key, value))) for key, value in checkpoint.tensors.items()}
    content = {
        "format": FORMAT,
        "version": version_of(checkpoint),
        "nodes": [{**asdict(node), "inputs": list(node.inputs)} for node in checkpoint.nodes],
        "tensors": tensors,
        "input": {
            "kind": input.kind,
            "shape": list(input.shape),
            "scale": float(input.scale),
            "mean": list(map(float, input.mean)),
            "std": list(map(float, input.std)),
            **({"table": [list(row) for row in input.given]} if input.given else {}),
            **({"at": list(input.at)} if input.at else {}),
            **({} if input.exact is None else {"exact": input.exact}),
        },
        "calibration": _deflate(checkpoint.calibration),
    }
    if checkpoint.whitening is not None:
        content["whitening"] = _tensors(whiten.pack(checkpoint.whitening))
    if checkpoint.original is not None:
        content["original"] = checkpoint.original.to_plain()
    if len(checkpoint.heads) > 1:
        content["heads"] = [list(head) for head in checkpoint.heads]
    if checkpoint.values:
        content["values"] = [[unit.scale, unit.offset] for unit in checkpoint.values]
    write_sealed(content, path)


def from_model(
    model: nn.Module,
    input: InputEncoding,
    calibration: NDArray[Any] | torch.Tensor | None = None,
    source: str = "model",
    check_samples: int | None = None,
    example: torch.Tensor | None = None,
    heads: Sequence[str] | None = None,
    outputs: Outputs | None = None,
) -> Checkpoint:
    """Return the checkpoint that `save` would write, without writing it."""
    if not isinstance(input, InputEncoding):
        raise BlrcError(f"input={type(input).__name__}: expected what blrc.pixels, blrc.int8_codes or blrc.bits gives")
    if example is not None and not isinstance(example, torch.Tensor):
        raise BlrcError(f"example={type(example).__name__}: expected a tensor, a batch of inputs as forward takes them")
    count = check_count(check_samples)
    given = array_of(calibration) if isinstance(calibration, torch.Tensor) else calibration
    model, notes = unwrapped(model)
    held = model.units_ if isinstance(model, GraphModel) else ()
    if isinstance(model, GraphModel) and model.pixels is not None:
        inner, codes = of_codes(model, input, source)
        loaded = from_model(inner, codes, calibration, source, check_samples, example, heads, outputs)
        return replace(loaded, encoding=input, values=held if outputs is None else loaded.values)
    inside = named_modules(model).values() if isinstance(model, nn.Module) else ()
    if any(isinstance(module, GraphModel) and module.pixels is not None for module in inside):
        raise BlrcError(f"{source}: holds a loaded network; save that itself, as blrc.load(...).model() gives it")
    strictly = captured_strictly(model, heads)
    samples = samples_of(given, input.shape, input.dtype)
    if strictly is not None:
        nodes, named = strictly
        if input.exact:
            raise BlrcError(
                f"{source}: exact pixels are for networks in plain PyTorch; layers of blrc.nn train on codes: leave "
                "out exact=True, and train on what input.real gives"
            )
        tensors = dict(tensors_of(model, [node.name for node in nodes]))
        checkpoint = Checkpoint(nodes, tensors, input, samples, source, heads=named)
        check(checkpoint)
        check_equal(model, nodes, tensors, input, samples, count, named)
        if named:
            pieces(sample(checkpoint, running=True))
    else:
        if samples is not None:
            input.check(samples, f"{source}: calibration samples")
        checkpoint, found = _by_value(model, input, samples, source, count, example, heads)
        notes += found
    units = held if outputs is None else units_of(outputs, checkpoint.heads, source)
    checkpoint = replace(checkpoint, values=units)
    for note in notes:
        if checkpoint.values and note.startswith(LEFT_OUT):
            raise BlrcError(
                f"{source}: {note}; of a network of values that would change them: let forward give what the last "
                "layer gives"
            )
        warnings.warn(f"{source}: {note}", stacklevel=3)
    return checkpoint


def _by_value(
    model: nn.Module,
    input: InputEncoding,
    samples: NDArray[Any] | None,
    source: str,
    count: int | None,
    example: torch.Tensor | None,
    heads: Sequence[str] | None,
) -> tuple[Checkpoint, tuple[str, ...]]:
    """Return a module in plain PyTorch, whose pixels are not rounded if possible, and what to tell of it."""
    size = sum(value.numel() for value in values_of(model))

    def captured(encoding: InputEncoding) -> tuple[Checkpoint, tuple[str, ...]]:
        found = read(model, encoding, inputs_of(encoding, samples, count, size), example, heads)
        checkpoint = Checkpoint(found.nodes, found.tensors, found.reads(encoding), samples, source, heads=found.heads)
        check(checkpoint)
        net = sample(checkpoint, running=True)
        check_shapes(net)
        pieces(net)
        return checkpoint, found.notes

    exact = exactly(input)
    if exact is None:
        return captured(input)
    try:
        return captured(exact)
    except BlrcError as error:
        why = error
    try:
        checkpoint, notes = captured(input)
    except BlrcError as error:
        raise (error if ROUND in str(why) else why) from None
    return checkpoint, (*notes, f"{ROUNDED}{why}")


def write_sealed(content: Mapping[str, Any], path: Path) -> None:
    """Write a sealed file of plain data and tensors (atomically); the same content gives the same bytes."""
    buffer = io.BytesIO()
    torch.save(_interned(content), buffer)
    write_atomically(path, _seal(buffer.getvalue()))


def _tensors(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for key, value in plain.items()}


def _compacted(checkpoint: Checkpoint) -> dict[str, NDArray[np.int8]]:
    """Return what stands for weights in a compact checkpoint, by key: signs of fixed ones, codes of random ones."""
    found = {key: signs_of(checkpoint.tensors[key]) for key in shadows_of(checkpoint)}
    for layer in binary_layers(checkpoint):
        weights = checkpoint.coded(layer)
        found |= {f"{layer}.weight.{name}": c for name, c in zip(weights.coding.tensors, weights.codes, strict=True)}
    return found


def _deflate(samples: NDArray[Any] | None) -> dict[str, Any] | None:
    if samples is None:
        return None
    packed = zlib.compress(np.ascontiguousarray(samples).tobytes(), 9)
    data = torch.from_numpy(np.frombuffer(packed, dtype=np.uint8).copy())
    return {"dtype": samples.dtype.name, "shape": list(samples.shape), "deflated": data}


def _interned(content: Any) -> Any:
    """Return the same plain data, in which equal strings are one object.

    Pickle writes an object that it has met before as a reference, so the bytes would depend on which strings happen to
    be shared. With interned strings the same network gives the same file, whether it was just trained or loaded.
    """
    if isinstance(content, dict):
        return {_interned(key): _interned(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_interned(value) for value in content]
    return sys.intern(str(content)) if isinstance(content, str) else content


def _seal(archive: bytes) -> bytes:
    """Append the SHA-256 as the zip's comment; the archive's last two bytes are the comment's length (so far 0)."""
    if archive[-2:] != b"\0\0":
        raise RuntimeError("torch.save wrote a zip with a comment, which blrc.frontend.checkpoint does not expect")
    body = archive[:-2] + SEAL_BYTES.to_bytes(2, "little")
    return body + SEAL + hashlib.sha256(body).hexdigest().encode()
