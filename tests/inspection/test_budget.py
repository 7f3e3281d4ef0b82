"""A budget that is kept or refused, and whether the remedies that are named hold what they say."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from by_night import night_rows
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import checkpoint_of, deep_network
from random_programs import Builder, gated, random_program
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint, load
from blrc.frontend.members import parse_gate, parse_members
from blrc.inspection.budget import Budget, Form, check_budget, remedies, to_text
from blrc.inspection.what_if import first_members
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Program, Scores, Value, Window
from blrc.targets.c.layout.layout import CORTEX_M55, PORTABLE, lay_out
from blrc.targets.c.options import parse_bytes
from blrc.targets.c.size import footprint
from blrc.targets.c.size.choose import Optimize, choose
from blrc.targets.c.size.footprint import Memory


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("262144", 262144),
        ("256K", 262144),
        ("256k", 262144),
        ("1M", 1048576),
        ("0.5M", 524288),
        ("0.5 MiB", 524288),
        ("16KB", 16384),
        ("1.25K", 1280),
        ("12 B", 12),
        (4096, 4096),
    ],
)
def test_sizes(text: str | int, nbytes: int) -> None:
    assert parse_bytes(text, "--ram") == nbytes


@pytest.mark.parametrize("text", ["", "0", "-1", "0.3K", "1.5", "K", "12X", "1e3", "256KM", "\u0661\u0662", "1,000"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BlrcError, match=r"--ram .*expected a number of bytes such as 262144, 256K or 0\.5M"):
        parse_bytes(text, "--ram")


def of(program: Program) -> Memory:
    return footprint.measure(lay_out(program))


def refusal(program: Program, budget: Budget, all_sampled: bool = True) -> str:
    with pytest.raises(BlrcError) as caught:
        check_budget("net.pt", program, budget, all_sampled)
    return str(caught.value)


@settings(max_examples=25)
@given(st.integers(0, 60), st.integers(1, 3))
def test_the_edge_is_the_stated_size(seed: int, members: int) -> None:
    edge(random_program(seed, members=members))


@pytest.mark.nightly
def test_the_edge_is_the_stated_size_of_every_random_program() -> None:
    for seed in (*range(61), *range(1000, 1031, 5)):  # these are ternary
        edge(random_program(seed, members=1 + seed % 3))


def edge(program: Program) -> None:
    """Find that exactly the stated sizes fit, and one byte less does not."""
    found = of(program)
    check_budget("net.pt", program, Budget(found.flash_bytes, found.ram_bytes), True)
    text = refusal(program, Budget(found.flash_bytes - 1, found.ram_bytes))
    assert f"net.pt does not fit: flash {found.flash_bytes:,} of {found.flash_bytes - 1:,} bytes, 1 too many" in text
    assert f"RAM {found.ram_bytes:,} of {found.ram_bytes:,} bytes fits" in text
    text = refusal(program, Budget(None, found.ram_bytes - 1))
    assert f"net.pt does not fit: RAM {found.ram_bytes:,} of {found.ram_bytes - 1:,} bytes, 1 too many" in text


@pytest.mark.parametrize("members", [1, 3])
def test_the_tables_add_up(members: int) -> None:
    found = of(random_program(4, "uint8", layers=4, members=members))
    flash, ram = "\n".join(to_text(found)).split("\n\n")
    for table, total in ((flash, found.flash_bytes), (ram, found.ram_bytes)):
        *rows, last = [line for line in table.splitlines()[1:] if not line.startswith(tuple(found.step_stack))]
        layers = [line for line in flash.splitlines() if line.startswith(tuple(found.step_stack))]
        parts = [int(row.split()[-1].replace(",", "")) for row in [*rows, *(layers if table is flash else [])]]
        assert sum(parts) == total == int(last.split()[-1].replace(",", ""))
    for name, stack in found.step_stack.items():
        assert re.search(rf"^{name} .* {stack:,}$", ram, re.MULTILINE)


def network() -> nn.Module:
    return nn.Sequential(
        bnn.BinaryConv2d(1, 40, 3, padding=1),
        bnn.StochasticBatchNorm2d(40),
        bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.BinaryLinear(40 * 16, 96),
        bnn.StochasticBatchNorm1d(96),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(96, 4),
    )


@pytest.mark.parametrize(("members", "gate"), [("6", 0.9), *night_rows(("6", None), ("map", None))])
def test_named_options_give_what_is_said_of_them(tmp_path: Path, members: str, gate: float | None) -> None:
    """Every option of blrc export that a refusal names, exported: the bytes it said, and the verdict it gave."""
    source = checkpoint_of(network(), "uint8", (1, 8, 8))
    path = tmp_path / "net.pt"
    chosen = parse_members(members, 0, gate=parse_gate(gate))
    program, _ = build(source, chosen, parse_gate(gate))
    one, all_of_them = of(build(source, chosen[:1])[0]), of(program)
    limits = [one.flash_bytes - 100, one.flash_bytes, (one.flash_bytes + all_of_them.flash_bytes) // 2]
    seen = set()
    for limit in [nbytes for nbytes in limits if nbytes < all_of_them.flash_bytes]:
        budget = Budget(limit, None)
        for remedy in remedies(program, budget, all_of_them, members != "map"):
            if not remedy.what.startswith("--"):
                continue
            options = remedy.what.split()
            asked = options[options.index("--members") + 1]
            sample = "conv" if "--sample" in options else "all"
            kept = None if asked == "map" else gate
            done = blrc.export(
                source,
                folder=tmp_path / "out",
                targets="c",
                members=asked,
                name="net",
                force=True,
                sample=sample,
                gate=kept,
            )
            about = done.manifest.targets["c"]["memory"]
            assert about["flash_bytes"] == remedy.memory.flash_bytes, remedy.what
            assert about["ram_bytes"] == remedy.memory.ram_bytes, remedy.what
            assert ("fits" in remedy.row(budget)[0]) == (about["flash_bytes"] <= limit)
            seen.add(remedy.what)
    expected = {"--members map", "--members 6 --sample conv"}
    assert (expected <= seen and len(seen) > len(expected)) if members == "6" else not seen
    assert not path.exists()


def test_the_most_members_that_fit_are_named() -> None:
    program = gated(random_program(2, "uint8", members=6), 60000)
    four = of(first_members(program, 4))
    rows = [r.what for r in remedies(program, Budget(four.flash_bytes, None), of(program), False)]
    # Behind a gate the first member is MAP, and --members counts the others.
    assert rows[:2] == ["--members map", "--members 3"]


def test_a_remedy_helps_where_it_is_lacking_or_is_not_named() -> None:
    program = random_program(2, "uint8", members=3)
    found = of(program)
    # RAM that is taken by the input cannot be mended by anything that is known here.
    text = refusal(program, Budget(None, 1))
    for remedy in remedies(program, Budget(None, 1), found, True):
        assert remedy.memory.ram_bytes < found.ram_bytes
    assert "--sample conv" not in text
    assert "fits" not in text.split("What would help")[-1]


@pytest.mark.parametrize("cpu", [PORTABLE, CORTEX_M55])
@pytest.mark.parametrize("optimize", get_args(Optimize))
def test_the_budget_is_of_what_is_exported(tmp_path: Path, optimize: Optimize, cpu: str) -> None:
    """It was that of the portable C for size, whatever was asked for: too much was accepted, and too much refused."""
    model = bnn_of_two()
    source = checkpoint_of(model, "uint8", (1, 16, 16))

    def stated(name: str, **limits: int) -> dict[str, Any]:
        done = blrc.export(
            source, folder=tmp_path / name, targets="c", name="net", optimize=optimize, cpu=cpu, **limits
        )
        footprint: dict[str, Any] = done.manifest.targets["c"]["memory"]
        return footprint

    free = stated("free")
    kept = stated("kept", flash=free["flash_bytes"], ram=free["ram_bytes"])
    assert kept == free
    least = check_both(program_of(source), optimize, cpu)
    for kind, other in (("flash", "ram"), ("ram", "flash")):
        limits = {kind: least[kind], other: 10**6}
        found = stated(f"least {kind}", **limits)
        assert found["flash_bytes"] <= limits["flash"] and found["ram_bytes"] <= limits["ram"]
        with pytest.raises(BlrcError, match="does not fit"):
            stated(f"less {kind}", **{**limits, kind: least[kind] - 1})


def bnn_of_two() -> nn.Module:
    """A first layer, a convolution that speed slices, and scores."""
    return nn.Sequential(
        bnn.BinaryConv2d(1, 32, 3, padding=1),
        bnn.StochasticBatchNorm2d(32),
        bnn.StochasticSign(),
        bnn.BinaryConv2d(32, 32, 3, padding=1),
        bnn.StochasticBatchNorm2d(32),
        bnn.StochasticSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(32 * 256, 3),
    )


def program_of(source: Checkpoint) -> Program:
    return build(source, parse_members("map", 0))[0]


def check_both(program: Program, optimize: Optimize, cpu: str) -> dict[str, int]:
    """The least flash, and the least RAM, that a form can be told to keep to: for speed all that may be given up is."""
    layouts = [choose(program, optimize, cpu=cpu)]
    if optimize == "speed":
        most = sorted(layouts[0].sliced)
        kept = [some for count in range(len(most) + 1) for some in combinations(most, count)]
        layouts = [lay_out(program, some, cpu=cpu) for some in kept]
    found = [footprint.measure(layout) for layout in layouts]
    return {"flash": min(m.flash_bytes for m in found), "ram": min(m.ram_bytes for m in found)}


@pytest.mark.nightly
def test_another_form_is_a_remedy(tmp_path: Path) -> None:
    program = lower_mnist()
    plain, least = (footprint.measure(choose(program, how)) for how in get_args(Optimize)[::2])
    assert least.ram_bytes < plain.ram_bytes
    text = refusal(program, Budget(None, least.ram_bytes))
    assert re.search(rf"--optimize ram: fits +flash {least.flash_bytes:,} +RAM {least.ram_bytes:,}", text)
    assert "--optimize size" not in text
    check_budget("net.pt", program, Budget(None, least.ram_bytes), True, Form("ram"))
    slow = choose(program, "size", cpu=CORTEX_M55)
    with pytest.raises(BlrcError, match="--cpu portable: fits"):
        limit = footprint.measure(slow).flash_bytes - 1
        check_budget("net.pt", program, Budget(limit, None), True, Form("size", CORTEX_M55))


def lower_mnist() -> Program:
    path = Path(__file__).parents[2] / "examples" / "mnist" / "mnist.pt"
    return program_of(load(path))


def test_no_remedy_is_said_to_be_none() -> None:
    x, y, z = (Value(name, kind, (1, 1, 1)) for name, kind in (("x", "bits"), ("y", "bits"), ("z", "int32")))
    ops = (Conv("conv", x, y, "w", "t", Window((1, 1))), Scores("scores", y, z, "v", "b"))
    shapes = {"w": ((1, 1, 1, 1), "u4"), "t": ((1,), "i4"), "v": ((1, 1, 1, 1), "i1"), "b": ((1,), "i4")}
    constants = {name: Constant((np.zeros(shape, kind),), (0,)) for name, (shape, kind) in shapes.items()}
    program = check(Program(x, ops, constants, ("map",), 1.0))
    assert "No option of blrc export makes it fit: train a smaller network." in refusal(program, Budget(None, 1))


def test_whole_maps_of_codes_are_named() -> None:
    """Of convolutions that read or write codes, where memory is lacking."""
    builder = Builder(Value("input", "bits", (6, 6, 4)), np.random.default_rng(0), members=1)
    builder.conv("bits", Window((3, 3)), None, 1, 9)
    builder.bits = 8
    builder.conv("first", Window((2, 2)), None, 1, 9)
    builder.conv("dense", Window((3, 3)), None, 1, 9)
    program = builder.finish()
    said = "keep whole maps, since they have no row strips: first."
    assert said in refusal(program, Budget(None, 1)) and said not in refusal(program, Budget(1, None))
    assert "whole maps" not in refusal(random_program(0), Budget(None, 1))


def command(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["export", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_the_command_refuses_before_it_writes(tmp_path: Path) -> None:
    model, shape = deep_network(0)
    source = checkpoint_of(model, "uint8", shape)
    path = tmp_path / "net.pt"
    blrc.save(model, path=path, input=source.encoding, calibration=source.samples())
    arguments = (path, "--target", "c", "-o", tmp_path / "out", "--flash", "1M")
    status, output = command(*arguments, "--ram", "64")
    assert status == 1 and not (tmp_path / "out").exists()
    assert re.search(r"does not fit: flash [\d,]+ of 1,048,576 bytes fits; RAM [\d,]+ of 64 bytes, [\d,]+ too", output)
    assert command(*arguments, "--ram", "64K")[0] == 0
    assert (tmp_path / "out").exists()


@pytest.mark.nightly
@pytest.mark.slow("exports and measures")
def test_one_figure_for_the_shipped_network_everywhere(tmp_path: Path) -> None:
    """The page about boards, the refusal, `blrc inspect` and the manifest say the same bytes."""
    root = Path(__file__).parents[2]
    model = root / "examples" / "mnist" / "mnist.pt"
    manifest = blrc.export(model, folder=tmp_path / "out", targets=["c"]).manifest.targets["c"]["memory"]
    found = CliRunner().invoke(main, ["inspect", str(model)]).output
    refused = CliRunner().invoke(
        main, ["export", str(model), "--target", "c", "-o", str(tmp_path / "no"), "--flash", "9"]
    )
    page = " ".join((root / "docs" / "boards" / "index.md").read_text(encoding="utf-8").split())
    flash, stack, arena = (
        f"{n:,}" for n in (manifest["flash_bytes"], manifest["stack_bytes"], manifest["ram"]["arena"])
    )
    assert f"takes {flash} bytes of flash, an arena of {arena} bytes" in page
    assert f"and {stack} bytes of stack" in page
    assert f": {flash} bytes;" in found and f"stack {stack}:" in found and f"arena {arena} bytes" in found
    assert f"flash {flash} of 9 bytes" in refused.output
    fast = blrc.export(model, folder=tmp_path / "fast", targets=["c"], optimize="speed").manifest.targets["c"]["memory"]
    more = fast["ram_bytes"] - manifest["ram_bytes"], fast["flash_bytes"] - manifest["flash_bytes"]
    assert f"{more[0]:,} bytes of RAM and {more[1]:,} of flash more" in page


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("0", "--flash '0': must be more than 0;"),
        ("", "--flash '': expected a"),
        ("9" * 4301, "--flash '9{40}': expected a"),
        ("1" * 5000 + "K", "--flash '1{40}': expected a"),
        ("1." + "0" * 5000, "--flash '1.0{38}': expected a"),
    ],
)
def test_a_size_that_is_none_is_quoted(size: str, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        parse_bytes(size, "--flash")
