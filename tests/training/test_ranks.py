"""Several processes: a step is that of one process on the joint batch, and a run ends as well."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from small_mnist import small_mnist, write_images
from two_processes import BATCHES, FLAVOURS, steps_of_every_network

from blrc.errors import BlrcError
from blrc.frontend import checkpoint
from blrc.nn.ranks import all_sum, settle
from blrc.training.machine.ranks import Ranks, joined
from blrc.training.run import _state
from blrc.training.state import TrainingState, save_state

SCRIPT = Path(__file__).with_name("two_processes.py")
ROOT = Path(__file__).parents[2]


def start(processes: int, *args: object) -> subprocess.CompletedProcess[str]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(torchrun if processes > 1 else []), str(SCRIPT), *map(str, args)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT of this process alone is ``1``, of two ``2``."""
    folder = tmp_path_factory.mktemp("steps")
    steps_of_every_network(str(folder / "1"))
    done = start(2, "steps", folder / "2")
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("samples", BATCHES)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_step_is_that_of_one_process_on_the_joint_batch(flavour: str, samples: int, steps: Path) -> None:
    """With 4 of 7 samples in one process and 3 in the other, or 2 and 1; gradients, new parameters, norm statistics,
    loss."""
    one, two = (torch.load(steps / f"{processes}.{flavour}.{samples}") for processes in (1, 2))
    weight = "grad.conv1.weight.logits" if flavour in ("blrnet", "lrnet", "fused") else "grad.conv1.weight"
    assert one.keys() == two.keys() and {"loss", weight, "norm1.running_var"} <= one.keys()
    assert sum(name.startswith("grad.") for name in one) >= 11
    for name, value in one.items():
        assert value.dtype in (torch.float64, torch.int64) or name == "loss"
        # Adam divides the gradient by its own size: where that is 1e-6 its rounding (1e-16) is 1e-10 of the step.
        torch.testing.assert_close(two[name], value, rtol=1e-8, atol=1e-8)
    assert max(float(value.abs().max()) for name, value in one.items() if name.startswith("grad.")) > 1e-3


@pytest.mark.nightly
@pytest.mark.parametrize("samples", BATCHES)
def test_a_fused_step_of_two_processes_is_the_plain_one(samples: int, steps: Path) -> None:
    plain, fused = (torch.load(steps / f"2.{flavour}.{samples}") for flavour in ("blrnet", "fused"))
    for name, value in plain.items():
        torch.testing.assert_close(fused[name], value, rtol=1e-8, atol=1e-8)


@pytest.mark.nightly
def test_noise_is_different_in_each_process_and_reproducible(steps: Path) -> None:
    drawn = [torch.load(steps / name) for name in ("1.noise.0", "2.noise.0", "2.noise.1")]
    assert not any(torch.equal(drawn[a], drawn[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    for ranks, values in zip((Ranks(), Ranks(0, 2), Ranks(1, 2)), drawn, strict=True):
        torch.manual_seed(ranks.seed(5))
        assert torch.equal(torch.rand(100), values)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("samples", [3, 7, 128])
def test_shares_make_up_the_batch(count: int, samples: int) -> None:
    everyone = [Ranks(rank, count) for rank in range(count)]
    shares = [ranks.share(np.arange(samples)) for ranks in everyone]
    assert sorted(np.concatenate(shares).tolist()) == list(range(samples))
    values = np.random.default_rng(0).normal(size=samples)
    means = [ranks.weight(samples) * values[share].mean() for ranks, share in zip(everyone, shares, strict=True)]
    assert np.mean(means) == pytest.approx(values.mean())
    assert len({ranks.seed(3) for ranks in everyone} | {ranks.seed(4) for ranks in everyone}) == 2 * count


def test_one_process_has_the_seed_itself() -> None:
    with joined() as ranks:
        assert (ranks.rank, ranks.count, ranks.seed(17), ranks.first) == (0, 1, 17, True)
        model = torch.nn.Linear(2, 2)
        assert ranks.parallel(model) is model and ranks.mean(0.25) == 0.25 and ranks.of_first(lambda: 7) == 7


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BlrcError, match="finds no GPU here"), joined("cuda"):
        pass
    with pytest.raises(BlrcError, match="device 'tpu'"), joined("tpu"):
        pass
    with joined("auto") as ranks:
        assert torch.device(ranks.device).type == "cpu"


def test_a_run_of_two_is_not_resumed_by_one(tmp_path: Path) -> None:
    save_state(TrainingState({"seed": 0, "ranks": 2}, torch.get_num_threads()), tmp_path / "state")
    with pytest.raises(BlrcError, match=r"other options \(ranks 2, now None\)"):
        _state(tmp_path / "state", {"seed": 0}, True, sys.stderr, "cpu")


@pytest.mark.nightly
def test_a_run_of_two_processes_ends_as_well(tmp_path: Path) -> None:
    """Full precision has no noise: its accuracies are those of one process but for a sample. The stochastic network has
    other noise; MAP on 40 samples is within three deviations of a proportion."""
    write_images(tmp_path)
    found = []
    for processes in (1, 2):
        output = tmp_path / f"{processes}.pt"
        done = start(processes, "run", tmp_path, output, 8, 16)
        assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
        assert not output.with_name(f"{output.name}.training").exists()
        small_mnist().load_state_dict(checkpoint.load(output).model().state_dict())
        rows = list(csv.DictReader(Path(f"{output}.csv").read_text(encoding="utf-8").splitlines()))
        assert len(rows) == 12
        found.append(
            {stage: [float(r["validation"]) for r in rows if r["stage"] == stage] for stage in ("fp", "blrnet")}
        )
    one, two = found
    assert np.abs(np.subtract(one["fp"], two["fp"])).max() <= 1 / 40 and max(one["fp"]) > 0.8
    assert max(one["blrnet"]) > 0.7 and max(two["blrnet"]) > 0.7


def refuse() -> None:
    raise BlrcError("no such folder")


def test_a_step_needs_two_samples_a_process() -> None:
    for count in (1, 2, 5):
        Ranks(0, count).check(2 * count)
        with pytest.raises(BlrcError, match=rf"{2 * count - 1} samples a step .* need {2 * count} or more"):
            Ranks(0, count).check(2 * count - 1)


def test_regression_no_thread_of_the_group_keeps_a_tensor() -> None:
    """A thread that let go of one while Python ended took the process with it, in one run of twenty."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        kept = []
        for _ in range(300):
            kept.append(all_sum(torch.ones(3)))
            assert kept[-1]._use_count() == 1
            settle(dist.broadcast, kept[0], src=0)
            assert kept[0]._use_count() == 1
        several = Ranks(0, 2)  # the first of two, whose other one says nothing
        assert several.of_first(lambda: {"a": (1, [2.5])}) == {"a": (1, [2.5])}
        with pytest.raises(BlrcError, match="no such folder"):
            several.of_first(refuse)
    finally:
        dist.destroy_process_group()
