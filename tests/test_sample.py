import numpy as np
import pytest
from random_networks import checkpoint_of, deep_network

from blrc.errors import BlrcError
from blrc.net import Conv, Dense, Moments, Norm
from blrc.sample import MAP, Member, sample


def test_map_is_the_likeliest_sign() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    net = sample(checkpoint)
    for layer in net.layers:
        if isinstance(layer, Conv | Dense):
            logits = checkpoint.tensors[f"{layer.name}.weight.logits"]
            assert np.array_equal(layer.weights, np.where(logits <= 0, 1, -1))


def test_members_are_independent_of_one_another_and_differ() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    weights = [
        [layer.weights for layer in sample(checkpoint, Member(9, k)).layers if isinstance(layer, Conv | Dense)]
        for k in (0, 1, 0)
    ]
    assert all(np.array_equal(a, b) for a, b in zip(weights[0], weights[2], strict=True))
    assert all(not np.array_equal(a, b) for a, b in zip(weights[0], weights[1], strict=True))


def test_running_statistics_are_kept() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    for layer in sample(checkpoint, running=True).layers:
        if isinstance(layer, Norm):
            assert isinstance(layer.statistics, Moments)
            assert np.array_equal(layer.statistics.means, checkpoint.tensors[f"{layer.name}.running_mean"])


@pytest.mark.parametrize("member", [MAP, Member(0, 0), Member(2**64 - 1, 2**32 - 1)])
def test_member_survives_its_text(member: Member) -> None:
    assert Member.parse(str(member)) == member


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (2**64, 0), (0, -1), (0, 2**32)])
def test_seed_and_member_out_of_range(seed: int, index: int) -> None:
    with pytest.raises(BlrcError, match="must be from 0"):
        Member(seed, index)
