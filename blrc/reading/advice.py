"""Recognise files of other programs by their first bytes and by the names in a zip's directory.

Nothing is unpickled: `pickletools` lists the opcodes of a pickle without carrying any of them out.
"""

from __future__ import annotations

import pickletools
import struct
import zipfile
from pathlib import Path

OWN = "make one with blrc.save() or 'blrc train'"
_LOAD = "load it into your model, and then write a checkpoint with blrc.save()"
_HEAD = 64  # first bytes that tell the kind of a file
_DIRECTORY = 1 << 20  # bytes of a zip's directory that are read; those of honest checkpoints have a few thousand
_PICKLE = 1 << 20  # bytes of a pickle that are looked at
_END = b"PK\x05\x06"  # a zip's last record, before a comment of at most 2^16 - 1 bytes
_END_BYTES = 22
_PICKLES = tuple(b"\x80" + bytes([version]) for version in range(2, 6))
_TRAINING = {"state_dict", "model_state_dict", "optimizer", "optimizer_state_dict", "model", "epoch"}
# Modules whose classes a file of tensors names.
_PLAIN = ("torch._utils", "torch", "collections", "torch.serialization", "torch.storage", "numpy", "torch.nn.parameter")
TORCH = "a torch file"
"""How advice on files begins that torch.save wrote, whole, since their directory stands at their end."""
_WRAPPED = {"module.": "DataParallel", "_orig_mod.": "torch.compile"}  # prefixes of keys, and whose they are
_MAGIC = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras?)", _LOAD),
    (b"GGUF", "a GGUF file", _LOAD),
    (b"\x1f\x8b", "a gzip file (a data set?)", OWN),
    (b"\x7fELF", "a program or a library", OWN),
    (b"\x89PNG", "an image", OWN),
    (b"\xff\xd8\xff", "an image", OWN),
)


def advice(path: Path) -> str:
    """Return what a file that is no checkpoint seems to be and what to do, such as ``a torch file (...): load it ...``.

    A bounded part of the file is read, and the function never fails: a file that it does not recognise gets the general
    advice.
    """
    try:
        if not path.is_file():  # a device or a pipe would be read for ever
            return OWN
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD)
            file.seek(max(0, size - _END_BYTES - 0xFFFF))
            tail = file.read(_END_BYTES + 0xFFFF)
        if head.startswith(b"PK"):
            return _of_zip(path, tail)
        if head.startswith(_PICKLES):
            with path.open("rb") as file:
                return f"{_of_pickle(file.read(_PICKLE))}: {_LOAD}"
    except (OSError, ValueError):
        return OWN
    return of_head(head, path.suffix)


def of_head(head: bytes, suffix: str = "") -> str:
    """Return the advice for the first bytes of a file that is neither a zip nor a pickle."""
    for magic, what, how in _MAGIC:
        if head.startswith(magic):
            return f"{what}: {how}" if how == _LOAD else f"{what}; {how}"
    if head[4:8] == b"TFL3":
        return f"a TensorFlow Lite model, which cannot be turned back into layers; {OWN}"
    if len(head) > 9 and head[8:9] == b"{" and struct.unpack("<Q", head[:8])[0] < 1 << 32:
        return f"a safetensors file of weights: {_LOAD}"
    if suffix == ".onnx" or (head[:1] == b"\x08" and head[2:3] in (b"\x12", b"\x3a", b"\x42") and head[1] < 32):
        return f"an ONNX model, which cannot be turned back into layers; {OWN}"
    if head.lstrip()[:1] in (b"{", b"["):
        return f"a JSON file (the manifest of an export?); {OWN}"
    return OWN


def _of_zip(path: Path, tail: bytes) -> str:
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_BYTES:
        return f"a zip file that was cut off; {OWN}"
    if int.from_bytes(tail[at + 12 : at + 16], "little") > _DIRECTORY:
        return f"a zip file; {OWN}"
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            folders = {name.partition("/")[2] for name in names}
            if "constants.pkl" in folders or any(name.startswith("code/") for name in folders):
                return f"a TorchScript file: save the module that it was made from with blrc.save(); {OWN}"
            if "data.pkl" in folders:
                pickle = next(name for name in names if name.endswith("/data.pkl"))
                with archive.open(pickle) as file:
                    return f"{_of_pickle(file.read(_PICKLE))}: {_LOAD}"
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError):
        return f"a damaged zip file; {OWN}"
    except Exception:  # decompressors raise what they like on damaged data
        return f"a damaged zip file; {OWN}"
    if any(name.endswith(".weights.h5") for name in names):
        return f"a Keras file: {_LOAD}"
    if names and all(name.endswith(".npy") for name in names):
        return f"an .npz file of arrays (the program of an export?); {OWN}"
    return f"a zip file; {OWN}"


def _of_pickle(content: bytes) -> str:
    """Say which kind of torch file a pickle belongs to, from the classes and texts that it names."""
    classes: set[str] = set()
    texts: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name == "GLOBAL":
                classes.add(str(argument).partition(" ")[0])
            elif opcode.name == "STACK_GLOBAL" and len(texts) >= 2:
                classes.add(texts[-2])
            elif isinstance(argument, str):
                texts.append(argument)
    except Exception:  # a pickle that was cut off or damaged: what was seen so far has to do
        pass
    said = set(texts)
    if "pytorch-lightning_version" in said:
        return "a torch file (a checkpoint of Lightning, whose weights are under 'state_dict')"
    if any(name.startswith("torch.nn.modules") for name in classes) or not classes <= set(_PLAIN):
        if any(name.partition(".")[0] == "torch" for name in classes):
            return "a torch file (a whole pickled model)"
        return "a pickle"
    if said & _TRAINING:
        return "a torch file (a training checkpoint)"
    if classes:
        keys = [text for text in texts if "." in text]
        for prefix, whose in _WRAPPED.items():
            if keys and all(key.startswith(prefix) for key in keys):
                who = f"{whose} put {prefix!r} before its keys, which you have to leave out"
                return f"{TORCH} (a state_dict; {who})"
        return "a torch file (a state_dict or tensors)"
    return "a torch file or a pickle"
