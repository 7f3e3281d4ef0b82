"""`blrc eval` measures the head that the labels are for, and says which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from head_networks import HEADS, saved, stochastic, written
from random_networks import raw_samples

import blrc
from blrc.app.export import build
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP, Member
from blrc.net.encoding import device_layout
from blrc.program import reference
from blrc.program.heads import ensemble


def test_each_head_is_measured_as_it_is_exported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = written(saved(stochastic()), tmp_path / "net.pt")
    checkpoint = blrc.load(path)
    raw = raw_samples(checkpoint.encoding, 120, 5)
    rng = np.random.default_rng(0)
    program, _ = build(checkpoint, [MAP, Member(3, 0), Member(3, 1)])
    scores = [reference.scores(program, device_layout(raw), member) for member in range(3)]
    one, two = ensemble(scores[:1], program.parts), ensemble(scores[1:], program.parts)
    for place, (name, classes) in enumerate(HEADS.items()):
        labels = np.where(rng.random(120) < 0.5, one.label[:, place], rng.integers(0, classes, 120))
        data = tmp_path / f"{name}.npz"
        np.savez(data, images=raw, labels=labels)
        for head in (name, None) if place == 0 else (name,):  # the first is the default
            found = blrc.evaluate(path, data=data, members="map,2", seed=3, head=head)
            assert found["data"] == f"{data}, head {name}"
            rows = found["members"]
            assert rows["map"]["accuracy_mean"] == pytest.approx(100 * (one.label[:, place] == labels).mean())
            assert rows["2"]["accuracy_mean"] == pytest.approx(100 * (two.label[:, place] == labels).mean())
    done = CliRunner().invoke(main, ["eval", str(path), "--data", str(data), "--members", "map", "--head", "parity"])
    assert done.exit_code == 0, done.output
    assert "parity.npz, head parity" in done.output
    with pytest.raises(BlrcError, match=r"net\.pt: has no head 'colour'; its heads are digit, parity"):
        blrc.evaluate(path, data=data, members="map", head="colour")


def test_a_network_with_one_output_has_no_heads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = written(saved(stochastic({"only": 3})), tmp_path / "net.pt")
    with pytest.raises(BlrcError, match="has no head 'only'; it has one output"):
        blrc.evaluate(path, data=tmp_path / "none.npz", members="map", head="only")


def test_a_baseline_with_several_heads_gives_the_head_of_that_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = written(saved(stochastic()), tmp_path / "net.pt")
    other = saved(stochastic({"parity": 2, "digit": 10}), seed=1)
    raw = raw_samples(other.encoding, 60, 5)
    program, _ = build(other, [MAP])
    labels = reference.answer(program, device_layout(raw)).label[:, 1]
    np.savez(tmp_path / "data.npz", images=raw, labels=labels)
    beside = [written(other, tmp_path / "other.pt")]
    found = blrc.evaluate(path, data=tmp_path / "data.npz", members="map", head="digit", baselines=beside)
    assert found["baselines"]["other"]["accuracy_mean"] == 100.0
    beside = [written(saved(stochastic({"colour": 2, "shape": 8})), tmp_path / "none.pt")]
    with pytest.raises(BlrcError, match=r"none\.pt: has no head 'digit'; its heads are colour, shape"):
        blrc.evaluate(path, data=tmp_path / "data.npz", members="map", head="digit", baselines=beside)


def test_answers_come_member_by_member_for_every_head() -> None:
    torch.manual_seed(0)
    checkpoint = saved(stochastic())
    raw = raw_samples(checkpoint.encoding, 20, 5)
    answers = blrc.anytime(checkpoint, raw=raw, seed=3)
    program, _ = build(checkpoint, [Member(3, 0), Member(3, 1)])
    scores = [reference.scores(program, device_layout(raw), member) for member in range(2)]
    for count in (1, 2):
        answer, expected = next(answers), ensemble(scores[:count], program.parts)
        assert answer.label.shape == (20, 2)
        for field in ("label", "log_p", "mean", "variance", "members"):
            assert (getattr(answer, field) == getattr(expected, field)).all()
