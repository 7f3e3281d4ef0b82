"""The fast scores are the reference's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from random_networks import binarized_network, checkpoint_of, deep_network, raw_samples
from random_programs import random_inputs, random_program

from blrc.app.export import build
from blrc.evaluation import quick
from blrc.frontend.sample import MAP, Member, sample
from blrc.lowering.lower import lower
from blrc.net.encoding import device_layout
from blrc.program import reference


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    program = random_program(seed, members=1)
    raw = random_inputs(program, 37, seed)
    (found,) = quick.scores([program], raw)
    expected = reference.scores(program, raw)
    assert found.dtype == expected.dtype and np.array_equal(found, expected)


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
@pytest.mark.parametrize("network", [deep_network, binarized_network])
@pytest.mark.parametrize("seed", range(3))
def test_several_programs_that_share_layers(kind: str, network: object, seed: int) -> None:
    model, shape = network(seed)  # type: ignore[operator]
    checkpoint = checkpoint_of(model, kind, shape, seed)
    raw = device_layout(raw_samples(checkpoint.encoding, 70, seed))
    nets = [net for member in (MAP, Member(1, 0)) for net in build(checkpoint, [member])[1]]
    nets.append(sample(checkpoint, MAP, running=True))  # the first one's weights with other thresholds
    programs = [lower([net]) for net in nets]
    for found, program in zip(quick.scores(programs, raw), programs, strict=True):
        assert np.array_equal(found, reference.scores(program, raw))


def test_where_torch_is_not_exact_the_reference_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    model, shape = deep_network(1)
    checkpoint = checkpoint_of(model, "uint8", shape, 1)
    first, _ = build(checkpoint, [MAP])
    programs = [first, lower([sample(checkpoint, MAP, running=True)])]  # of the same weights: they share sums
    raw = device_layout(raw_samples(checkpoint.encoding, 70, 1))
    true = quick._convolve
    wrong = []

    def rounded(maps: quick.torch.Tensor, weights: quick.torch.Tensor, op: quick.Conv) -> quick.torch.Tensor:
        z = true(maps, weights, op)
        if z.dtype == quick.torch.float32:
            wrong.append(op.name)
            z += 3000
        return z

    monkeypatch.setattr(quick, "_convolve", rounded)
    for found, program in zip(quick.scores(programs, raw), programs, strict=True):
        assert np.array_equal(found, reference.scores(program, raw))
    assert wrong
