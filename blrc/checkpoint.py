"""Checkpoints: a trained network in one file, from which an export needs nothing else.

The file is a sealed torch zip of tensors and plain data (`blrc.sealed`).

    format, version    "blrc-checkpoint", 1
    nodes              the graph of named layers: name, kind, inputs, options
    tensors            parameters and buffers by state_dict key; logits as float32, or as int8 codes (`blrc.logits`);
                       a Binarized NN's shadow weights as float32, or their signs as int8
    input              the input's encoding
    calibration        raw samples on which norm statistics are re-estimated, deflated, or None
    whitening          how images become raw samples (`blrc.whiten`), or None
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc import logits, sealed, whiten
from blrc.advice.given import path_of, samples_of
from blrc.capture.check import check_count, check_equal
from blrc.capture.tensors import array_of, tensors_of
from blrc.capture.trace import capture
from blrc.encode import InputEncoding, InputKind
from blrc.errors import BlrcError
from blrc.graph import GraphModel, Node
from blrc.whiten import Whitening

FORMAT = "blrc-checkpoint"
REAL_FORMAT = "blrc-full-precision"
VERSION = 1
_LOGITS = ".weight.logits"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A loaded checkpoint.

    Attributes:
        nodes: the layers in order.
        tensors: parameters and buffers by state_dict key; logits may be int8 codes, shadow weights int8 signs.
        encoding: how raw input becomes codes.
        calibration: raw samples ``(N, *encoding.shape)``, or None.
        source: what to call it in messages (the path).
        whitening: how images become raw input, where the network takes whitened images.
    """

    nodes: tuple[Node, ...]
    tensors: Mapping[str, NDArray[Any]]
    encoding: InputEncoding
    calibration: NDArray[Any] | None
    source: str
    whitening: Whitening | None = None

    def model(self) -> nn.Module:
        """The network as a torch module, in training mode, with the state_dict keys of the one that was saved."""
        with torch.device("cpu"):
            model = GraphModel(self.nodes).float()  # whatever torch's default device and type are
        model.load_state_dict(
            {key: torch.from_numpy(_float_logits(key, value).copy()) for key, value in self.tensors.items()}
        )
        return model

    def samples(self) -> NDArray[Any]:
        """The calibration samples.

        Raises:
            BlrcError: there are none.
        """
        if self.calibration is None:
            raise BlrcError(
                f"{self.source}: holds no calibration samples, on which the norms are re-estimated; "
                "save it again with blrc.save(..., calibration=samples)"
            )
        return self.calibration

    def logit_codes(self, layer: str) -> NDArray[np.int8]:
        """8-bit codes of a binary layer's logits (made now where the checkpoint holds floats)."""
        held = self.tensors[layer + _LOGITS]
        return held if held.dtype == np.int8 else logits.to_codes(held)

    def signs(self, layer: str) -> NDArray[np.int8]:
        """The +-1 weights of a layer of a Binarized NN."""
        return _signs(self.tensors[f"{layer}.weight"])


def save(
    model: nn.Module,
    path: str | Path,
    *,
    input: InputEncoding,
    calibration: NDArray[Any] | torch.Tensor | None,
    compact: bool = False,
    whitening: Whitening | None = None,
    check_samples: int | None = None,
) -> None:
    """Write a checkpoint (atomically).

    Args:
        model: any module made of `blrc.nn` layers; a user's own class needs no registration.
        input: how raw input becomes codes (`blrc.encode.pixels`, `int8_codes` or `bits`).
        calibration: raw samples ``(N, *input.shape)`` of type ``input.dtype``, at least 2; a few hundred suffice.
            None leaves a
            checkpoint that cannot be exported without re-estimation samples.
        compact: hold logits as 8-bit codes, a quarter of the size. MAP weights and samples stay the same bit for bit.
            Of a Binarized NN it holds the signs: the same network, but it cannot be trained on as if not saved.
        whitening: kept with a network that takes whitened images, so that `blrc eval` and others can whiten (9.5 MB).
        check_samples: on how many calibration samples (or random ones) the module runs beside its captured graph, at
            least 1; by default 32, and 8 of more than a million weights.

    Raises:
        BlrcError: layers without a binary form, a module that computes something else than its captured graph, values
            that are not finite, samples of the wrong shape or type.
    """
    path = path_of(path, "the path of the checkpoint to write")
    checkpoint = from_model(model, input, calibration, source=str(path), check_samples=check_samples)
    shadows = _shadows(checkpoint)
    tensors = {
        key: torch.from_numpy(np.array(_compacted(key, value, shadows) if compact else value))
        for key, value in checkpoint.tensors.items()
    }
    content = {
        "format": FORMAT,
        "version": VERSION,
        "nodes": [{**asdict(node), "inputs": list(node.inputs)} for node in checkpoint.nodes],
        "tensors": tensors,
        "input": {
            "kind": input.kind,
            "shape": list(input.shape),
            "scale": float(input.scale),
            "mean": list(map(float, input.mean)),
            "std": list(map(float, input.std)),
        },
        "calibration": _deflate(checkpoint.calibration),
    }
    if whitening is not None:
        content["whitening"] = _tensors(whiten.pack(whitening))
    sealed.write(content, path)


def from_model(
    model: nn.Module,
    input: InputEncoding,
    calibration: NDArray[Any] | torch.Tensor | None,
    source: str = "model",
    check_samples: int | None = None,
) -> Checkpoint:
    """Return what `save` would write, without writing it."""
    count = check_count(check_samples)
    given = array_of(calibration) if isinstance(calibration, torch.Tensor) else calibration
    nodes = capture(model)
    samples = samples_of(given, input.shape, input.dtype)
    tensors = dict(tensors_of(model, [node.name for node in nodes]))
    checkpoint = Checkpoint(nodes, tensors, input, samples, source)
    _check(checkpoint)
    check_equal(model, nodes, tensors, input, samples, count)
    return checkpoint


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint. Nothing in the file is executed.

    Raises:
        BlrcError: no such file, not a checkpoint, truncated, damaged, of a newer format version, or with values that
        are not finite.
    """
    path = path_of(path)
    content = sealed.read(path)
    if content.get("format") == REAL_FORMAT:
        raise BlrcError(f"{path}: a full-precision network, which cannot be compiled; train one with --model blrnet")
    if content.get("format") != FORMAT:
        raise BlrcError(f"{path}: not a blrc checkpoint; make one with blrc.save() or 'blrc train'")
    version = content.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise BlrcError(
            f"{path}: checkpoint format version {version}, but this blrc reads up to {VERSION}; update blrc"
        )
    try:
        checkpoint = _decode(content, str(path))
    except BlrcError as error:
        raise BlrcError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, zlib.error) as error:
        raise BlrcError(f"{path}: not a valid blrc checkpoint ({error!r}); save it again with blrc.save()") from None
    _check(checkpoint)
    return checkpoint


def save_real(model: nn.Module, path: str | Path, kind: InputKind = "uint8") -> None:
    """Write a full-precision network (`blrc.models`, flavour ``fp``): a baseline, which cannot be compiled.

    Args:
        kind: of its input: pixels, or whitened codes.
    """
    content = {"format": REAL_FORMAT, "version": VERSION, "tensors": dict(model.state_dict()), "kind": kind}
    sealed.write(content, Path(path))


def load_real(path: str | Path) -> dict[str, torch.Tensor]:
    """The state_dict that `save_real` wrote.

    Raises:
        BlrcError: another file, or a damaged one.
    """
    content = sealed.read(Path(path))
    if content.get("format") != REAL_FORMAT:
        raise BlrcError(f"{path}: not a full-precision network; make one with 'blrc train --model fp'")
    return dict(content["tensors"])


def real_kind(path: str | Path) -> InputKind:
    """The kind of input of the network that `save_real` wrote."""
    kind: InputKind = sealed.read(Path(path)).get("kind", "uint8")  # files of before whitening do not say it
    return kind


def _decode(content: Mapping[str, Any], source: str) -> Checkpoint:
    raw = content["input"]
    encoding = InputEncoding(raw["kind"], tuple(raw["shape"]), raw["scale"], tuple(raw["mean"]), tuple(raw["std"]))
    nodes = tuple(Node(n["name"], n["kind"], tuple(n["inputs"]), dict(n["options"])) for n in content["nodes"])
    tensors = {key: value.contiguous().numpy() for key, value in content["tensors"].items()}
    held = content.get("whitening")
    whitening = None if held is None else whiten.unpack(_arrays(held))
    return Checkpoint(nodes, tensors, encoding, _inflate(content["calibration"]), source, whitening)


def _tensors(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for key, value in plain.items()}


def _arrays(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.numpy() if isinstance(value, torch.Tensor) else value for key, value in plain.items()}


def _check(checkpoint: Checkpoint) -> None:
    where = checkpoint.source
    _check_tensors(checkpoint)
    for key, value in checkpoint.tensors.items():
        if value.dtype.kind != "f" or np.isfinite(value).all():
            continue
        layer, what = key.rsplit(".", 1)[0].removesuffix(".weight"), key.rsplit(".", 1)[1]
        rows = np.atleast_1d(value)
        channel = int(np.argmax(~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)))
        raise BlrcError(
            f"{where}: layer {layer!r}: {what} of channel {channel} is NaN or infinite; the training diverged: "
            "use an earlier checkpoint"
        )
    samples = checkpoint.calibration
    if samples is not None:
        checkpoint.encoding.check(samples, f"{where}: calibration samples")
        if len(samples) < 2:
            raise BlrcError(
                f"{where}: calibration needs at least 2 samples, got {len(samples)}; a few hundred are better"
            )


def _check_tensors(checkpoint: Checkpoint) -> None:
    """Layers can be built from their options, and each of their tensors is there with the right shape and type."""
    try:
        with torch.device("meta"):
            wanted = GraphModel(checkpoint.nodes).state_dict()
    except (AttributeError, BlrcError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BlrcError(f"{checkpoint.source}: its layers cannot be built: {reason}; save it again") from None
    shadows = _shadows(checkpoint)
    for key in sorted({*wanted, *checkpoint.tensors}):
        held = checkpoint.tensors.get(key)
        if held is None or key not in wanted:
            raise BlrcError(f"{checkpoint.source}: tensor {key!r} is {'missing' if held is None else 'of no layer'}")
        fits = held.dtype.kind == ("f" if wanted[key].is_floating_point() else "i") or (
            held.dtype == np.int8 and (key.endswith(_LOGITS) or key in shadows)
        )
        if held.shape != tuple(wanted[key].shape) or not fits:
            raise BlrcError(
                f"{checkpoint.source}: tensor {key!r} is {held.dtype} {held.shape}, but its layer has "
                f"{wanted[key].dtype} {tuple(wanted[key].shape)}; save the model again"
            )


def _compacted(key: str, value: NDArray[Any], shadows: frozenset[str]) -> NDArray[Any]:
    if key in shadows:
        return _signs(value)
    return logits.to_codes(value) if key.endswith(_LOGITS) and value.dtype != np.int8 else value


def _shadows(checkpoint: Checkpoint) -> frozenset[str]:
    """Keys of the weights of a Binarized NN, of which only the signs count."""
    return frozenset(f"{node.name}.weight" for node in checkpoint.nodes if node.kind in ("ste_conv2d", "ste_linear"))


def _signs(weights: NDArray[Any]) -> NDArray[np.int8]:
    return np.where(weights >= 0, np.int8(1), np.int8(-1))


def _float_logits(key: str, value: NDArray[Any]) -> NDArray[Any]:
    return logits.from_codes(value) if key.endswith(_LOGITS) and value.dtype == np.int8 else value


def _deflate(samples: NDArray[Any] | None) -> dict[str, Any] | None:
    if samples is None:
        return None
    packed = zlib.compress(np.ascontiguousarray(samples).tobytes(), 9)
    data = torch.from_numpy(np.frombuffer(packed, dtype=np.uint8).copy())
    return {"dtype": samples.dtype.name, "shape": list(samples.shape), "deflated": data}


def _inflate(stored: Mapping[str, Any] | None) -> NDArray[Any] | None:
    if stored is None:
        return None
    dtype = {"uint8": np.uint8, "int8": np.int8}[stored["dtype"]]
    raw = zlib.decompress(stored["deflated"].numpy().tobytes())
    return np.frombuffer(raw, dtype=dtype).reshape(stored["shape"]).copy()
