"""Several heads: their law beside torch's softmax, the program's file, and what is legal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from head_networks import HEADS, saved, stochastic

from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP, Member
from blrc.net.encoding import device_layout
from blrc.net.heads import check_heads
from blrc.program import head, heads, program_file, reference
from blrc.program.heads import Head, Tallies
from blrc.program.legal import check
from blrc.program.program import Program

UNIT = 2.0**-16
SCALES = {"a": 0.1, "b": 0.7, "c": 0.1}
SIZES = {"a": 3, "b": 2, "c": 6}


def parts() -> tuple[heads.Part, ...]:
    found, start = [], 0
    for name, scale in SCALES.items():
        found.append(heads.Part(slice(start, start + SIZES[name]), head.scale_of(scale)))
        start += SIZES[name]
    return tuple(found)


def test_each_head_has_the_softmax_of_its_own_scores() -> None:
    rng = np.random.default_rng(0)
    scores = [rng.integers(-300, 300, (50, 11)).astype(np.int32) for _ in range(3)]
    answer = heads.ensemble(scores, parts())
    assert answer.label.shape == answer.mean.shape == answer.variance.shape == (50, 3)
    for place, (part, scale) in enumerate(zip(parts(), SCALES.values(), strict=True)):
        real = [torch.from_numpy(member[:, part.place] * scale).double() for member in scores]
        exact = sum(torch.log_softmax(each, 1).clamp(min=-24 * np.log(2)) for each in real).numpy() / np.log(2)
        ours = answer.log_p[:, part.place] * UNIT
        assert np.abs(ours - exact).max() < 3 * 2.0**-12
        ordered = np.sort(exact, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 6 * 2.0**-12
        assert clear.sum() > 40
        assert (answer.label[:, place] == exact.argmax(axis=1))[clear].all()
        p = torch.stack([torch.softmax(each, 1) for each in real]).numpy()[:, np.arange(50), answer.label[:, place]]
        assert np.abs(answer.mean[:, place] * UNIT - p.mean(axis=0)).max() < 1e-3
        assert np.abs(answer.variance[:, place] * UNIT**2 - p.var(axis=0)).max() < 1e-3


def test_a_gate_and_an_early_end_wait_for_every_head() -> None:
    rng = np.random.default_rng(1)
    scores = [rng.integers(-300, 300, (400, 11)).astype(np.int32) for _ in range(4)]
    first = [head.ensemble([scores[0][:, part.place]], part.scale) for part in parts()]
    gate = round(0.97 * head.ONE)
    alone = np.all([each.mean >= gate for each in first], axis=0)
    assert 20 < alone.sum() < 380
    answer = heads.ensemble(scores, parts(), gate)
    assert (answer.members == np.where(alone, 1, 4)).all()
    assert (answer.label[alone] == np.stack([each.label for each in first], axis=1)[alone]).all()
    tallies = Tallies.start(400, parts())
    stopped = 0
    for index, member in enumerate(scores):
        tallies = tallies.add(member)
        settled = tallies.settled(3 - index)
        stopped += int(settled.sum())
        assert (tallies.answer().label == heads.ensemble(scores, parts()).label)[settled].all()
    assert settled.all()
    assert stopped > 400


def a_program() -> Program:
    return build(saved(stochastic()), [MAP, Member(1, 0)])[0]


def test_a_file_holds_the_heads(tmp_path: Path) -> None:
    program = a_program()
    path = tmp_path / "net.program.npz"
    program_file.save(program, path)
    again = program_file.load(path)
    assert again.heads == program.heads
    assert [each.name for each in again.heads] == list(HEADS)
    assert program_file.digest(again) == program_file.digest(program)
    named = replace(program, heads=(replace(program.heads[0], name="other"), program.heads[1]))
    assert program_file.digest(named) != program_file.digest(program)


def test_one_head_alone_has_the_same_scores() -> None:
    checkpoint = saved(stochastic())
    raw = device_layout(checkpoint.samples())
    program = a_program()
    scales = [each.score_scale for each in program.heads]
    assert scales[1] > 4 * scales[0]  # a scale of its own: with one for both the first would lose three bits
    for member, drawn in enumerate((MAP, Member(1, 0))):
        whole = reference.scores(program, raw, member)
        for each, part in zip(program.heads, program.parts, strict=True):
            alone = build(checkpoint.of_head(each.name), [drawn])[0]
            assert alone.heads == ()
            assert alone.score_scale == pytest.approx(each.score_scale, rel=0, abs=0)
            assert (reference.scores(alone, raw) == whole[:, part.place]).all()


def test_heads_that_do_not_fit_the_scores_are_refused() -> None:
    program = a_program()
    first, second = program.heads
    for wrong, words in (
        ((first, replace(second, classes=3)), "other classes than the 12"),
        ((first,), "1 heads: a network has one output without a name"),
        ((replace(first, score_scale=1.0), second), "not that of the first head"),
        ((first, replace(second, score_scale=0.0)), "score_scale 0.0 must be finite"),
        ((first, replace(second, name="a b")), "becomes a part of names in C"),
    ):
        with pytest.raises(BlrcError, match=words):
            check(replace(program, heads=wrong))
    with pytest.raises(BlrcError, match="1 heads"):
        check(replace(program, heads=(Head("all", 12, program.score_scale),)))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b-c"], "head 'b-c': its name becomes a part of names in C"),
        (["a", "1st"], "head '1st': its name becomes"),
        (["a", "_b"], "head '_b': its name becomes"),
        (["a", ""], "head '': its name becomes"),
        (["a", "é"], "its name becomes"),
        (["a", "b" * 41], "up to 40 letters"),
        (["a", "a"], "head 'a': another head has that name too"),
        (["Digit", "digit"], "head 'digit': another head is called 'Digit', which macros in C do not tell apart"),
        (["a", "scores"], "head 'scores': a tensor of exported ONNX files has that name"),
        (["a"], "1 heads: "),
        ([f"h{i}" for i in range(65)], "65 heads: a network has one output without a name, or 2 to 64 heads"),
    ],
)
def test_odd_names_are_refused(names: list[str], words: str) -> None:
    with pytest.raises(BlrcError, match=re.escape(words)):
        check_heads(names)
