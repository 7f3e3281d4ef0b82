"""Checkpoints: a trained network in one file, from which an export needs nothing else.

The file is a torch zip of tensors and plain data (it loads under ``weights_only=True``) that ends in a zip comment
with the SHA-256 of everything before it. It is checked before anything is unpickled, so a damaged
file is refused as a whole.

    format, version    "blrc-checkpoint", 1
    nodes              the graph of named layers: name, kind, inputs, options
    tensors            parameters and buffers by state_dict key; logits as float32, or as int8 codes (`blrc.logits`)
    input              the input's encoding
    calibration        raw samples on which norm statistics are re-estimated, deflated, or None
"""

from __future__ import annotations

import hashlib
import io
import sys
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc import logits
from blrc.encode import InputEncoding
from blrc.errors import BlrcError
from blrc.files import write_atomically
from blrc.graph import GraphModel, Node, capture

FORMAT = "blrc-checkpoint"
REAL_FORMAT = "blrc-full-precision"
VERSION = 1
_SEAL = b"blrc sha256 "
_SEAL_BYTES = len(_SEAL) + 64
_LOGITS = ".weight.logits"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A loaded checkpoint.

    Attributes:
        nodes: the layers in order.
        tensors: parameters and buffers by state_dict key; logits may be int8 codes.
        encoding: how raw input becomes codes.
        calibration: raw samples ``(N, *encoding.shape)``, or None.
        source: what to call it in messages (the path).
    """

    nodes: tuple[Node, ...]
    tensors: Mapping[str, NDArray[Any]]
    encoding: InputEncoding
    calibration: NDArray[Any] | None
    source: str

    def model(self) -> nn.Module:
        """The network as a torch module, in training mode, with the state_dict keys of the one that was saved."""
        model = GraphModel(self.nodes)
        model.load_state_dict(
            {key: torch.from_numpy(_float_logits(key, value).copy()) for key, value in self.tensors.items()}
        )
        return model

    def logit_codes(self, layer: str) -> NDArray[np.int8]:
        """8-bit codes of a binary layer's logits (made now where the checkpoint holds floats)."""
        held = self.tensors[layer + _LOGITS]
        return held if held.dtype == np.int8 else logits.to_codes(held)


def save(
    model: nn.Module,
    path: str | Path,
    *,
    input: InputEncoding,
    calibration: NDArray[Any] | torch.Tensor | None,
    compact: bool = False,
) -> None:
    """Write a checkpoint (atomically).

    Args:
        model: any module made of `blrc.nn` layers; a user's own class needs no registration.
        input: how raw input becomes codes (`blrc.encode.pixels`, `int8_codes` or `bits`).
        calibration: raw samples ``(N, *input.shape)`` of type ``input.dtype``, at least 2; a few hundred suffice.
        None leaves a
            checkpoint that cannot be exported without re-estimation samples.
        compact: hold logits as 8-bit codes, a quarter of the size. MAP weights and samples stay the same bit for bit.

    Raises:
        BlrcError: layers without a binary form, values that are not finite, samples of the wrong shape or type.
    """
    path = Path(path)
    checkpoint = from_model(model, input, calibration, source=str(path))
    tensors = {key: _stored(key, value, compact) for key, value in checkpoint.tensors.items()}
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
    buffer = io.BytesIO()
    torch.save(_interned(content), buffer)
    write_atomically(path, _seal(buffer.getvalue()))


def from_model(
    model: nn.Module, input: InputEncoding, calibration: NDArray[Any] | torch.Tensor | None, source: str = "model"
) -> Checkpoint:
    """What `save` would write, without writing it."""
    samples = _array(calibration) if isinstance(calibration, torch.Tensor) else calibration
    nodes = capture(model)
    prefixes = tuple(f"{node.name}." for node in nodes)
    tensors = {key: _array(value) for key, value in model.state_dict().items() if key.startswith(prefixes)}
    checkpoint = Checkpoint(nodes, tensors, input, samples, source)
    _check(checkpoint)
    return checkpoint


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint. Nothing in the file is executed.

    Raises:
        BlrcError: no such file, not a checkpoint, truncated, damaged, of a newer format version, or with values that
        are not finite.
    """
    path = Path(path)
    content = _read(path)
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


def save_real(model: nn.Module, path: str | Path) -> None:
    """Write a full-precision network (`blrc.models`, flavour ``fp``): a baseline, which cannot be compiled."""
    content = {"format": REAL_FORMAT, "version": VERSION, "tensors": dict(model.state_dict())}
    buffer = io.BytesIO()
    torch.save(_interned(content), buffer)
    write_atomically(Path(path), _seal(buffer.getvalue()))


def load_real(path: str | Path) -> dict[str, torch.Tensor]:
    """The state_dict that `save_real` wrote.

    Raises:
        BlrcError: another file, or a damaged one.
    """
    content = _read(Path(path))
    if content.get("format") != REAL_FORMAT:
        raise BlrcError(f"{path}: not a full-precision network; make one with 'blrc train mnist --model fp'")
    return dict(content["tensors"])


def _decode(content: Mapping[str, Any], source: str) -> Checkpoint:
    raw = content["input"]
    encoding = InputEncoding(raw["kind"], tuple(raw["shape"]), raw["scale"], tuple(raw["mean"]), tuple(raw["std"]))
    nodes = tuple(Node(n["name"], n["kind"], tuple(n["inputs"]), dict(n["options"])) for n in content["nodes"])
    tensors = {key: value.contiguous().numpy() for key, value in content["tensors"].items()}
    return Checkpoint(nodes, tensors, encoding, _inflate(content["calibration"]), source)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise BlrcError(
            f"{path}: no such file; give the path of a checkpoint written by blrc.save() or 'blrc train'"
        ) from None
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None
    body, seal = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
    if not raw.startswith(b"PK\x03\x04"):
        raise BlrcError(f"{path}: not a blrc checkpoint; make one with blrc.save() or 'blrc train'")
    if not seal.startswith(_SEAL):
        raise BlrcError(f"{path}: not a blrc checkpoint, or truncated; copy it again, or write it with blrc.save()")
    if seal[len(_SEAL) :] != hashlib.sha256(body).hexdigest().encode():
        raise BlrcError(f"{path}: damaged (its SHA-256 does not match its contents); copy it again")
    try:
        content = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:  # a sealed file can hold anything, on which zip readers and unpicklers raise anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BlrcError(f"{path}: refused: not plain tensors and data ({reason}); nothing in it was executed") from None
    return content if isinstance(content, dict) else {}


def _interned(content: Any) -> Any:
    """The same plain data with equal strings being one object.

    Pickle writes an object that it has met before as a reference, so bytes would depend on which strings happen to be
    shared; now the same network gives the same file, whether it was just trained or loaded.
    """
    if isinstance(content, dict):
        return {_interned(key): _interned(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_interned(value) for value in content]
    return sys.intern(str(content)) if isinstance(content, str) else content


def _seal(archive: bytes) -> bytes:
    """Append the SHA-256 as the zip's comment; its last two bytes are the comment's length (so far 0)."""
    if archive[-2:] != b"\0\0":
        raise RuntimeError("torch.save wrote a zip with a comment, which blrc.checkpoint does not expect")
    body = archive[:-2] + _SEAL_BYTES.to_bytes(2, "little")
    return body + _SEAL + hashlib.sha256(body).hexdigest().encode()


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
    for key in sorted({*wanted, *checkpoint.tensors}):
        held = checkpoint.tensors.get(key)
        if held is None or key not in wanted:
            raise BlrcError(f"{checkpoint.source}: tensor {key!r} is {'missing' if held is None else 'of no layer'}")
        fits = held.dtype.kind == ("f" if wanted[key].is_floating_point() else "i") or (
            held.dtype == np.int8 and key.endswith(_LOGITS)
        )
        if held.shape != tuple(wanted[key].shape) or not fits:
            raise BlrcError(
                f"{checkpoint.source}: tensor {key!r} is {held.dtype} {held.shape}, but its layer has "
                f"{wanted[key].dtype} {tuple(wanted[key].shape)}; save the model again"
            )


def _array(value: torch.Tensor) -> NDArray[Any]:
    # contiguous() first: a channels_last tensor has its values in another order of bytes. NumPy has no bfloat16.
    plain = value.detach().cpu().contiguous()
    return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy().copy()


def _stored(key: str, value: NDArray[Any], compact: bool) -> torch.Tensor:
    coded = logits.to_codes(value) if compact and key.endswith(_LOGITS) and value.dtype != np.int8 else value
    return torch.from_numpy(np.array(coded))


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
