"""Steps by torch.compile train as the others do."""

from __future__ import annotations

import sysconfig
from collections import OrderedDict
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from blrc import nn as bnn
from blrc.datasets.idx import Dataset
from blrc.errors import BlrcError
from blrc.net.encoding import pixels
from blrc.nn import reuse_noise
from blrc.nn.fast.passes import torch_compiled
from blrc.nn.noise import Noise, Noisy
from blrc.training.loop import run_stages
from blrc.training.machine.ranks import Ranks
from blrc.training.machine.torch_compile import compiled, reported
from blrc.training.recipe import Recipe
from blrc.training.run import _refuse_early, run
from blrc.training.stages.losses import stochastic_losses
from blrc.training.stages.registry import stages_of
from blrc.training.stages.stage import Stage
from blrc.training.state import TrainingState

ENCODING = pixels((1, 4, 4), mean=(0.5,), std=(0.5,))
RNG = np.random.default_rng(0)
DATA = Dataset(RNG.integers(0, 256, (32, 1, 4, 4), np.uint8), RNG.integers(0, 3, 32, np.uint8))


def small() -> nn.Module:
    """Both kinds of blocks, with and without pooling; a larger network takes no longer to compile."""
    model = nn.Sequential(
        OrderedDict(
            conv1=bnn.BinaryConv2d(1, 8, 3, padding="same"),
            norm1=bnn.StochasticBatchNorm2d(8),
            sign1=bnn.StochasticSign(),
            conv2=bnn.BinaryConv2d(8, 8, 3, padding="same"),
            norm2=bnn.StochasticBatchNorm2d(8),
            pool2=bnn.StochasticMaxPool2d(2),
            sign2=bnn.StochasticSign(),
            flat=nn.Flatten(),
            scores=bnn.SoftmaxLinear(32, 3),
        )
    )
    reuse_noise(model)
    return model.to(memory_format=torch.channels_last)


def history(tmp_path: Any, compile: bool) -> list[Any]:
    stage = Stage(
        "blrnet",
        3,
        lambda _: small(),
        lambda model: [{"params": list(model.parameters()), "lr": 0.01}],
        lambda _: 1.0,
        lambda results: stochastic_losses(Recipe(), results, len(DATA), "cpu"),
        lambda model: 0.5,
        compile=compile,
    )
    state = TrainingState({}, 1)
    run_stages([stage], state, tmp_path / f"{compile}.training", DATA, ENCODING, batch=16, seed=0)
    return [row["loss"] for row in state.history]


def traced(graph: Any, inputs: Any) -> Any:
    """A backend that runs what was traced as it is."""
    return graph.forward


@pytest.fixture
def inductor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch.compile with a cache of its own, in this process."""
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        pytest.skip("Python's headers, which torch.compile needs, are not installed (python3-dev)")
    import torch._inductor.config  # which takes seconds

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    with torch._inductor.config.patch(compile_threads=1):
        yield


@pytest.mark.nightly
@pytest.mark.needs("g++")
@pytest.mark.filterwarnings("ignore")  # torch.compile has warnings of its own
def test_compiled_steps_are_those_of_the_plain_network(tmp_path: Any, inductor: None) -> None:
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    first = history(tmp_path, True)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > before  # it was compiled
    plain = history(tmp_path, False)
    assert first == pytest.approx(plain, abs=2e-4) and plain[0] > plain[2] + 0.01


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("pooled", "rows", "hard"), [(True, 1, False), (True, 3, True), (False, 1, True)])
@pytest.mark.parametrize(
    "backend", [traced, pytest.param("inductor", marks=[pytest.mark.needs("g++"), pytest.mark.nightly])]
)
def test_compiled_passes_are_the_plain_ones(
    backend: Any, pooled: bool, rows: int, hard: bool, inductor: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """13 channels fill no vector; some gamma are negative; another temperature is not compiled again. By day what is
    traced runs as it is."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    norm, pool = bnn.StochasticBatchNorm2d(13), [bnn.StochasticMaxPool2d(2)] if pooled else []
    norm.weight.data, norm.bias.data = torch.linspace(-1.3, 1.1, 13), torch.linspace(-0.5, 0.5, 13)
    model = nn.Sequential(norm, *pool, bnn.StochasticSign(hard=hard))
    rng = torch.Generator().manual_seed(0)
    mean, var = (torch.rand(n, 6, 4, 13, generator=rng).permute(0, 3, 1, 2) for n in (3, rows))
    fast, found = compiled(model), []
    for network in (fast, model):
        model[-1].tau = 0.7
        for step in range(2):
            leaves = [x.clone(memory_format=torch.preserve_format).requires_grad_() for x in (mean * 4 - 2, var)]
            graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
            torch.manual_seed(step)
            out = network(bnn.Gaussian(*leaves))
            (out * torch.arange(out.numel()).view(out.shape).sin()).sum().backward()
            assert step == 0 or torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs
            found.append([out.detach(), *(leaf.grad for leaf in leaves), norm.weight.grad.clone()])
            model[-1].tau = 1.3
        norm.weight.grad = None
    for ours, theirs in zip(found[:2], found[2:], strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_regression_a_second_training_is_compiled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile gives up on a function after eight shapes, which two trainings in one process had."""
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=traced))
    for channels in range(1, 10):
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        torch_compiled().squares(torch.ones(2, 2, 2, channels), torch.ones(channels))
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs + 1, channels


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_regression_a_missing_compiler_is_found_before_pretraining(tmp_path: Path, inductor: None) -> None:
    missing = torch._inductor.config.patch({"cpp.cxx": (None, "/nonexistent/g++")})
    with missing, pytest.raises(BlrcError, match=r"torch\.compile failed .*leave out --compile"):
        run(tmp_path / "x.pt", tmp_path / "no data", Recipe(compile=True))


def test_a_baseline_on_several_processes_is_not_compiled() -> None:
    with pytest.raises(BlrcError, match="not for bnn: leave it out"):
        _refuse_early(Recipe(model="bnn", compile=True), Ranks(0, 2))


def test_which_stages_are_compiled() -> None:
    options: dict[str, Any] = {"compile": True, "restart_epochs": 1}
    found = {stage.name: stage.compile for stage in stages_of(Recipe(**options), DATA, DATA, ENCODING)}
    assert found == {"fp": False, "blrnet": True, "restart": True}
    for model in ("bnn", "fp"):
        (stage,) = stages_of(Recipe(model=model, compile=True), DATA, DATA, ENCODING)
        assert stage.compile
    assert not any(stage.compile for stage in stages_of(Recipe(), DATA, DATA, ENCODING))


@pytest.mark.filterwarnings("ignore")  # importing torch's compiler warns
def test_a_copy_of_a_compiled_model_draws_noise_of_its_own() -> None:
    model = small()
    compiled(model)
    copied = deepcopy(model)
    for mine, its in zip(noises(model), noises(copied), strict=True):
        its.like(torch.zeros(3))
        assert its is not mine and its.buffer is not None and mine.buffer is None


def noises(model: nn.Module) -> list[Noise]:
    return [module.noise for module in model.modules() if isinstance(module, Noisy)]


def test_what_torch_compile_cannot_do_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.exc import TorchDynamoException

    with (
        pytest.raises(BlrcError, match=r"failed \(no g\+\+ here\); .*leave out --compile"),
        reported(True),
    ):
        raise TorchDynamoException("no g++ here\nand more")
    with pytest.raises(TorchDynamoException), reported(False):
        raise TorchDynamoException

    def refuse(model: nn.Module, dynamic: bool) -> nn.Module:
        raise RuntimeError("torch.compile is not supported on this Python")

    monkeypatch.setattr(torch, "compile", refuse)
    with pytest.raises(BlrcError, match=r"failed \(torch\.compile is not supported on this Python\); .*leave out"):
        compiled(small())
