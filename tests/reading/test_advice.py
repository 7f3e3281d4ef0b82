"""What is given in place of a module, a checkpoint or samples gets one line that says what to do."""

from __future__ import annotations

import json
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_files import evil_files
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import encoding_of, raw_samples
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.saving import from_model
from blrc.inspection.inspection import inspect
from blrc.reading.advice import advice

ENCODING = encoding_of("uint8", (1, 4, 4))
SAMPLES = raw_samples(ENCODING, 8, 0)


def network() -> nn.Sequential:
    return nn.Sequential(
        bnn.SteConv2d(1, 2, 3), nn.BatchNorm2d(2), bnn.SteSign(), nn.Flatten(), bnn.SoftmaxLinear(8, 3)
    )


def line(call: Callable[[], Any]) -> str:
    with pytest.raises(BlrcError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


class FullyShardedDataParallel(nn.Module):
    __module__ = "torch.distributed.fsdp.fully_sharded_data_parallel"


class DistributedDataParallel(nn.Module):
    __module__ = "torch.nn.parallel.distributed"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile, of itself
@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (lambda m: DistributedDataParallel(), ["DistributedDataParallel is a wrapper", ".module"]),
        (torch.optim.swa_utils.AveragedModel, ["AveragedModel is a wrapper", ".module"]),
        (lambda m: FullyShardedDataParallel(), ["FullyShardedDataParallel is a wrapper", "state_dict"]),
        (lambda m: nn.Sequential(nn.DataParallel(m)), ["layer '0': DataParallel is a wrapper", ".module"]),
        (lambda m: nn.Sequential(torch.compile(m)), ["module '0': OptimizedModule is a wrapper", "._orig_mod"]),
        (lambda m: type("Mine", (nn.DataParallel,), {})(m), ["Mine is a wrapper", "its .module"]),
        (
            lambda m: torch.optim.swa_utils.AveragedModel(nn.DataParallel(m)),
            ["AveragedModel is a wrapper", "inside of all its wrappers: its .module.module"],
        ),
        (lambda m: m.state_dict(), ["is a dictionary", "load_state_dict"]),
        (lambda m: type(m), ["Sequential is a class"]),
        (lambda m: "net.pt", ["the module comes first"]),
        (lambda m: from_model(m, ENCODING, SAMPLES), ["a loaded checkpoint", ".model()"]),
        (lambda m: None, ["a NoneType", "torch.nn.Module"]),
        (lambda m: [m], ["a list", "torch.nn.Module"]),
        (lambda m: m.forward, ["a method", "torch.nn.Module"]),
    ],
)
def test_wrappers_and_other_things_in_place_of_a_module(
    wrap: Callable[[nn.Module], Any], words: list[str], tmp_path: Path
) -> None:
    said = line(lambda: blrc.save(wrap(network()), path=tmp_path / "a.pt", input=ENCODING, calibration=SAMPLES))
    for word in words:
        assert word in said
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        (nn.DataParallel, "saved the module inside of DataParallel, its .module"),
        (torch.compile, "saved the module inside of OptimizedModule, its ._orig_mod"),
        (lambda m: nn.DataParallel(torch.compile(m)), "saved the module inside of DataParallel, its .module._orig_mod"),
    ],
)
def test_wrappers_that_compute_the_same_are_taken_off_with_a_word(
    wrap: Callable[[nn.Module], Any], said: str, tmp_path: Path
) -> None:
    model = network()
    with pytest.warns(UserWarning, match=re.escape(said) + "$"):
        blrc.save(wrap(model), path=tmp_path / "a.pt", input=ENCODING, calibration=SAMPLES)
    assert set(blrc.load(tmp_path / "a.pt").tensors) == set(model.state_dict())
    hooked = wrap(model)
    hooked.register_forward_hook(lambda m, x, y: -y)
    assert "wrapper" in line(lambda: from_model(hooked, ENCODING, SAMPLES))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_in_place_of_a_module(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(nn.Sequential(nn.Flatten()), torch.zeros(1, 1, 4, 4))
        torch.jit.save(scripted, tmp_path / "script.pt")
    for module in (scripted, nn.Sequential(nn.Sequential(scripted)), nn.DataParallel(scripted)):
        said = line(
            lambda module=module: blrc.save(module, path=tmp_path / "a.pt", input=ENCODING, calibration=SAMPLES)
        )  # type: ignore[misc]
        assert "scripted or traced from" in said
    assert "a TorchScript file: save the module that it was made from" in line(
        lambda: blrc.load(tmp_path / "script.pt")
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_compiled_in_place() -> None:
    model = network()
    model.compile()
    assert "was compiled in place (Module.compile); set its _compiled_call_impl to None" in line(
        lambda: from_model(model, ENCODING, SAMPLES)
    )
    model._compiled_call_impl = None
    from_model(model, ENCODING, SAMPLES)


@pytest.mark.parametrize(
    "call",
    [
        blrc.load,
        lambda m: blrc.export(m, folder="out"),
        blrc.compile,
        inspect,
        lambda m: blrc.verify(m),
        lambda m: blrc.save(network(), path=m, input=ENCODING, calibration=SAMPLES),
    ],
)
@pytest.mark.parametrize(
    "given_",
    [network(), nn.DataParallel(network()), network().state_dict(), 3, None, ["a.pt"]],
    ids=lambda given_: type(given_).__name__,
)
def test_a_module_where_a_path_is_expected(call: Callable[[Any], Any], given_: Any) -> None:
    said = line(lambda: call(given_))
    assert "is expected" in said
    if isinstance(given_, nn.Module):
        assert "a module, where" in said
        assert "blrc.save(model, path=...)" in said


def test_paths_as_bytes_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    blrc.save(network(), path=bytes(path), input=ENCODING, calibration=SAMPLES)  # type: ignore[arg-type]

    class Fspath:
        def __fspath__(self) -> bytes:
            return bytes(path)

    assert blrc.load(Fspath()).nodes == blrc.load(bytes(path)).nodes == blrc.load(str(path)).nodes  # type: ignore[arg-type]


REAL = torch.rand(8, 1, 4, 4)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (list(SAMPLES), ["is a list", "numpy.stack", "(N, 1, 4, 4)", "uint8"]),
        (tuple(SAMPLES), ["is a tuple", "numpy.stack"]),
        (DataLoader(TensorDataset(REAL)), ["is a DataLoader", "numpy.stack"]),
        (TensorDataset(REAL), ["is a TensorDataset", "numpy.stack"]),
        ((sample for sample in SAMPLES), ["is a generator"]),
        (np.ma.masked_array(SAMPLES), ["is a MaskedArray"]),
        ("samples.npy", ["is a str"]),
        (REAL, ["type float32", "takes raw uint8", "before ToTensor"]),
        (REAL.bfloat16(), ["type float32", "before ToTensor"]),
        (REAL.numpy().astype(np.float64), ["type float64", "before ToTensor"]),
        (SAMPLES.astype(np.int64), ["type int64", "takes raw uint8"]),
        (SAMPLES.astype(object), ["type object"]),
        (SAMPLES[:, 0], ["shape (8, 4, 4)", "takes (N, 1, 4, 4)"]),
        (torch.from_numpy(SAMPLES).permute(0, 2, 3, 1), ["shape (8, 4, 4, 1)"]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_calibration_that_is_something_else(samples: Any, words: list[str], tmp_path: Path) -> None:
    said = line(lambda: blrc.save(network(), path=tmp_path / "a.pt", input=ENCODING, calibration=samples))
    for word in ["calibration", *words]:
        assert word in said
    assert not list(tmp_path.iterdir())


def foreign_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files of others, and what they are to be called."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    training = {"epoch": 3, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict()}
    lightning = {"pytorch-lightning_version": "2.4.0", "state_dict": model.state_dict(), "epoch": 1}
    found = {}
    for name, content, words in [
        (
            "state_dict",
            model.state_dict(),
            "not a blrc checkpoint, but a torch file (a state_dict or tensors): load it into your model",
        ),
        ("whole", model, "a torch file (a whole pickled model): load it into your model"),
        ("training", training, "a torch file (a training checkpoint): load it into your model"),
        ("lightning", lightning, "a torch file (a checkpoint of Lightning, whose weights are under 'state_dict')"),
        (
            "parallel",
            nn.DataParallel(model).state_dict(),
            "but a torch file (a state_dict; DataParallel put 'module.' before its keys, which you have to leave out): "
            "load it into your model",
        ),
        (
            "compiled",
            {f"_orig_mod.{key}": value for key, value in model.state_dict().items()},
            "a torch file (a state_dict; torch.compile put '_orig_mod.' before its keys, which you have to leave out)",
        ),
        ("tensor", torch.zeros(3), "a torch file (a state_dict or tensors)"),
    ]:
        torch.save(content, folder / f"{name}.pt")
        found[name] = (folder / f"{name}.pt", words)
        torch.save(content, folder / f"{name}_old.pt", _use_new_zipfile_serialization=False)
        found[f"{name}_old"] = (folder / f"{name}_old.pt", "load it into your model")
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    other = {
        "model.safetensors": (struct.pack("<Q", len(header)) + header + bytes(4), "a safetensors file of weights"),
        "model.onnx": (b"\x08\x08\x12\x07pytorch\x1a\x052.4.0", "an ONNX model"),
        "model.h5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file"),
        "model.tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "a TensorFlow Lite model"),
        "model.gguf": (b"GGUF\x03\0\0\0", "a GGUF file"),
        "plain.pkl": (pickle.dumps({"a": 1}), "load it into your model"),
        "data.gz": (b"\x1f\x8b\x08\0", "a gzip file"),
        "net.manifest.json": (b'{"name": "net"}', "a JSON file"),
        "empty.pt": (b"", "make one with blrc.save()"),
        "text.pt": (b"hello", "make one with blrc.save()"),
    }
    for name, (raw, words) in other.items():
        (folder / name).write_bytes(raw)
        found[name] = (folder / name, words)
    np.savez(folder / "net.program.npz", a=np.zeros(3))
    found["npz"] = (folder / "net.program.npz", "an .npz file of arrays")
    return found


def test_files_of_others_are_called_by_name(tmp_path: Path) -> None:
    for path, words in foreign_files(tmp_path).values():
        said = line(lambda path=path: blrc.load(path))  # type: ignore[misc]
        assert said.startswith(f"{path}: not a blrc checkpoint")
        assert words in said
        assert "blrc.save" in said
    assert "not a folder" in line(lambda: blrc.load(tmp_path))


def test_nothing_of_a_foreign_file_is_executed(tmp_path: Path) -> None:
    for name, content in evil_files(tmp_path, tmp_path / "executed").items():
        (tmp_path / name).write_bytes(content)
        assert isinstance(advice(tmp_path / name), str)
    assert not (tmp_path / "executed").exists()


@pytest.mark.nightly
def test_advice_reads_a_bounded_part_of_a_file(tmp_path: Path) -> None:
    """Gigabytes of zeros in a pickle inside a zip, a directory of a million names, a pipe, a device."""
    import os

    with (
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("archive/data.pkl", "w") as file,
    ):
        for _ in range(300):
            file.write(bytes(1 << 20))
    with zipfile.ZipFile(tmp_path / "names.pt", "w") as archive:
        for number in range(30_000):
            archive.writestr(f"archive/data/{number}", b"")
    os.mkfifo(tmp_path / "pipe.pt")
    assert "torch file" in advice(tmp_path / "bomb.pt") or "pickle" in advice(tmp_path / "bomb.pt")
    assert advice(tmp_path / "names.pt").startswith("a zip file")
    for path in (tmp_path / "pipe.pt", Path("/dev/zero"), tmp_path, tmp_path / "none"):
        assert advice(path) == "make one with blrc.save() or 'blrc train'"


_SHARED = Path()


@pytest.fixture(autouse=True, scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    global _SHARED
    _SHARED = tmp_path_factory.mktemp("foreign")
    foreign_files(_SHARED)


@settings(max_examples=200)
@given(st.data())
def test_damaged_files_of_others_get_some_advice(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(path for path in _SHARED.iterdir() if not path.name.startswith("fuzz"))))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    kept = data.draw(st.integers(len(content) // 2, len(content)))
    (_SHARED / "fuzz.pt").write_bytes(bytes(content[:kept]))
    said = line(lambda: blrc.load(_SHARED / "fuzz.pt"))
    assert "not a blrc checkpoint" in said


@pytest.mark.parametrize("given_", [None, "x", 3, SAMPLES, (1, 12, 12)])
def test_encodings_and_whitenings_that_are_something_else(given_: Any, tmp_path: Path) -> None:
    said = line(lambda: blrc.save(network(), path=tmp_path / "a.pt", input=given_, calibration=SAMPLES))
    assert said.startswith(f"input={type(given_).__name__}: expected what blrc.pixels")
    if given_ is not None:
        said = line(
            lambda: blrc.save(network(), path=tmp_path / "a.pt", input=ENCODING, calibration=SAMPLES, whitening=given_)
        )
        assert said.startswith(f"whitening={type(given_).__name__}: expected")
    assert not (tmp_path / "a.pt").exists()
