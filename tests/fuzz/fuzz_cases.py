"""Inputs of each kind: what a good one is made of, and what a command or a reader is given of a changed one."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from checkpoint_files import content_of, rewrite
from fuzz_mutations import BOUNDARIES, OTHERS, TEXTS, as_json, bytes_mutated, mutated, npz_mutated
from fuzz_onnx import onnx_file
from fuzz_onnx import prepare as prepare_onnx
from PIL import Image
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.cli.main import main
from blrc.datasets import labelled
from blrc.errors import BlrcError
from blrc.frontend import checkpoint
from blrc.program import program_file, reference, vectors
from blrc.program.program import Value
from blrc.reading import npz
from blrc.store.places import cache_folder
from blrc.targets.c.build.compiler import find_compiler
from blrc.targets.c.kernels.tiers import allowed
from blrc.training.machine.ranks import joined
from blrc.training.state import load_state

SHAPE = (1, 6, 6)
Case = Callable[[], object]
"""One input, ready to be read. It may return anything, or raise a `BlrcError` or a `SystemExit`."""


def prepare(folder: Path) -> None:
    """Write what is changed later: a checkpoint and its exports."""
    model = nn.Sequential(
        bnn.BinaryConv2d(1, 3, 3),
        bnn.StochasticBatchNorm2d(3),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(48, 3),
    )
    encoding = encoding_of("uint8", SHAPE)
    blrc.save(randomise(model, 0), path=folder / "net.pt", input=encoding, calibration=raw_samples(encoding, 8, 0))
    blrc.export(folder / "net.pt", folder=folder / "onnx", targets="onnx")
    blrc.export(folder / "net.pt", folder=folder / "c", targets="c")
    blrc.export(folder / "net.pt", folder=folder / "members", targets="onnx", members="2", gate="0.9")
    leveled = nn.Sequential(
        bnn.SteConv2d(1, 3, 3), nn.BatchNorm2d(3), bnn.SteLevels(2, 0.5), nn.AvgPool2d(2), nn.Flatten(),
        bnn.SoftmaxLinear(12, 3),
    )  # fmt: skip
    blrc.save(randomise(leveled, 0), path=folder / "leveled.pt", input=encoding)
    blrc.export(folder / "leveled.pt", folder=folder / "leveled", targets="onnx", name="net")
    ternary = nn.Sequential(
        bnn.BinaryConv2d(1, 3, 3, weight="ternary"), bnn.StochasticSign(), nn.Flatten(), bnn.SoftmaxLinear(48, 3)
    )
    blrc.save(randomise(ternary, 0), path=folder / "ternary.pt", input=encoding)
    blrc.export(folder / "ternary.pt", folder=folder / "ternary", targets="onnx", name="net")
    prepare_onnx(folder / "files")


def program(rng: Random, good: Path, place: Path) -> Case:
    """A program file; what is read of it is legal, and so it runs."""
    source = good / rng.choice(("onnx", "members", "leveled", "ternary")) / "net.program.npz"
    path = place / "net.program.npz"
    path.write_bytes(npz_mutated(npz.read(source), rng, lambda raw: as_json(mutated(json.loads(raw), rng), rng)))

    def run() -> None:
        found = program_file.load(path)
        inputs = np.zeros((2, *found.input.shape), bool if found.input.dtype == "bits" else found.input.dtype)
        for member in range(min(2, len(found.members))):
            reference.run(found, inputs, member)
        assert len(program_file.to_bytes(found)) <= 2 * path.stat().st_size + 10_000

    return run


def recorded(rng: Random, good: Path, place: Path) -> Case:
    path = place / "net.vectors.npz"
    found = program_file.load(good / "members" / "net.program.npz")
    path.write_bytes(npz_mutated(npz.read(good / "members" / "net.vectors.npz"), rng))

    def run() -> None:
        content = path.read_bytes()
        inputs = vectors.inputs_of(content, path, found)
        vectors.differences(content, path, found, vectors.record(found, inputs))

    return run


def manifest(rng: Random, good: Path, place: Path) -> Case:
    """A manifest, and files beside it that it may name."""
    shutil.copytree(good / "onnx", place / "out")
    path = place / "out" / "net.manifest.json"
    plain = json.loads(path.read_bytes())
    if rng.random() < 0.4:
        files = dict(plain["files"])
        digest = rng.choice(list(files.values()))
        files[rng.choice(("../victim", "/etc/hostname", "a/b", ".", "..", "net.c", "a" * 300, "a\0b", "\ud800"))] = (
            digest
        )
        plain["files"] = files
    else:
        plain = mutated(plain, rng)
    path.write_bytes(as_json(plain, rng))
    if rng.random() < 0.2:
        os.mkfifo(place / "out" / "net.c")
    return lambda: command("verify", place / "out", "--random", "1")


def saved(rng: Random, good: Path, place: Path) -> Case:
    """A checkpoint whose seal is right, whatever is in it."""
    path, source = place / "net.pt", good / rng.choice(("net.pt", "net.pt", "leveled.pt", "ternary.pt"))
    if rng.random() < 0.15:
        path.write_bytes(bytes_mutated(source.read_bytes(), rng))
    else:
        others = (*OTHERS, torch.zeros(2), torch.zeros(1).expand(10**9), torch.zeros(2, dtype=torch.bool), b"x", (1, 2),
                  torch.zeros(2, dtype=torch.bfloat16), torch.float32, {1: 2}, {None: 3}, 1j)  # fmt: skip
        content = content_of(source)
        content = _extreme(content, rng) if rng.random() < 0.3 else mutated(content, rng, others)
        try:
            rewrite(path, content)
        except Exception:  # torch cannot write what was made
            path.write_bytes(b"")

    def run() -> object:
        end = rng.random()
        if end < 0.3:
            return command("inspect", path)
        if end < 0.5:
            return command("export", path, "-o", place / "out", "--target", "c", "--name", "net")
        return checkpoint.load(path).model()

    return run


EXTREMES = (0.0, -0.0, 1e-320, -1e-320, 1e-60, -1e-60, 1e-40, 1e-7, 65504.0, 1e30, -1e30, 3.4e38, 1e300, -1e308)


def _extreme(content: dict[str, Any], rng: Random) -> dict[str, Any]:
    """A checkpoint whose numbers are of the right type and at the ends of their range."""
    content = {**content, "tensors": dict(content["tensors"]), "input": dict(content["input"])}
    for _ in range(rng.choice((1, 1, 2, 4))):
        key = rng.choice(sorted(content["tensors"]))
        tensor = content["tensors"][key]
        if rng.random() < 0.2:
            name = rng.choice(("scale", "mean", "std"))
            content["input"][name] = rng.choice(EXTREMES) if name == "scale" else [rng.choice(EXTREMES)]
        elif tensor.is_floating_point():
            tensor = tensor.to(rng.choice((torch.float16, torch.float32, torch.float64, torch.float64)))
            places = tensor if rng.random() < 0.3 else tensor.reshape(-1)[: rng.choice((1, 1, 5))]
            most = torch.finfo(tensor.dtype).max
            places.fill_(max(-most, min(most, rng.choice(EXTREMES))))
            content["tensors"][key] = tensor
    return content


def state(rng: Random, good: Path, place: Path) -> Case:
    """The state of a training run."""
    path = place / "net.pt.training"
    plain = {"format": 7, "options": {"seed": 1, "x": "y"}, "threads": 1, "device": "cpu", "stage": 0, "epoch": 1,
             "model": {"a": torch.zeros(3)}, "adam": {"state": {}, "param_groups": []}, "best": {},
             "best_accuracy": 0.5, "best_merit": 0.5, "best_epoch": 1, "results": {},
             "history": [{"stage": "x", "epoch": 1, "validation": 0.5}]}  # fmt: skip
    buffer = io.BytesIO()
    try:
        torch.save(mutated(plain, rng) if rng.random() < 0.7 else plain, buffer)
    except Exception:  # torch cannot write what was made
        buffer.truncate(0)
    path.write_bytes(buffer.getvalue() if rng.random() < 0.7 else bytes_mutated(buffer.getvalue(), rng))
    return lambda: load_state(path, {"seed": 1, "x": "y"}).accuracies


def idx(array: Any) -> bytes:
    """An IDX file, written out."""
    sizes = b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def mnist_files(rng: Random, good: Path, place: Path) -> Case:
    for name, array in (("images-idx3", np.zeros((3, 28, 28))), ("labels-idx1", np.zeros(3))):
        content = idx(array)
        if rng.random() < 0.5:
            content = (
                bytes_mutated(content[:20], rng) + content[20:] if rng.random() < 0.7 else bytes_mutated(content, rng)
            )
        if rng.random() < 0.2:
            dimensions = rng.choice((0, 1, 2, 4, 64, 65, 255))
            content = (
                bytes([0, 0, 8, dimensions]) + rng.choice((b"\0\0\0\1", b"\xff\xff\xff\xff", b"\0\0\0\0")) * dimensions
            )
        if rng.random() < 0.4:
            content = gzip.compress(content)
            if rng.random() < 0.5:
                content = bytes_mutated(content, rng)
            if rng.random() < 0.1:
                content += rng.choice((b"x", content))
        (place / f"t10k-{name}-ubyte").write_bytes(content)
    return lambda: labelled.load(place, Value("input", "uint8", (28, 28, 1)), 10)


def cifar_files(rng: Random, good: Path, place: Path) -> Case:
    folder = place / rng.choice(("cifar-10-batches-bin", "cifar-10-batches-py"))
    folder.mkdir()
    if folder.name.endswith("bin"):
        (folder / "test_batch.bin").write_bytes(bytes_mutated(bytes(3073 * 2), rng))
    else:
        plain = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2], b"filenames": [b"a", b"b"]}
        changed = {
            **plain,
            rng.choice((b"data", b"labels", b"x")): rng.choice((*OTHERS, np.zeros((2, 3072)), np.uint8(3))),
        }
        content = pickle.dumps(changed if rng.random() < 0.6 else plain, protocol=rng.choice((0, 2, 4)))
        if rng.random() < 0.2:  # a place to remember that is far away, and many empty lists
            content = content[:-1] + rng.choice(
                (b"r\xff\xff\xff\x7f.", b"]" * 1000 + b".", b"\x8d" + b"\xff" * 8 + b".")
            )
        (folder / "test_batch").write_bytes(bytes_mutated(content, rng) if rng.random() < 0.5 else content)
    return lambda: labelled.load(place, Value("input", "uint8", (32, 32, 3)), 10)


def arrays(rng: Random, good: Path, place: Path) -> Case:
    """An npz file of images and labels, the images perhaps as JPEG."""
    labels = np.array([0, 1], np.int64)
    if rng.random() < 0.4:
        streams = []
        for level in (10, 200):
            buffer = io.BytesIO()
            Image.fromarray(np.full((6, 6), level, np.uint8)).save(buffer, "jpeg")
            streams.append(bytes_mutated(buffer.getvalue(), rng) if rng.random() < 0.7 else buffer.getvalue())
        offsets = np.cumsum([0, *map(len, streams)])
        held = {"jpeg": np.frombuffer(b"".join(streams), np.uint8), "offsets": offsets, "labels": labels}
    else:
        held = {"images": np.zeros((2, 1, 6, 6), np.uint8), "labels": labels}
    path = place / "data.npz"
    path.write_bytes(npz_mutated(held, rng))
    return lambda: labelled.load(path, Value("input", "uint8", (6, 6, 1)), 3)


NUMBERS = (*map(str, BOUNDARIES), *TEXTS, "9" * 5000)
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "export": {
        "--members": NUMBERS, "--seed": NUMBERS, "--sample": TEXTS, "--freeze": NUMBERS, "--gate": NUMBERS,
        "--flash": NUMBERS, "--ram": NUMBERS, "--optimize": TEXTS, "--cpu": TEXTS, "--onnx-weights": TEXTS,
        "--name": TEXTS, "--package": TEXTS, "--target": TEXTS, "--jobs": NUMBERS, "--quiet": ("",),
    },
    "verify": {
        "--random": NUMBERS, "--seed": NUMBERS, "--on": TEXTS, "--data": TEXTS, "--checkpoint": TEXTS,
        "--strict": ("",),
    },
    "inspect": {"--json": ("",), "--verbose": ("",)},
    "eval": {
        "--members": NUMBERS, "--repeats": NUMBERS, "--seed": NUMBERS, "--sample": TEXTS, "--freeze": NUMBERS,
        "--baseline": TEXTS, "--plots": TEXTS,
    },
    "bench": {"--on": TEXTS, "--rounds": NUMBERS, "--json": ("",), "--plot": TEXTS, "--jobs": NUMBERS},
    "train": {
        "--seed": NUMBERS, "--epochs": NUMBERS, "--batch": NUMBERS, "--lr": NUMBERS, "--tau": NUMBERS, "--log": TEXTS,
        "--threads": NUMBERS, "--minutes": NUMBERS, "--validation": NUMBERS, "--rotation": NUMBERS, "--data": TEXTS,
        "--pretrain-epochs": NUMBERS, "--distillation": NUMBERS, "--calibration": NUMBERS, "--shifts": NUMBERS,
    },
}  # fmt: skip


def options(rng: Random, good: Path, place: Path) -> Case:
    """A command with one or two options that mean nothing, or a path that is none."""
    name = rng.choice(sorted(CHOICES))
    chosen = rng.sample(sorted(CHOICES[name]), rng.choice((1, 1, 2)) if len(CHOICES[name]) > 1 else 1)
    more = [word for option in chosen for word in (option, rng.choice(CHOICES[name][option])) if word]
    paths = (
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        str(place / "fifo"),
        str(place / "loop"),
        str(place / "nothing"),
        "-",
        *TEXTS,
    )
    os.mkfifo(place / "fifo")
    (place / "loop").symlink_to("loop")
    wrong = rng.random() < 0.5
    model = rng.choice(paths) if wrong else str(good / ("onnx" if name == "verify" else "net.pt"))
    output = rng.choice(paths[3:]) if rng.random() < 0.3 else str(place / "new")
    if name == "export":
        more = [*more, "-o", output, *(("--target", "onnx") if "--target" not in more else ())]
    elif name == "eval":
        more = [*more, "--data", rng.choice(paths)]
    elif name == "bench":
        model = rng.choice(paths)  # a good one would be measured for minutes
    elif name == "train":
        model = "mnist"
        more = [*more, "-o", output, *(("--data", str(place)) if "--data" not in more else ())]
    elif name == "verify" and "--random" not in more:
        more = [*more, "--random", "1"]
    return lambda: command(name, model, *more)


VARIABLES = (
    "CC",
    "BLRC_TIER",
    "BLRC_CACHE",
    "XDG_CACHE_HOME",
    "HOME",
    "PATH",
    "TMPDIR",
    "BLRC_LCE_PYTHON",
    "WORLD_SIZE",
    "LOCAL_RANK",
)


def join() -> None:
    with joined("cpu"):
        pass


def environment(rng: Random, good: Path, place: Path) -> Case:
    """Variables of the environment that mean nothing, in what reads them."""
    values = [text for text in TEXTS if "\0" not in text and "\ud800" not in text]
    values += [
        "0",
        "2",
        "gcc '",
        'cc "x',
        "false",
        "/dev/null",
        str(place),
        str(place / "nothing" / "x"),
        "avx9",
        "portable",
    ]
    changed = {name: rng.choice(values) for name in rng.sample(VARIABLES, rng.choice((1, 1, 2)))}

    def run() -> None:
        with variables(changed):
            for read in (find_compiler, lambda: cache_folder("mnist"), lambda: allowed(("portable",)), join):
                try:
                    read()
                except BlrcError:
                    continue
            if rng.random() < 0.1 and changed.get("CC", "cc").split()[:1] != ["cc"]:
                command("verify", good / "c", "--random", "1")

    return run


@contextmanager
def variables(changed: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changed)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def command(*arguments: object) -> None:
    """The command line, in this process; it always ends in a `SystemExit`."""
    main(list(map(str, arguments)))


KINDS: dict[str, tuple[int, Callable[[Random, Path, Path], Case]]] = {
    "program": (700, program),
    "vectors": (250, recorded),
    "arrays": (450, arrays),
    "mnist": (300, mnist_files),
    "cifar": (250, cifar_files),
    "state": (150, state),
    "checkpoint": (400, saved),
    "manifest": (150, manifest),
    "options": (200, options),
    "environment": (150, environment),
    "onnx": (600, onnx_file),
}
"""For each kind how many of 3,600 inputs are of it, and what makes one."""
