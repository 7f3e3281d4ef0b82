"""One epoch of a stage, and accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from blrc.datasets.idx import Dataset
from blrc.net import encoding
from blrc.training.seeds import derived_seed
from blrc.training.stages.stage import EVALUATION_BATCH, Stage, accuracy, optimiser, run_epoch

ENCODING = encoding.pixels((1, 2, 2), mean=(0.5,), std=(0.25,))


def dataset(count: int) -> Dataset:
    """Sample k has the pixel k (base 256) and the label k % 10."""
    numbers = np.arange(count)
    pixels = np.stack([numbers % 256, numbers // 256, 0 * numbers, 0 * numbers], 1)
    return Dataset(pixels.astype(np.uint8).reshape(count, 1, 2, 2), (numbers % 10).astype(np.uint8))


class Spy:
    """A stage that records its batches and rates."""

    def __init__(self, epochs: int = 2) -> None:
        self.batches: list[tuple[Tensor, Tensor]] = []
        self.rates: list[float] = []
        self.progress: list[float] = []
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(4, 10))
        self.stage = Stage(
            "spy", epochs, lambda _: self.model, self.groups, self.schedule, lambda _: self.loss, lambda _: 0.0
        )
        self.adam = optimiser(self.stage, self.model)

    def groups(self, model: nn.Module) -> list[dict[str, Any]]:
        return [{"params": list(model.parameters()), "lr": 0.5}]

    def schedule(self, progress: float) -> float:
        self.progress.append(progress)
        return 1 - progress

    def loss(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        assert model.training
        self.batches.append((inputs, labels))
        self.rates.append(self.adam.param_groups[0]["lr"])
        return model(inputs).square().mean()

    def run(self, epoch: int, data: Dataset, batch: int, seed: int) -> list[tuple[int, float]]:
        reports: list[tuple[int, float]] = []
        run_epoch(self.stage, epoch, self.model, self.loss, self.adam, data, ENCODING, batch, seed,
                  lambda *report: reports.append(report))  # fmt: skip
        return reports


@pytest.mark.parametrize(("count", "batch", "sizes"), [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (9, 4, [4, 4]), (3, 8, [3])])
def test_every_sample_once_but_no_batch_of_one(count: int, batch: int, sizes: list[int]) -> None:
    spy, data = Spy(), dataset(count)
    spy.model.eval()
    reports = spy.run(1, data, batch, seed=3)
    assert [len(labels) for _, labels in spy.batches] == sizes
    assert [step for step, _ in reports] == list(range(1, len(sizes) + 1))
    seen = torch.cat([inputs for inputs, _ in spy.batches])
    real = torch.from_numpy(ENCODING.real(data.images))
    rows = {row.numpy().tobytes(): int(label) for row, label in zip(real, data.labels, strict=True)}
    labels = torch.cat([labels for _, labels in spy.batches])
    assert [rows[row.numpy().tobytes()] for row in seen] == labels.tolist()  # images keep their labels
    assert len({row.numpy().tobytes() for row in seen}) == sum(sizes)


def test_the_order_is_the_seed_s() -> None:
    def order(seed: int) -> list[int]:
        spy = Spy()
        spy.run(1, dataset(50), 50, seed)
        return spy.batches[0][1].tolist()

    assert order(1) == order(1) and order(1) != order(2)


def test_the_rate_follows_the_schedule_across_epochs() -> None:
    spy = Spy(epochs=2)
    spy.run(1, dataset(8), 4, 1), spy.run(2, dataset(8), 4, 2)
    assert spy.progress == [0, 0.25, 0.5, 0.75]
    assert spy.rates == [0.5, 0.375, 0.25, 0.125]


def test_accuracy_counts_over_batches() -> None:
    count = 2 * EVALUATION_BATCH + 7
    data = dataset(count)
    wrong = {0, EVALUATION_BATCH, count - 1}
    answers = iter(range(count))

    class Oracle(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scores = torch.zeros(len(x), 10)
            for row in range(len(x)):
                k = next(answers)
                scores[row, (k + (k in wrong)) % 10] = 1
            return scores

    assert accuracy(Oracle(), data, ENCODING) == (count - 3) / count


def test_derived_seeds_are_distinct_and_fit_every_generator() -> None:
    seeds = {derived_seed(s, stage, epoch) for s in range(5) for stage in range(5) for epoch in range(20)}
    assert len(seeds) == 500
    assert all(0 <= seed < 2**63 for seed in seeds)
