"""Checkpoints hold what was trained, bit for bit, and a file that is not one as it was written is refused."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_night import first
from checkpoint_files import SEAL, content_of, evil_files, rewrite, sealed, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import binarized_network, deep_network, encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend import checkpoint, saving
from blrc.frontend.sample import Member, sample


def small() -> nn.Module:
    return randomise(
        nn.Sequential(
            bnn.BinaryLinear(4, 3, bias=True),
            bnn.StochasticBatchNorm1d(3),
            bnn.StochasticSign(),
            bnn.SoftmaxLinear(3, 2),
        ),
        1,
    )


def write_small(path: Path, model: nn.Module | None = None, compact: bool = False) -> bytes:
    encoding = encoding_of("int8", (4,))
    saving.save(
        small() if model is None else model,
        path=path,
        input=encoding,
        calibration=raw_samples(encoding, 4, 0),
        compact=compact,
    )
    return path.read_bytes()


# Round trips


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("seed", first(3, range(6)))
def test_round_trip(seed: int, compact: bool, tmp_path: Path) -> None:
    model, shape = deep_network(seed)
    randomise(model, seed)
    encoding = encoding_of(["uint8", "int8", "bits"][seed % 3], shape)
    raw = raw_samples(encoding, 5, seed)
    blrc.save(model, path=tmp_path / "a.pt", input=encoding, calibration=raw, compact=compact)
    loaded = blrc.load(tmp_path / "a.pt")
    assert loaded.encoding == encoding
    assert loaded.calibration is not None
    assert loaded.calibration.dtype == raw.dtype
    np.testing.assert_array_equal(loaded.calibration, raw)
    before, after = model.state_dict(), loaded.model().state_dict()
    assert list(after) == list(before)
    for key, value in before.items():
        if compact and key.endswith(".logits"):
            assert loaded.tensors[key].dtype == np.int8
        else:
            assert torch.equal(after[key], value), key
    # Members are those of the network before it was written: MAP and samples, all layers.
    original = saving.from_model(model, encoding, raw)
    for member in (Member(), Member(3, 0), Member(2**64 - 1, 5)):
        for one, other in zip(sample(original, member).layers, sample(loaded, member).layers, strict=True):
            assert type(one) is type(other)
            for field, value in vars(one).items():
                np.testing.assert_array_equal(getattr(other, field), value)
    # And again, from the model that was loaded.
    blrc.save(loaded.model(), path=tmp_path / "b.pt", input=encoding, calibration=raw, compact=compact)
    assert (tmp_path / "b.pt").read_bytes() == (tmp_path / "a.pt").read_bytes()


@pytest.mark.parametrize("seed", first(3, range(4)))
def test_round_trip_of_a_binarized_nn(seed: int, tmp_path: Path) -> None:
    model, shape = binarized_network(seed)
    randomise(model, seed)
    encoding = encoding_of(["uint8", "int8", "bits"][seed % 3], shape)
    raw = raw_samples(encoding, 5, seed)
    nets = []
    for compact in (False, True):
        blrc.save(model, path=tmp_path / "a.pt", input=encoding, calibration=raw, compact=compact)
        loaded = blrc.load(tmp_path / "a.pt")
        again = loaded.model()
        assert list(again.state_dict()) == list(model.state_dict())
        for key, value in model.state_dict().items():
            if compact and key in ("0.0.weight", "0.4.weight", "2.weight"):
                assert loaded.tensors[key].dtype == np.int8
                value = torch.where(value >= 0, 1.0, -1.0)
            assert torch.equal(again.state_dict()[key], value), key
        x = torch.from_numpy(encoding.real(raw))
        assert torch.equal(again.eval()(x), model.eval()(x))
        nets += [sample(loaded), sample(loaded, Member(3, 1))]
        blrc.save(again, path=tmp_path / "b.pt", input=encoding, calibration=raw, compact=compact)
        assert (tmp_path / "b.pt").read_bytes() == (tmp_path / "a.pt").read_bytes()
    for net in nets[1:]:
        for one, other in zip(nets[0].layers, net.layers, strict=True):
            for field, value in vars(one).items():
                np.testing.assert_array_equal(getattr(other, field), value)


def test_int8_weights_are_for_binarized_layers_only(tmp_path: Path) -> None:
    write_small(tmp_path / "a.pt")
    content = content_of(tmp_path / "a.pt")
    content["tensors"]["3.weight"] = torch.ones(2, 3, dtype=torch.int8)
    with pytest.raises(BlrcError, match=r"tensor '3.weight' is int8"):
        blrc.load(rewrite(tmp_path / "a.pt", content))


def test_compact_codes_keep_every_map_bit(tmp_path: Path) -> None:
    """Logits around every code's edges, 0, signed zero and the smallest numbers of both signs included."""
    edges = np.arange(-130, 131) / 12
    values = np.concatenate(
        [edges, np.nextafter(edges, -99), np.nextafter(edges, 99), [0.0, -0.0, 1e-45, -1e-45, 1e30, -1e30]]
    ).astype(np.float32)
    model = nn.Sequential(bnn.BinaryLinear(len(values), 1), bnn.StochasticSign(), bnn.SoftmaxLinear(1, 2))
    model[0].weight.logits.data = torch.from_numpy(values[None].copy())  # type: ignore[union-attr]
    encoding = blrc.bits((len(values),))
    blrc.save(model, path=tmp_path / "a.pt", input=encoding, calibration=None, compact=True)
    weights = blrc.load(tmp_path / "a.pt").coded("0")
    assert [codes.dtype for codes in weights.codes] == [np.int8]
    # p(B = -1) = sigmoid(W) > 1/2 exactly where W > 0.
    np.testing.assert_array_equal(weights.likeliest()[0], np.where(values > 0, -1, 1))
    assert sample(blrc.load(tmp_path / "a.pt")).layers[0].weights.tolist() == [np.where(values > 0, -1, 1).tolist()]  # type: ignore[union-attr]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = bnn.BinaryConv2d(2, 3, 3, padding=1)
        self.norm = bnn.StochasticBatchNorm2d(3, momentum=None)
        self.sign = bnn.StochasticSign()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.sign(self.norm(self.conv(x)))  # type: ignore[no-any-return]


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.last = bnn.SoftmaxLinear(75, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.flatten(self.inner(x), 1))  # type: ignore[no-any-return]


def test_a_users_own_class_saves_loads_and_exports_without_registering(tmp_path: Path) -> None:
    model = randomise(Own(), 0)
    encoding = encoding_of("uint8", (2, 5, 5))
    raw = raw_samples(encoding, 8, 0)
    blrc.save(model, path=tmp_path / "own.pt", input=encoding, calibration=raw)
    loaded = blrc.load(tmp_path / "own.pt")
    again = loaded.model()
    assert not isinstance(again, Own)
    x = torch.from_numpy(encoding.real(raw))
    for each in (model, again):
        each.eval()
    torch.manual_seed(5)
    expected = model(x)
    torch.manual_seed(5)
    assert torch.equal(again(x), expected)
    done = blrc.export(tmp_path / "own.pt", folder=tmp_path / "out")
    assert [op.name for op in done.program.ops] == ["input.encode", "inner.conv", "last"]


def other_layouts() -> list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    return [
        ("channels_last", lambda t: t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t),
        ("transposed", lambda t: t.transpose(0, -1).contiguous().transpose(0, -1) if t.ndim else t),
        ("strided", lambda t: torch.stack([t, t + 1], -1)[..., 0]),
        ("float64", lambda t: t.double() if t.is_floating_point() else t),
    ]


@pytest.mark.parametrize(("name", "change"), other_layouts())
def test_tensors_in_other_layouts_are_read_right(
    name: str, change: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    model, shape = deep_network(2)
    randomise(model, 2)
    encoding = encoding_of("uint8", shape)
    raw = raw_samples(encoding, 4, 0)
    plain = saving.from_model(model, encoding, raw)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.data = change(tensor.data)
    if name in ("channels_last", "transposed", "strided"):
        assert any(not t.is_contiguous() for t in model.state_dict().values())
    blrc.save(
        model,
        path=tmp_path / "a.pt",
        input=encoding,
        calibration=change(torch.from_numpy(raw)) if name != "float64" else raw,
    )
    loaded = blrc.load(tmp_path / "a.pt")
    for key, value in plain.tensors.items():
        np.testing.assert_array_equal(loaded.tensors[key], value)
    assert loaded.calibration is not None
    np.testing.assert_array_equal(loaded.calibration, raw)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_as_the_numbers_it_holds(dtype: torch.dtype, tmp_path: Path) -> None:
    model = small().to(dtype)
    write_small(tmp_path / "a.pt", model)
    loaded = blrc.load(tmp_path / "a.pt")
    for key, value in model.state_dict().items():
        expected = [float(v) for v in value.flatten()]
        assert loaded.tensors[key].ravel().tolist() == expected


def test_two_saves_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = write_small(tmp_path / "a.pt"), write_small(tmp_path / "other-name.pt")
    assert first == second
    write_small(tmp_path / "a.pt", compact=True)
    assert write_small(tmp_path / "b.pt", compact=True) == (tmp_path / "a.pt").read_bytes() != first


def test_the_file_is_plain_data_with_a_version_and_a_seal(tmp_path: Path) -> None:
    raw = write_small(tmp_path / "a.pt")
    content = content_of(tmp_path / "a.pt")
    assert content["format"] == "blrc-checkpoint"
    assert content["version"] == 1
    assert raw[-64:].decode() == hashlib.sha256(raw[: -64 - len(SEAL)]).hexdigest()

    def plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(type(key) is str and plain(item) for key, item in value.items())
        if isinstance(value, list):
            return all(map(plain, value))
        return value is None or type(value) in (str, int, float, bool, torch.Tensor)

    assert plain(content)


def test_without_calibration(tmp_path: Path) -> None:
    blrc.save(small(), path=tmp_path / "a.pt", input=encoding_of("int8", (4,)), calibration=None)
    assert blrc.load(tmp_path / "a.pt").calibration is None


def test_regression_numpy_options_and_numbers_load_again(tmp_path: Path) -> None:
    model = nn.Sequential(
        bnn.BinaryLinear(np.int64(4), np.int64(3)),  # type: ignore[arg-type]
        bnn.StochasticBatchNorm1d(3, eps=np.float64(1e-4)),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(3, 2),
    )
    encoding = blrc.InputEncoding("int8", (4,), np.float64(3.0))
    blrc.save(model, path=tmp_path / "a.pt", input=encoding, calibration=None)
    assert blrc.load(tmp_path / "a.pt").encoding == encoding


# Damage


def test_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    encoding = blrc.bits((2,))
    model = nn.Sequential(bnn.BinaryLinear(2, 1), bnn.StochasticSign(), bnn.SoftmaxLinear(1, 2, bias=False))
    blrc.save(model, path=path, input=encoding, calibration=raw_samples(encoding, 2, 0), compact=True)
    good = path.read_bytes()
    refused = 0
    with path.open("r+b", buffering=0) as file:
        for position, byte in enumerate(good):
            file.seek(position)
            file.write(bytes([byte ^ 1 << position % 8]))
            try:
                blrc.load(path)
            except BlrcError:
                refused += 1
            file.seek(position)
            file.write(bytes([byte]))
    assert refused == len(good) > 2000
    assert path.read_bytes() == good
    blrc.load(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    raw = write_small(path)
    for length in (*range(100), *range(100, len(raw), 37), *range(len(raw) - 150, len(raw))):
        path.write_bytes(raw[:length])
        with pytest.raises(BlrcError, match=r"not a blrc checkpoint|damaged"):
            blrc.load(path)


@pytest.mark.parametrize("extra", [b"\0", b"\n", b"x" * 100])
def test_appended_bytes_are_refused(extra: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(write_small(tmp_path / "a.pt") + extra)
    with pytest.raises(BlrcError, match=r"not a blrc checkpoint|damaged"):
        blrc.load(tmp_path / "a.pt")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_a_damaged_archive_with_a_right_seal_is_refused_or_read(data: st.DataObject) -> None:
    """Whoever writes the seal can write anything: only a `BlrcError` may come out of it."""
    archive = bytearray(_archive())
    for _ in range(data.draw(st.integers(1, 4))):
        archive[data.draw(st.integers(4, len(archive) - 3))] = data.draw(st.integers(0, 255))
    path = _SHARED / "fuzz.pt"
    path.write_bytes(sealed(bytes(archive)))
    try:
        blrc.load(path).model()
    except BlrcError as error:
        assert str(error).startswith(f"{path}: ")
        assert "\n" not in str(error)


_SHARED = Path()


@pytest.fixture(autouse=True, scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    global _SHARED
    _SHARED = tmp_path_factory.mktemp("shared")
    write_small(_SHARED / "good.pt")


def _archive() -> bytes:
    raw = (_SHARED / "good.pt").read_bytes()
    archive = raw[: -64 - len(SEAL) - 2] + b"\0\0"
    assert sealed(archive) == raw
    return archive


# Files that are something else


@pytest.mark.parametrize("kind", ["sealed", "zip", "pickle"])
def test_a_malicious_pickle_executes_nothing(kind: str, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    path = tmp_path / "evil.pt"
    path.write_bytes(evil_files(tmp_path, marker)[kind])
    with pytest.raises(BlrcError, match=r"evil\.pt: (refused: not plain tensors|not a blrc checkpoint)"):
        blrc.load(path)
    assert not marker.exists()
    # It is malicious indeed: unpickled without care, it acts.
    torch.load(path, weights_only=False)
    assert marker.exists()


def change(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda content: {**content, **changes}


def drop(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda content: {k: v for k, v in content.items() if k != key}


def option(**options: Any) -> Callable[[dict[str, Any]], Any]:
    def changed(content: dict[str, Any]) -> Any:
        nodes = [dict(node) for node in content["nodes"]]
        nodes[0]["options"] = {**nodes[0]["options"], **options}
        return {**content, "nodes": nodes}

    return changed


def calibration(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda content: {**content, "calibration": {**content["calibration"], **changes}}


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (change(version=4), ["version 4", f"up to {checkpoint.VERSION}", "update blrc"]),
        (change(version=999), ["version 999", f"up to {checkpoint.VERSION}", "update blrc"]),
        (change(version="2"), ["version '2'", f"up to {checkpoint.VERSION}"]),
        (drop("version"), ["version None"]),
        (change(format="other"), ["not a blrc checkpoint"]),
        (lambda c: c["tensors"], ["not a blrc checkpoint"]),
        (lambda c: list(c), ["not a blrc checkpoint"]),
        (lambda c: torch.zeros(3), ["not a blrc checkpoint"]),
        (drop("nodes"), ["not a valid blrc checkpoint", "nodes"]),
        (drop("input"), ["not a valid blrc checkpoint", "input"]),
        (drop("calibration"), ["not a valid blrc checkpoint", "calibration"]),
        (change(nodes=[3]), ["not a valid blrc checkpoint"]),
        (change(nodes=[{"name": "0", "kind": "quantum", "inputs": ["input"], "options": {}}]), ["'0'", "'quantum'"]),
        (tensor("0.weight.logits", None), ["'0.weight.logits'", "missing"]),
        (tensor("7.weight.logits", torch.zeros(2)), ["'7.weight.logits'", "of no layer"]),
        (tensor("0.weight.logits", torch.zeros(3, 5)), ["'0.weight.logits'", "(3, 5)", "(3, 4)"]),
        (tensor("1.weight", torch.zeros(3, dtype=torch.int8)), ["'1.weight'", "int8"]),
        (tensor("1.weight", torch.zeros(3).bfloat16()), ["not plain tensors and data", "torch.BFloat16Storage"]),
        (tensor("1.weight", nn.Parameter(torch.zeros(3))), ["not plain tensors", "_rebuild_parameter"]),
        (tensor("1.weight", torch.eye(3).to_sparse()), ["not plain tensors", "torch.serialization._get_layout"]),
        (option(out_features=30), ["'0.bias'", "(3,)", "(30,)"]),
        (option(out_features="many"), ["layer '0'", "out_features 'many'", "give a whole number"]),
        (option(colour="red"), ["layer '0'", "binary_linear", "'colour'", "out_features"]),
        (calibration(dtype="float32"), ["not a valid blrc checkpoint", "float32"]),
        (calibration(shape=[4, 5]), ["not a valid blrc checkpoint"]),
        (calibration(deflated=torch.zeros(9, dtype=torch.uint8)), ["not a valid blrc checkpoint"]),
        (
            calibration(shape=[1, 4], deflated=torch.tensor(list(zlib.compress(bytes(4))), dtype=torch.uint8)),
            ["at least 2 samples"],
        ),
        (change(input={"kind": "float", "shape": [4], "scale": 1.0, "mean": [], "std": []}), ["'float'", "uint8"]),
        (change(input={"kind": "int8", "shape": [4], "scale": "x", "mean": [], "std": []}), ["not a valid blrc"]),
    ],
)
def test_sealed_but_wrong(edit: Callable[[dict[str, Any]], Any], words: list[str], tmp_path: Path) -> None:
    write_small(tmp_path / "a.pt")
    path = rewrite(tmp_path / "b.pt", edit(content_of(tmp_path / "a.pt")))
    with pytest.raises(BlrcError) as error:
        blrc.load(path)
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_the_rewriting_itself_changes_nothing(tmp_path: Path) -> None:
    write_small(tmp_path / "a.pt")
    loaded = blrc.load(rewrite(tmp_path / "b.pt", content_of(tmp_path / "a.pt")))
    assert loaded.model().state_dict().keys() == small().state_dict().keys()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello\n", b"\x80\x02}q\0.", bytes(1000)])
def test_not_a_checkpoint(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(BlrcError, match=r"a\.pt: not a blrc checkpoint"):
        blrc.load(tmp_path / "a.pt")


def test_a_torch_file_of_ones_own_is_not_one(tmp_path: Path) -> None:
    torch.save(small().state_dict(), tmp_path / "a.pt")
    with pytest.raises(BlrcError, match=r"not a blrc checkpoint.*blrc\.save\(\)"):
        blrc.load(tmp_path / "a.pt")


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match=r"none\.pt: no such file"):
        blrc.load(tmp_path / "none.pt")
    with pytest.raises(BlrcError, match=r"cannot read: Is a directory"):
        blrc.load(tmp_path)


# Values that are not finite


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("key", "layer", "what"),
    [
        ("0.weight.logits", "0", "logits"),
        ("0.bias", "0", "bias"),
        ("1.weight", "1", "weight"),
        ("1.bias", "1", "bias"),
        ("1.running_mean", "1", "running_mean"),
        ("1.running_var", "1", "running_var"),
        ("3.weight", "3", "weight"),
        ("3.bias", "3", "bias"),
    ],
)
def test_what_is_not_finite_is_named(key: str, layer: str, what: str, bad: float, tmp_path: Path) -> None:
    model = small()
    value = model.state_dict()[key]
    (value[1, 1:2] if value.ndim == 2 else value[1:2]).fill_(bad)
    with pytest.raises(BlrcError, match=rf"layer '{layer}': {what} of channel 1 is NaN or infinite"):
        write_small(tmp_path / "a.pt", model)
    assert not (tmp_path / "a.pt").exists()
    # The same in a file that someone else wrote.
    write_small(tmp_path / "good.pt")
    path = rewrite(tmp_path / "b.pt", tensor(key, value.clone())(content_of(tmp_path / "good.pt")))
    with pytest.raises(BlrcError, match=rf"b\.pt: layer '{layer}': {what} of channel 1 is NaN or infinite"):
        blrc.load(path)


# Calibration samples


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.zeros((4, 5), np.int8), ["calibration samples", "shape (4, 5)", "(N, 4)"]),
        (np.zeros(4, np.int8), ["shape (4,)"]),
        (np.zeros((4, 4, 1, 1), np.int8), ["shape (4, 4, 1, 1)"]),
        (np.zeros((4, 4), np.uint8), ["type uint8", "int8"]),
        (np.zeros((4, 4), np.float32), ["type float32", "int8"]),
        (torch.zeros((4, 4)), ["type float32"]),
        (torch.zeros((4, 4), dtype=torch.bfloat16), ["type float32"]),
        (np.zeros((1, 4), np.int8), ["at least 2 samples, got 1"]),
        (np.zeros((0, 4), np.int8), ["at least 2 samples, got 0"]),
    ],
)
def test_calibration_that_does_not_fit(samples: Any, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(BlrcError) as error:
        blrc.save(small(), path=tmp_path / "a.pt", input=encoding_of("int8", (4,)), calibration=samples)
    for word in words:
        assert word in str(error.value)
    assert not (tmp_path / "a.pt").exists()


def test_bits_that_are_not_bits(tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match="bits must be 0 or 1, found 2"):
        blrc.save(small(), path=tmp_path / "a.pt", input=blrc.bits((4,)), calibration=np.full((3, 4), 2, np.uint8))


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_small(tmp_path / "a.pt")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BlrcError, match=r"a\.pt: cannot write: No space left on device"):
        write_small(tmp_path / "a.pt", compact=True)
    assert (tmp_path / "a.pt").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]
