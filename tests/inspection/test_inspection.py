"""Every figure of an inspection against a count that walks the network tap by tap, or the C's own text."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_night import first
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from random_networks import checkpoint_of, deep_network, encoding_of, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.inspection.inspection import Inspection, LayerReport, inspect
from blrc.inspection.report import to_plain, to_text
from blrc.net.window import Window


def layer(inspection: Inspection, name: str) -> LayerReport:
    return next(each for each in inspection.layers if each.name == name)


def network() -> nn.Module:
    return nn.Sequential(
        bnn.BinaryConv2d(2, 6, 3, padding=1),
        bnn.StochasticBatchNorm2d(6),
        bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(),
        bnn.BinaryConv2d(6, 6, 3, padding=2, dilation=2, groups=6),
        bnn.StochasticSign(),
        bnn.BinaryConv2d(6, 10, (1, 3), stride=(2, 1), padding=(0, 1), groups=2, bias=True),
        bnn.StochasticSign(),
        nn.MaxPool2d((2, 1)),
        nn.Flatten(),
        bnn.BinaryLinear(10 * 1 * 5, 33),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(33, 7),
    )


def macs_tap_by_tap(conv: bnn.BinaryConv2d, height: int, width: int) -> int:
    """Taps inside the map, one after the other, straight from torch's definition of a convolution."""
    (kh, kw), (sy, sx), (dy, dx) = conv.kernel_size, conv.stride, conv.dilation
    py, px = conv.padding
    out_h = (height + 2 * py - dy * (kh - 1) - 1) // sy + 1
    out_w = (width + 2 * px - dx * (kw - 1) - 1) // sx + 1
    count = 0
    for y in range(out_h):
        for x in range(out_w):
            for i in range(kh):
                for j in range(kw):
                    row, column = y * sy + i * dy - py, x * sx + j * dx - px
                    count += 0 <= row < height and 0 <= column < width
    return count * conv.out_channels * (conv.in_channels // conv.groups)


def test_every_layer_is_described() -> None:
    model = network()
    found = inspect(checkpoint_of(model, "uint8", (2, 9, 10)))
    assert [(each.name, each.kind, each.geometry) for each in found.layers] == [
        ("input.encode", "encode", ""),
        ("0", "conv", "3x3, pool 2x2 stride 2x2"),
        ("4", "depthwise conv", "3x3 dilation 2x2, 6 groups"),
        ("6", "grouped conv", "1x3 stride 2x1, 2 groups, pool 2x1 stride 2x1"),
        ("9", "flatten", ""),
        ("10", "dense", ""),
        ("12", "softmax", ""),
    ]
    assert [each.output for each in found.layers] == [
        (9, 10, 2),
        (4, 5, 6),
        (4, 5, 6),
        (1, 5, 10),
        (1, 1, 50),
        (1, 1, 33),
        (1, 1, 7),
    ]
    assert [each.input for each in found.layers[1:]] == [each.output for each in found.layers[:-1]]
    assert [each.weights for each in found.layers] == [0, 2 * 6 * 9, 6 * 9, 10 * 3 * 3, 0, 50 * 33, 33 * 7]


def test_operations_against_a_walk_over_all_taps() -> None:
    model = network()
    found = inspect(checkpoint_of(model, "uint8", (2, 9, 10)))
    first, second, third = (m for m in model.modules() if isinstance(m, bnn.BinaryConv2d))
    expected = {
        "input.encode": (0, 0),
        "0": (0, macs_tap_by_tap(first, 9, 10)),
        "4": (macs_tap_by_tap(second, 4, 5), 0),
        "6": (macs_tap_by_tap(third, 4, 5), 0),
        "9": (0, 0),
        "10": (50 * 33, 0),
        "12": (0, 33 * 7),
    }
    assert {each.name: (each.binary_operations, each.integer_operations) for each in found.layers} == expected
    assert found.binary_operations == sum(binary for binary, _ in expected.values())
    assert found.integer_operations == sum(integer for _, integer in expected.values())


def test_a_binarized_nn_is_described() -> None:
    model = nn.Sequential(
        bnn.SteConv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.MaxPool2d(2),
        bnn.SteSign(),
        nn.Flatten(),
        bnn.SteLinear(6 * 4 * 5, 7),
        nn.BatchNorm1d(7),
    )
    found = inspect(checkpoint_of(model, "uint8", (2, 9, 10)))
    assert [(each.name, each.kind, each.kernel, each.weights, each.certainty) for each in found.layers] == [
        ("input.encode", "encode", "conv_pairs", 0, None),
        ("0", "conv", "conv_pairs", 2 * 6 * 9, None),
        ("4", "flatten", "flatten", 0, None),
        ("5", "dense", "scores_binary", 120 * 7, None),
    ]
    last = found.layers[-1]
    # 4 words for the 6 bits of 20 pixels, for each of 7 classes; multiplier and bias of each class.
    assert (last.flash, last.bits_per_weight) == (4 * 7 * 4 + 2 * 7 * 4, 4 * 32 / 120)
    assert (last.binary_operations, last.integer_operations) == (120 * 7, 0)
    assert found.certainty is None and found.settled is None
    assert "scores_binary" in to_text(found)


sizes = st.integers(1, 9)


@given(
    map_size=st.tuples(sizes, sizes),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 4)] * 4),
)
def test_taps_inside_against_a_padded_map_of_ones(
    map_size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
) -> None:
    window = Window(kernel, stride, padding, dilation)
    top, left, bottom, right = padding
    ones = np.pad(np.ones(map_size, dtype=int), ((top, bottom), (left, right)))
    height, width = window.output(*map_size)
    total = 0
    for y in range(height):
        for x in range(width):
            corner = ones[y * stride[0] :, x * stride[1] :]
            total += corner[:: dilation[0], :: dilation[1]][: kernel[0], : kernel[1]].sum()
    assert window.taps_inside(*map_size) == total


@pytest.mark.parametrize("kind", first(1, ["bits", "uint8", "int8"]))
def test_bytes_are_those_of_the_exported_c(kind: str, tmp_path: Path) -> None:
    source = checkpoint_of(network(), kind, (2, 9, 10))
    found = inspect(source)
    blrc.export(source, folder=tmp_path / "out", targets=["c"], name="net")
    per_type = {"uint32_t": 4, "int32_t": 4, "int8_t": 1, "uint8_t": 1, "int16_t": 2}
    tables = "".join(path.read_text() for path in (tmp_path / "out").glob("net_weights*.c"))
    declared = re.findall(
        r"^NET_BLRC_STORED const (\w+) (?!\w+_of\[)\w+\[(?:NET_BLRC_\w+\()?(\d+)[^]]*\] = \{", tables, re.MULTILINE
    )
    assert declared
    assert found.flash == sum(per_type[c_type] * int(count) for c_type, count in declared)
    header = (tmp_path / "out" / "net.h").read_text()
    arena = re.search(r"#define NET_ARENA_SIZE (\d+)", header)
    assert arena is not None
    assert found.arena == int(arena[1])
    assert found.input_bytes == {"uint8": 180, "int8": 180, "bits": 9 * 10 * 4}[kind]
    assert found.scores_bytes == 28
    assert layer(found, "4").ram == 4 * 5 * 4
    assert layer(found, "12").ram == 28
    about = json.loads((tmp_path / "out" / "net.manifest.json").read_text())["targets"]["c"]
    assert found.stack == about["memory"]["stack_bytes"] == max(each.stack for each in found.layers)
    assert (found.code, found.certainty_code) == (about["memory"]["code_bytes"], about["memory"]["certainty_bytes"])
    assert {each["op"]: each["stack_bytes"] for each in about["layers"]}.items() <= {
        each.name: each.stack for each in found.layers
    }.items()


def test_bits_per_weight_counts_padding() -> None:
    found = inspect(checkpoint_of(network(), "uint8", (2, 9, 10)))
    # 50 inputs in 1x5 pixels of 10 channels, packed in 2 words; 33 rows in blocks of 4.
    assert layer(found, "10").bits_per_weight == 36 * 2 * 32 / (50 * 33)
    assert layer(found, "12").bits_per_weight == 8
    stored = sum(each.bits_per_weight * each.weights for each in found.layers if each.bits_per_weight is not None)
    assert math.isclose(found.bits_per_weight, stored / found.weights)


def test_certainty_of_known_logits() -> None:
    model = nn.Sequential(
        bnn.BinaryLinear(4, 1),
        bnn.StochasticSign(),
        bnn.BinaryLinear(1, 2),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(2, 2),
    )
    source = checkpoint_of(model, "bits", (4,))
    codes = np.array([[-1, 0, 26, -120]], dtype=np.int8)  # 26: W = 2.208, p = 0.90097; 25 would give 0.89474
    held = {**source.tensors, "0.weight.logits": codes, "2.weight.logits": np.array([[25], [-26]], dtype=np.int8)}
    found = inspect(blrc.Checkpoint(source.nodes, held, source.encoding, source.calibration, source.source))
    p = [1 / (1 + math.exp(-w / 12)) for w in (0.5, 0.5, 26.5, 119.5)]
    first, second = layer(found, "0"), layer(found, "2")
    assert first.certainty == pytest.approx(sum(p) / 4, rel=1e-7)
    assert (first.settled, second.settled) == (0.5, 0.0)
    q = 1 / (1 + math.exp(-25.5 / 12))
    assert found.certainty == pytest.approx((sum(p) + 2 * q) / 6, rel=1e-7)
    assert found.settled == pytest.approx(2 / 6)


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_plain_is_json_and_text_names_every_layer(seed: int) -> None:
    model, shape = deep_network(seed)
    found = inspect(checkpoint_of(model, "uint8", shape))
    plain = to_plain(found)
    assert json.loads(json.dumps(plain)) == json.loads(json.dumps(plain, allow_nan=False))
    assert [each["name"] for each in plain["layers"]] == [each.name for each in found.layers]
    text = to_text(found)
    for each in found.layers:
        row = next(line for line in text.splitlines() if line.startswith(f"{each.name} "))
        assert f"{each.flash:,}" in row.split()
        assert f"{each.binary_operations:,}" in row.split()
    assert f"arena {found.arena:,} bytes" in text
    total = found.arena + found.input_bytes + found.scores_bytes + found.stack
    assert f"stack {found.stack:,}: {total:,} bytes" in text
    total = found.flash + found.code + found.alignment
    assert found.flash_total == total and f"and alignment {found.alignment:,}: {total:,} bytes" in text


def run(*arguments: Any) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["inspect", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_the_command_needs_no_calibration_samples(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    blrc.save(network(), path=path, input=encoding_of("uint8", (2, 9, 10)), calibration=None)
    status, output = run(path, "--json")
    assert status == 0
    assert json.loads(output) == json.loads(json.dumps(to_plain(inspect(blrc.load(path)))))
    status, output = run(path)
    assert status == 0
    assert output == to_text(inspect(blrc.load(path))) + "\n"
    assert "0 calibration samples" in output


def test_the_command_refuses_what_is_no_checkpoint_or_cannot_be_compiled(tmp_path: Path) -> None:
    status, output = run(tmp_path / "absent.pt")
    assert (status, output) == (
        2,
        f"Error: {tmp_path}/absent.pt: no such file; give the path of a checkpoint written by blrc.save() or "
        "'blrc train'\n",
    )
    wrong = nn.Sequential(bnn.BinaryLinear(4, 3), bnn.SoftmaxLinear(3, 2))
    encoding = encoding_of("bits", (4,))
    with pytest.MonkeyPatch.context() as patch:  # save refuses a module that cannot run
        patch.setattr("blrc.frontend.saving.check_equal", lambda *_: None)
        blrc.save(wrong, path=tmp_path / "wrong.pt", input=encoding, calibration=raw_samples(encoding, 2, 0))
    status, output = run(tmp_path / "wrong.pt")
    assert status == 2
    assert "layer '1'" in output
    with pytest.raises(BlrcError, match="layer '1'"):
        inspect(blrc.load(tmp_path / "wrong.pt"))
