"""Checkpoints of strangers: every end is a network or one line, nothing is executed, memory and time are bounded."""

from __future__ import annotations

import io
import os
import pickletools
import random
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_files import content_of, rewrite, sealed
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.sample import sample
from blrc.lowering.lower import lower

ROOT = Path(__file__).parents[2]
FLIPS = int(os.environ.get("BLRC_FUZZ_RUNS", "600"))


def small() -> nn.Module:
    """Every kind of option: a convolution, a norm, a pool, signs, and dense layers."""
    return nn.Sequential(
        bnn.BinaryConv2d(1, 2, 3, padding="same", bias=True),
        bnn.StochasticBatchNorm2d(2),
        bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.BinaryLinear(8, 3),
        bnn.StochasticBatchNorm1d(3),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(3, 2),
    )


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "good.pt"
    raw = np.random.default_rng(0).integers(0, 256, (4, 1, 4, 4)).astype(np.uint8)
    blrc.save(small(), path=path, input=blrc.pixels((1, 4, 4), mean=[0.3], std=[0.2]), calibration=raw, compact=True)
    return path


def used(path: Path) -> str:
    """What becomes of a file: ``network``, or the one line that refuses it. Everything else is an error."""
    try:
        checkpoint = blrc.load(path)
        lower([sample(checkpoint, running=True)])
    except BlrcError as error:
        line = str(error)
        assert "\n" not in line and len(line) < 600, line
        line.encode("utf-8")
        return line
    return "network"


STRANGE: list[Any] = [
    None, True, 0, -1, 2**31, 2**70, 1.5, float("nan"), "", "x", "\0", "x" * 5_000, [], [1], [[], [[]]], {}, {"x": 1},
    (), (1, 2), torch.zeros(3), torch.zeros((), dtype=torch.int64), torch.zeros(0, 2**20),
]  # fmt: skip


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of plain data."""
    if path:
        yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def replaced(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[path[0]] = replaced(content[path[0]], path[1:], value)
    return copy


def test_every_part_of_a_checkpoint_by_every_strange_value(good: Path, tmp_path: Path) -> None:
    content, ends = content_of(good), set()
    ways = list(places(content))
    assert len(ways) > 80
    for number, way in enumerate(ways):
        for other in range(3):  # three of the strange values at each place, all of them many times over
            value = STRANGE[(3 * number + other) % len(STRANGE)]
            line = used(rewrite(tmp_path / "a.pt", replaced(content, way, value)))
            ends.add(line.removeprefix(str(tmp_path))[:40])
    assert len(ends) > 10


def test_nothing_of_a_checkpoint_can_be_left_out_or_added(good: Path, tmp_path: Path) -> None:
    content = content_of(good)
    for way in places(content):
        holder = content
        for key in way[:-1]:
            holder = holder[key]
        if isinstance(holder, dict) and way[-1] != "whitening":
            less = {key: value for key, value in holder.items() if key != way[-1]}
            assert used(rewrite(tmp_path / "a.pt", replaced(content, way[:-1], less))) != "network", way


def test_changed_operations_of_the_pickle(good: Path, tmp_path: Path) -> None:
    """Operations are dropped, doubled, swapped, and their bytes changed; seals and sizes are right again."""
    raw = good.read_bytes()
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (described,) = [name for name in members if name.endswith("/data.pkl")]
    marks = [position for _, _, position in pickletools.genops(members[described])] + [len(members[described])]
    ops = [members[described][a:b] for a, b in pairwise(marks)]
    rng, refused = random.Random(0), 0
    for _ in range(FLIPS):
        changed = list(ops)
        for _ in range(rng.randint(1, 3)):
            i, j = rng.randrange(len(changed)), rng.randrange(len(changed))
            kind = rng.randrange(5)
            if kind == 0:
                del changed[i]
            elif kind == 1:
                changed.insert(i, changed[j])
            elif kind == 2:
                changed[i], changed[j] = changed[j], changed[i]
            elif kind == 3:
                changed[i] = bytes(rng.randrange(256) if rng.random() < 0.3 else byte for byte in changed[i])
            else:
                changed[i] = rng.choice(ops)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            for name, member in members.items():
                archive.writestr(name, b"".join(changed) if name == described else member)
        path = tmp_path / "a.pt"
        path.write_bytes(sealed(buffer.getvalue()))
        refused += used(path) != "network"
    assert refused > FLIPS // 2


# The examples by name.


def with_option(good: Path, path: Path, layer: int, **options: Any) -> Path:
    content = content_of(good)
    nodes = [dict(node) for node in content["nodes"]]
    nodes[layer]["options"] = {**nodes[layer]["options"], **options}
    return rewrite(path, {**content, "nodes": nodes})


def test_regression_a_flatten_from_another_dimension_was_another_network(good: Path, tmp_path: Path) -> None:
    line = used(with_option(good, tmp_path / "a.pt", 4, start_dim=2))
    assert "layer '4': a flatten has no option 'start_dim'" in line


@pytest.mark.parametrize("layer", [0, 1, 5, 8])
def test_regression_a_device_in_a_node_reached_the_constructor(layer: int, good: Path, tmp_path: Path) -> None:
    assert f"layer '{layer}': " in used(with_option(good, tmp_path / "a.pt", layer, device="cuda"))
    assert "has no option 'device'" in used(with_option(good, tmp_path / "a.pt", layer, device="cuda"))


@pytest.mark.parametrize("value", [[3, 3], torch.tensor(3), torch.zeros(3), "3", 3.0])
def test_regression_lists_and_tensors_where_a_number_belongs(value: Any, good: Path, tmp_path: Path) -> None:
    assert "layer '1': " in (line := used(with_option(good, tmp_path / "a.pt", 1, num_features=value)))
    assert "num_features" in line


@pytest.mark.parametrize("nodes", [[[]], [torch.zeros(2)], torch.zeros(2), [{"name": [], "kind": {}}], {}, [None]])
def test_regression_nodes_that_are_lists_or_tensors(nodes: Any, good: Path, tmp_path: Path) -> None:
    assert "not a valid blrc checkpoint" in used(rewrite(tmp_path / "a.pt", {**content_of(good), "nodes": nodes}))


@pytest.mark.filterwarnings("error")
def test_regression_a_warning_of_torch_changes_no_message(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch 2.14 warns where it reads tensors of some types, and the message was that warning."""

    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("torch.load reads no checkpoint")

    path = rewrite(tmp_path / "a.pt", {**content_of(good), "nodes": [3]})
    monkeypatch.setattr(torch, "load", load)
    assert "not a valid blrc checkpoint" in used(path)
    assert used(good) == "network"


def bombs(good: Path, folder: Path) -> dict[str, Path]:
    """Files of little content that would take much memory or time."""
    content = content_of(good)

    def calibration(count: int, declared: list[int]) -> dict[str, Any]:
        inflater = zlib.compressobj(9)
        packed = b"".join(inflater.compress(bytes(2**20)) for _ in range(count)) + inflater.flush()
        data = torch.from_numpy(np.frombuffer(packed, np.uint8).copy())
        return {**content, "calibration": {"dtype": "uint8", "shape": declared, "deflated": data}}

    found = {
        "more samples than declared": rewrite(folder / "more.pt", calibration(3_000, [4, 1, 4, 4])),
        "far too many samples": rewrite(folder / "many.pt", calibration(3_000, [3_000 * 2**16, 1, 4, 4])),
        "a number with many digits": rewrite(folder / "digits.pt", calibration(1, [2**300, 1, 4, 4])),
    }
    for name, options in {
        "a kernel without end": {"kernel_size": [32767, 32767]},
        "a stride and padding without end": {"kernel_size": 1, "stride": 32767, "padding": 32767},
        "channels without end": {"out_channels": 2**31 - 1},
    }.items():
        found[name] = with_option(good, folder / f"{len(found)}.pt", 0, **options)
    found["a pool without end"] = with_option(
        good, folder / "pool.pt", 2, kernel_size=32767, stride=32767, padding=16383
    )
    found["an input without end"] = rewrite(
        folder / "input.pt", {**content, "input": {**content["input"], "shape": [1, 2**20, 2**20]}}
    )
    sparse = folder / "sparse.pt"
    with sparse.open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(2**40)
    found["a file without end"] = sparse
    os.mkfifo(folder / "fifo.pt")
    return {**found, "a fifo": folder / "fifo.pt", "a device": Path("/dev/zero")}


LIMITED = """
import resource, sys, time
for name in ("torch", "onnx", "onnxruntime"):
    sys.modules[name] = None
import numpy, blrc.app.export
from blrc.errors import BlrcError
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
for path in sys.argv[2:]:
    start = time.process_time()
    try:
        blrc.app.export.export(path, folder=sys.argv[1], targets="c", force=True)
        end = "network"
    except BlrcError as error:
        end = str(error)
    print(repr(end), time.process_time() - start < 20)
"""


@pytest.mark.nightly
def test_no_file_takes_more_than_a_gigabyte(good: Path, tmp_path: Path) -> None:
    """A 3 MB checkpoint took 6.4 GB and 56 s."""
    files = {"good": good, **bombs(good, tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "out", *files.values()],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    ends = dict(zip(files, done.stdout.splitlines(), strict=True))
    assert ends["good"] == "'network' True"
    for name, end in ends.items():
        assert end.endswith(" True"), (name, end)
        assert name == "good" or "network" not in end[:12], (name, end)
    for name, words in {
        "more samples than declared": "calibration is not the 64 bytes that its shape says",
        "far too many samples": "at most 1048576 samples",
        "a file without end": "too large",
        "a fifo": "not a regular file",
        "a device": "not a regular file",
    }.items():
        assert words in ends[name], ends[name]


@pytest.mark.parametrize("where", ["it", "a layer", "the input", "calibration"])
def test_regression_fields_that_nobody_knows_are_refused_by_name(where: str, good: Path, tmp_path: Path) -> None:
    content = content_of(good)
    way: tuple[Any, ...] = {
        "it": (),
        "a layer": ("nodes", 0),
        "the input": ("input",),
        "calibration": ("calibration",),
    }[where]
    holder = content
    for key in way:
        holder = holder[key]
    line = used(rewrite(tmp_path / "a.pt", replaced(content, way, {**holder, "later": [1]})))
    assert f"({where} has a field 'later', which this version of blrc does not know)" in line


@pytest.mark.parametrize("version", [True, 0, -1, 4, 1.0, "1", None, torch.ones(1)])
def test_regression_a_version_is_the_number_1_2_or_3(version: Any, good: Path, tmp_path: Path) -> None:
    """`True` was taken for 1."""
    line = used(rewrite(tmp_path / "a.pt", {**content_of(good), "version": version}))
    assert "checkpoint format version" in line


@pytest.mark.parametrize("key", ["scale", "std", "mean"])
@pytest.mark.parametrize("number", [1e-320, 1e-40, 1e40, 1e308, 10**150])
def test_regression_extreme_encodings_warn_of_nothing(key: str, number: Any, good: Path, tmp_path: Path) -> None:
    """A deviation of 1e-320 ended in warnings of NumPy, which are errors in this suite."""
    content = content_of(good)
    value = number if key == "scale" else [number]
    line = used(rewrite(tmp_path / "a.pt", {**content, "input": {**content["input"], key: value}}))
    if key == "mean" and number < 1:
        assert line == "network"
    else:
        assert f"input {key}" in line or "input mean must be finite and std positive" in line


@pytest.mark.parametrize("number", [1e-60, -1e-60, 5e-324, -5e-324, 0.0, -0.0, 1e-40, 1e-46, -1e-46, 3e38])
@pytest.mark.parametrize("layer", ["binary", "ste"])
def test_regression_a_module_has_the_signs_of_its_checkpoint(layer: str, number: float, tmp_path: Path) -> None:
    """Logits like 1e-60 became 0 in float32, whose likeliest weight is the other one."""
    linear = bnn.BinaryLinear(4, 2) if layer == "binary" else bnn.SteLinear(4, 2)
    sign = bnn.StochasticSign() if layer == "binary" else bnn.SteSign()
    model = nn.Sequential(linear, sign, bnn.SoftmaxLinear(2, 2))
    blrc.save(model, path=tmp_path / "a.pt", input=blrc.bits((4,)), calibration=np.eye(4, dtype=np.uint8))
    content = content_of(tmp_path / "a.pt")
    key = "0.weight.logits" if layer == "binary" else "0.weight"
    content["tensors"][key] = torch.full((2, 4), number, dtype=torch.float64)
    checkpoint = blrc.load(rewrite(tmp_path / "b.pt", content))
    held = dict(checkpoint.model().named_parameters())[key].detach().numpy()
    assert held.dtype == np.float32
    if layer == "binary":
        assert np.array_equal(np.where(held <= 0, 1, -1), sample(checkpoint, running=True).layers[0].weights)
    else:
        assert np.array_equal(np.where(held >= 0, 1, -1), checkpoint.signs("0"))


def test_numbers_beyond_float32_are_refused_by_layer(good: Path, tmp_path: Path) -> None:
    content = content_of(good)
    variance = torch.full((2,), 1e300, dtype=torch.float64)
    content["tensors"]["1.running_var"] = variance
    line = used(rewrite(tmp_path / "a.pt", content))
    assert "layer '1': running_var of channel 0 is NaN or infinite, or beyond float32" in line
