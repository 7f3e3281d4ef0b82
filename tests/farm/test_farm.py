"""The farm: random networks at the extremes, compiled with sanitizers in several ways, against an evaluator of its own.

Sixty networks here, and those of the next that reach a kernel which these missed; BLRC_FARM_HOURS in the environment
asks for so many CPU hours instead (docs/farm.md).
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import farm_direct
import farm_evaluator as evaluator
import numpy as np
import pytest
import run_farm
import torch
from farm_check import SAMPLES, Outcome, Variant, WrongError, check, reaching
from farm_harness import NAME, ExactBuild
from farm_kernels import FROM_NO_CHECKPOINT, wanted
from farm_networks import STYLES, Network, network
from random_networks import encoding_of, randomise, raw_samples

import blrc
from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.net.encoding import device_layout
from blrc.program.program import Conv, Program, Value, Window
from blrc.targets.c.kernels.registry import KERNELS
from blrc.targets.c.runtime_files import runtime_sources

HOURS = float(os.environ.get("BLRC_FARM_HOURS") or 0)
NETWORKS = 60
FEW = 3
MOST_SEEDS = 300  # a kernel that none of them reaches is too rare: give it a style of its own
WAYS = 2  # in which each is run

pytestmark = pytest.mark.needs("clang")


@pytest.mark.slow("compiles whole networks under sanitizers")
def test_a_few_random_networks_are_right() -> None:
    """Which says that the farm works; by night it sees every kernel."""
    outcomes = list(run_farm.grow(range(FEW), 1, emulate=0.5))
    assert [f"seed {o.seed}: {o.message}" for o in outcomes if o.status == "wrong"] == []
    assert sum(o.status == "right" for o in outcomes) >= FEW // 2


@pytest.mark.nightly
@pytest.mark.timeout(3600 * 24 * 7 if HOURS else 1200)
def test_random_networks_are_right_or_refused_by_layer() -> None:
    """Prints what was reached. A kernel that the first networks miss is sought among those that follow."""
    begun = run_farm.cpu_seconds()
    outcomes: list[Outcome] = []
    for outcome in run_farm.grow(itertools.count(), WAYS, emulate=0.2):
        outcomes.append(outcome)
        if len(outcomes) >= NETWORKS and run_farm.cpu_seconds() - begun >= 3600 * HOURS:
            break
    missing = wanted(()) - set[str]().union(*(o.kernels for o in outcomes))
    for seed in range(len(outcomes), MOST_SEEDS) if missing else ():
        ways = reaching(network(seed), missing, run_farm.here()[0])
        for outcome in run_farm.grow([seed] if ways else (), only=ways[:WAYS]):
            outcomes.append(outcome)
            missing -= outcome.kernels
        if not missing:
            break
    spent = run_farm.cpu_seconds() - begun
    lines = [{"code": run_farm.code(), "cpu": spent / len(outcomes), **outcome.plain()} for outcome in outcomes]
    sys.stdout.write(run_farm.summary(lines) + "\n")
    assert [f"seed {o.seed}: {o.message}" for o in outcomes if o.status == "wrong"] == []
    assert sum(o.status == "right" for o in outcomes) >= len(outcomes) * 3 // 4
    assert sum(o.status == "refused" for o in outcomes) > 0
    assert not missing, f"no network reached {sorted(missing)}"


def test_all_kernels_are_known() -> None:
    """Every source of the runtime that is called like a kernel has a record, and kernel_main.c knows all it should."""
    files = {path.stem.removeprefix("blrc_") for path in runtime_sources()}
    assert KERNELS.keys() == {
        name for name in files if re.match("(conv|dense|scores|pool|encode|binarize|flatten)", name)
    }
    assert set(farm_direct.NAMES) == KERNELS.keys() - FROM_NO_CHECKPOINT - {"scores_binary"}
    assert {"conv_lanes@avx2", "conv_lanes"} <= wanted(["avx2"]) and "encode" not in wanted(())


def test_a_network_is_the_same_for_the_same_seed() -> None:
    one, other = network(7), network(7)
    assert (one.style, one.options, one.encoding) == (other.style, other.options, other.encoding)
    tensors = one.model.state_dict()
    assert tensors and all((tensor == other.model.state_dict()[name]).all() for name, tensor in tensors.items())
    assert {network(seed).style for seed in range(1, 40)} == set(STYLES)


@pytest.mark.nightly
def test_the_extremes_are_reached() -> None:
    """Over 400 seeds: padding of twice the kernel and more than the map, strides and dilations beyond the kernel,
    kernels larger than the map, maps of one row or column, 1,000 channels."""
    seen: set[str] = set()
    for seed in range(400):
        grown = network(seed)
        shape = grown.encoding.shape
        if len(shape) == 3:
            seen |= {f"{shape[0]} channels", f"{shape[1]} rows", f"{shape[2]} columns"}
        for layer in grown.model.modules():
            if not isinstance(layer, bnn.BinaryConv2d | bnn.SteConv2d) or isinstance(layer.padding, str):
                continue
            seen |= {"sides that differ"} if len(layer.padding) == 4 else set()
            of_axes = zip(layer.kernel_size, layer.stride, layer.padding[:2], layer.dilation, strict=True)
            for axis, (kernel, stride, padding, dilation) in enumerate(of_axes):
                seen |= {f"padding {padding / kernel:g}"} if padding % kernel == 0 else set()
                seen |= {"stride beyond"} if stride > kernel else set()
                seen |= {"dilation beyond"} if dilation > kernel else set()
                seen |= {"kernel beyond"} if len(shape) == 3 and kernel > shape[1 + axis] else set()
    wanted_here = {"1 rows", "1 columns", "1 channels", "1000 channels", "padding 0", "padding 1", "padding 2"}
    assert wanted_here | {"stride beyond", "dilation beyond", "kernel beyond", "sides that differ"} <= seen


# That faults are found.


def small(seed: int = 3, bits: bool = False) -> Network:
    """A small network of one convolution and scores."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            bnn.BinaryConv2d(2, 5, 3, padding=1),
            bnn.StochasticBatchNorm2d(5),
            bnn.StochasticSign(),
            torch.nn.Flatten(),
            bnn.SoftmaxLinear(5 * 4 * 5, 3),
        )
        randomise(model, seed)
    encoding = encoding_of("bits" if bits else "uint8", (2, 4, 5))
    return Network(seed, "small", model, encoding, raw_samples(encoding, 12, seed))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Program, np.ndarray]:  # type: ignore[type-arg]
    folder = tmp_path_factory.mktemp("small")
    grown = small()
    blrc.save(grown.model, path=folder / "model.pt", input=grown.encoding, calibration=grown.calibration)
    program = blrc.export(folder / "model.pt", folder=folder / "net", targets="c", name=NAME).program
    return folder / "net", program, device_layout(grown.inputs(SAMPLES))


def test_a_step_that_writes_behind_its_output_is_found(exported: tuple[Path, Program, Any], tmp_path: Path) -> None:
    """One word behind the map, which lies in the arena's middle or in a larger array elsewhere."""
    folder, _, raw = exported
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    source = tmp_path / "net_blrc.c"
    text = source.read_text()
    assert text.count("i < op->out_width * words; ++i") == 1
    source.write_text(text.replace("i < op->out_width * words; ++i", "i <= op->out_width * words; ++i"))
    with ExactBuild(tmp_path) as built:
        step = built.layout.steps[0]
        with pytest.raises(BlrcError, match="heap-buffer-overflow"):
            built.run_op(step.op.name, raw)


def test_a_difference_names_member_op_position_channel_z_and_threshold(exported: tuple[Path, Program, Any]) -> None:
    _, program, raw = exported
    expected = evaluator.evaluate(program, raw, 0)
    conv = next(op for op in program.ops if isinstance(op, Conv))
    found = expected.values[conv.y.name].copy()
    found[2, 1, 3, 4] ^= True
    z, threshold = int(expected.sums[conv.name][2, 1, 3, 4]), int(program.constant(conv.thresholds)[4])
    said = evaluator.first_difference(program, conv, 0, expected, found)
    assert said is not None
    for part in ("member 0", f"op {conv.name!r}", "position (1, 3)", "channel 4", f"z {z}", f"threshold {threshold}"):
        assert part in said
    assert evaluator.first_difference(program, conv, 0, expected, expected.values[conv.y.name]) is None


def test_a_wrong_comparison_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the evaluator's thresholds one too high, some of the C's bits are wrong."""
    table = evaluator._table

    def higher(program: Program, name: str, member: int) -> Any:
        return table(program, name, member) + ("thresholds" in name)

    monkeypatch.setattr(evaluator, "_table", higher)
    outcome = check(small(bits=True), [Variant()])
    assert outcome.status == "wrong" and "threshold" in outcome.message, outcome


def test_a_refusal_without_a_layer_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlrcError("something is wrong")

    monkeypatch.setattr(blrc, "export", refuse)
    assert check(small(), [Variant()]).status == "wrong"


# The evaluator.


def test_the_evaluator_on_numbers_worked_out_by_hand() -> None:
    """A 1x2 kernel (+1, -1) over one row 1, -2, 3 with a column of padding on the left and two on the right."""
    window = Window((1, 2), padding=(0, 1, 0, 2))
    op = Conv("c", Value("x", "int8", (1, 3, 1)), Value("y", "bits", (1, 5, 1)), "w", "t", window)
    weights = np.array([1, -1]).reshape(1, 1, 2, 1)
    x = np.array([1, -2, 3], np.int8).reshape(1, 1, 3, 1)
    assert evaluator.convolved(op, weights, x)[0, 0, :, 0].tolist() == [-1, 3, -5, 3, 0]
    bits = np.array([False, True, False, False, True]).reshape(1, 1, 5, 1)
    pool = Window((1, 2), (1, 2), (0, 1, 0, 0))
    assert evaluator.pooled(pool, bits)[0, 0, :, 0].tolist() == [False, True, True]
    assert evaluator.labels(np.array([[1, 3, 3], [0, 0, 0]])) == [1, 0]


# The log.


def test_a_log_is_gone_on_with_and_summed_up_by_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []

    def grow(seeds: Any, *_: object) -> Any:
        for seed in itertools.islice(seeds, 2):
            ran.append(seed)
            time.sleep(0)
            yield Outcome(seed, "same", values=10, kernels={"dense"}, variants={"portable size host": 10})

    monkeypatch.setattr(run_farm, "grow", grow)
    log = tmp_path / "log" / "farm.jsonl"
    monkeypatch.setattr(sys, "argv", ["run_farm.py", "--log", str(log), "--seed", "5", "--hours", "1"])
    assert run_farm.main() == 0
    with log.open("a") as lines:
        lines.write('{"cut short')
    assert run_farm.main() == 0
    assert ran == [5, 6, 7, 8]
    assert [line["seed"] for line in run_farm.read(log)] == [5, 6, 7, 8]
    said = capsys.readouterr().out
    assert f"code {run_farm.code()}: 4 networks (4 right), 40 values" in said and "never reached" in said


def test_a_wrong_network_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(*_: object) -> Any:
        raise AssertionError

    line = {"code": "c", "cpu": 1.0, **Outcome(4, "same", "wrong", "member 0, op 'c'").plain()}
    assert "WRONG seed 4: member 0, op 'c'" in run_farm.summary([line])
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(line) + "\n")
    monkeypatch.setattr(sys, "argv", ["run_farm.py", "--log", str(log), "--summary"])
    assert run_farm.main() == 1


def test_an_error_of_the_comparison_is_wrong_and_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import farm_check

    def fails(*_: object) -> None:
        raise WrongError("differs")

    monkeypatch.setattr(farm_check, "_run", fails)
    outcome = check(small(), [Variant()])
    assert (outcome.status, outcome.message) == ("wrong", "portable size host: differs")
