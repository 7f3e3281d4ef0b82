from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from by_night import first
from random_networks import checkpoint_of, deep_network, raw_samples

from blrc.app.anytime import anytime
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.members import parse_members
from blrc.frontend.sample import sampled_layers
from blrc.net.encoding import device_layout
from blrc.program import reference


@pytest.mark.parametrize("kind", first(1, ["bits", "uint8", "int8"]))
def test_each_answer_is_that_of_an_ensemble_of_as_many(kind: str) -> None:
    model, shape = deep_network(1)
    checkpoint = checkpoint_of(model, kind, shape, 4)
    raw = raw_samples(checkpoint.encoding, 20, 6)
    device = device_layout(raw).astype(bool) if kind == "bits" else device_layout(raw)
    program, _ = build(checkpoint, parse_members("3", 8))
    for count, answer in enumerate(islice(anytime(checkpoint, raw=raw, seed=8), 3), start=1):
        expected = reference.answer(program, device, count)
        assert answer.members.tolist() == expected.members.tolist() == [count] * 20
        for field in ("label", "log_p", "mean", "variance"):
            assert np.array_equal(getattr(answer, field), getattr(expected, field)), (count, field)


def test_layers_can_stay_at_map() -> None:
    model, shape = deep_network(1)
    checkpoint = checkpoint_of(model, "uint8", shape, 4)
    raw = raw_samples(checkpoint.encoding, 20, 6)
    layers = sampled_layers(checkpoint, "conv")
    program, _ = build(checkpoint, parse_members("2", 8, layers, Fraction(1, 20)))
    second = next(islice(anytime(checkpoint, raw=raw, seed=8, sample="conv", freeze=0.05), 1, None))
    assert np.array_equal(second.log_p, reference.answer(program, device_layout(raw)).log_p)
    assert not np.array_equal(second.log_p, next(islice(anytime(checkpoint, raw=raw, seed=8), 1, None)).log_p)


def test_what_cannot_be_answered_is_refused_at_once() -> None:
    model, shape = deep_network(1)
    checkpoint = checkpoint_of(model, "uint8", shape, 4)
    with pytest.raises(BlrcError, match="samples: type float32"):
        next(anytime(checkpoint, raw=np.zeros((1, *shape), np.float32)))
    with pytest.raises(BlrcError, match="no calibration samples"):
        next(anytime(replace(checkpoint, calibration=None), raw=raw_samples(checkpoint.encoding, 2, 0)))


def test_anytime_wants_a_checkpoint() -> None:
    with pytest.raises(BlrcError, match=r"anytime takes a checkpoint, not str; give blrc.load\(path\)"):
        next(anytime("model.pt", raw=np.zeros((1, 1, 28, 28), np.uint8)))  # type: ignore[arg-type]
