"""Modules with several outputs: what is captured of them, what torch gives for each head, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from head_networks import HEADS, SHAPE, Headed, binarized, by_torch, drawn_heads, saved, stochastic, written
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model, write
from blrc.lowering.lower import score_scale
from blrc.net.encoding import device_layout
from blrc.program import reference
from blrc.program.heads import labels
from blrc.verification.oracles.agreement import torch_agreement
from blrc.verification.oracles.lowered import first_other_bits
from blrc.verification.original.compare import compare_original
from blrc.verification.original.module import open_module


def agrees(checkpoint: Checkpoint, model: nn.Module, seed: int) -> None:
    """Compare the program's scores and labels with torch's, for every head."""
    program, nets = build(checkpoint, [MAP], norms="given")
    raw = raw_samples(checkpoint.encoding, 60, seed + 100)
    scores = reference.scores(program, device_layout(raw))
    found = labels(scores, program.parts)
    inputs = program.ops[-1].fan_in
    sure = 0
    for place, real in enumerate(by_torch(model, checkpoint.encoding, raw)):
        each = program.heads[place]
        assert real.shape == (60, each.classes)
        bound = (inputs + 1) * each.score_scale / 2 + 1e-6 * np.abs(real).max()
        assert np.abs(scores[:, program.parts[place].place] * each.score_scale - real).max() <= bound
        ordered = np.sort(real, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 2 * bound
        assert (found[:, place] == real.argmax(axis=1))[clear].all()
        sure += int(clear.sum())
    assert sure > 30
    agreement = torch_agreement(nets[0], raw, found)
    assert agreement.differences == 0
    assert torch_agreement(nets[0], raw, np.roll(found, 1, axis=1)).same_labels < agreement.same_labels
    assert first_other_bits(program, nets[0], raw) is None


@pytest.mark.parametrize("seed", range(6))
def test_random_heads_are_what_torch_computes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    form = ("dict", "tuple")[seed % 2]
    model = binarized(drawn_heads(rng), form)
    checkpoint = saved(model, ("uint8", "int8", "bits")[seed % 3], seed)
    names = list(model.ends) if form == "dict" else [f"head{place}" for place in range(len(model.ends))]
    assert [name for name, _ in checkpoint.heads] == names
    agrees(checkpoint, model, seed)


def binary(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


class Plain(nn.Module):
    """Write a network as people do: signs by torch.where, two linear layers, and a softmax behind one of them."""

    def __init__(self, binary: bool) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(int(np.prod(SHAPE)), 40), nn.BatchNorm1d(40)
        self.left, self.right, self.binary = nn.Linear(40, 5), nn.Linear(40, 3), binary

    def forward(self, x: torch.Tensor) -> Any:
        bits = binary(self.norm(nn.functional.linear(x.flatten(1), binary(self.first.weight))))
        if self.binary:
            left, right = (binary(each.weight) for each in (self.left, self.right))
            return {"left": nn.functional.linear(bits, left) * 0.25, "right": nn.functional.linear(bits, right)}
        return {"left": self.left(bits), "right": torch.log_softmax(self.right(bits), 1)}


def test_binary_heads_of_plain_pytorch_are_read_by_value() -> None:
    torch.manual_seed(0)
    model = randomise(Plain(binary=True), 0, ties=False)
    encoding = encoding_of("int8", SHAPE)
    checkpoint = from_model(model, encoding, raw_samples(encoding, 40, 0))
    assert [name for name, _ in checkpoint.heads] == ["left", "right"]
    agrees(checkpoint, model, 0)


def test_a_module_with_heads_is_the_original_of_its_export() -> None:
    torch.manual_seed(1)
    model = randomise(Plain(binary=True), 1, ties=False)
    encoding = encoding_of("int8", SHAPE)
    checkpoint = from_model(model, encoding, raw_samples(encoding, 40, 0), heads=["a", "b"])
    program, _ = build(checkpoint, [MAP], norms="given")
    raw = device_layout(raw_samples(encoding, 60, 2))
    original = open_module(model, encoding, "given", "exact", ["a", "b"])
    found = compare_original(program, original, [(raw, None)], lambda what, done, total: None)
    assert found.same_program and not found.problems and (found.labels, found.scores) == (60, 60 * 8)
    assert found.same_labels == 60
    with torch.no_grad():
        model.right.weight[2] *= -1
    changed = open_module(model, encoding, "given", "exact", ["a", "b"])
    assert compare_original(program, changed, [(raw, None)], lambda what, done, total: None).problems


class Labelled(Plain):
    """Return labels or probabilities beside scores."""

    def __init__(self, form: str) -> None:
        super().__init__(binary=True)
        self.form = form

    def forward(self, x: torch.Tensor) -> Any:
        scores = super().forward(x)
        left, right = scores["left"], scores["right"]
        if self.form == "label":
            return left.argmax(1)
        if self.form == "max":
            return left.max(1)
        if self.form == "indices":
            return torch.max(left, 1)[1]
        if self.form == "topk":
            return left.topk(2, dim=1)
        if self.form == "beside":
            return left, left.argmax(-1)
        if self.form == "before":
            return left.argmax(1, keepdim=True), left
        if self.form == "probabilities":
            return left, left.softmax(1), torch.argmax(left, dim=1)
        return {"label": left.argmax(1), "left": left, "right": right}


@pytest.mark.filterwarnings("ignore:.*leaves out the softmax")
@pytest.mark.parametrize("form", ["label", "beside", "before", "probabilities", "max", "indices", "topk", "two heads"])
def test_labels_beside_scores_are_left_out(form: str) -> None:
    torch.manual_seed(2)
    model = randomise(Labelled(form), 2, ties=False).eval()
    encoding = encoding_of("int8", SHAPE)
    samples = raw_samples(encoding, 40, 0)
    with pytest.warns(
        UserWarning, match="leaves out the (argmax|max|topk) at the end .in forward.: the labels are the same"
    ):
        checkpoint = from_model(model, encoding, samples)
    wanted = ["left", "right"] if form == "two heads" else []
    assert [name for name, _ in checkpoint.heads] == wanted
    program, _ = build(checkpoint, [MAP], norms="given")
    raw = raw_samples(encoding, 60, 1)
    with torch.no_grad():
        real = Plain.forward(model, torch.from_numpy(encoding.real(raw)).float())["left"]
    found = labels(reference.scores(program, device_layout(raw)), program.parts).reshape(60, -1)[:, 0]
    assert len(np.unique(found)) > 1 and (found == real.argmax(1).numpy()).all()
    if form == "beside":
        original = open_module(model, encoding, "given", "exact")
        against = compare_original(program, original, [(device_layout(raw), None)], lambda what, done, total: None)
        assert against.same_program and not against.problems and against.scores == 60 * 5


@pytest.mark.filterwarnings("ignore:.*leaves out the argmax at the end")
def test_regression_heads_beside_a_label_keep_their_names() -> None:
    """The label had to have a name as well, so that an export could not be compared with its module."""
    torch.manual_seed(2)
    model = randomise(Labelled("two heads"), 2, ties=False).eval()
    encoding = encoding_of("int8", SHAPE)
    for names in (["a", "b"], ["label", "a", "b"]):
        checkpoint = from_model(model, encoding, heads=names)
        assert [name for name, _ in checkpoint.heads] == ["a", "b"]
        program, _ = build(checkpoint, [MAP], norms="given")
        original = open_module(model, encoding, "given", "exact", ["a", "b"])
        raw = device_layout(raw_samples(encoding, 60, 1))
        against = compare_original(program, original, [(raw, None)], lambda what, done, total: None)
        assert against.same_program and not against.problems and against.same_labels == against.labels == 60
    with pytest.raises(BlrcError, match="returns 2 outputs; give each a name of its own"):
        from_model(model, encoding, heads=["a"])


def test_a_sigmoid_of_real_scores_is_left_out() -> None:
    torch.manual_seed(0)

    class Ends(Plain):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.sigmoid(super().forward(x)["left"])

    model, encoding = randomise(Ends(binary=False), 2, ties=False).eval(), encoding_of("int8", SHAPE)
    with pytest.warns(UserWarning, match="leaves out the sigmoid at the end"):
        checkpoint = from_model(model, encoding)
    program, nets = build(checkpoint, [MAP], norms="given")
    raw = raw_samples(encoding, 60, 1)
    with torch.no_grad():
        real = Plain.forward(model, torch.from_numpy(encoding.real(raw)).float())["left"].numpy()
    found = reference.scores(program, device_layout(raw)) * score_scale(nets)
    assert np.abs(found - real).max() <= 41 * score_scale(nets) / 2 + 1e-6


def test_real_heads_of_plain_pytorch_are_read_by_value() -> None:
    torch.manual_seed(0)
    model = Plain(binary=False)
    encoding = encoding_of("int8", SHAPE)
    with pytest.warns(UserWarning, match="leaves out the softmax at the end"):
        checkpoint = from_model(model, encoding, raw_samples(encoding, 40, 0))
    assert [name for name, _ in checkpoint.heads] == ["left", "right"]
    program, _ = build(checkpoint, [MAP])
    raw = raw_samples(encoding, 60, 1)
    found = labels(reference.scores(program, device_layout(raw)), program.parts)
    for place, real in enumerate(by_torch(model, encoding, raw)):
        assert (found[:, place] == real.argmax(axis=1)).sum() >= 57  # real weights are rounded to 8 bits


def test_regression_a_gaussian_is_one_output() -> None:
    """Mean and variance of a last norm were taken for two heads, since a Gaussian is a named tuple."""
    model = nn.Sequential(bnn.BinaryLinear(20, 5), bnn.StochasticBatchNorm1d(5))
    encoding = encoding_of("bits", (20,))
    checkpoint = from_model(randomise(model, 0), encoding, raw_samples(encoding, 40, 0))
    assert checkpoint.heads == ()


def test_a_checkpoint_keeps_heads_and_state(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = stochastic()
    checkpoint = saved(model)
    loaded = blrc.load(written(checkpoint, tmp_path / "net.pt"))
    assert "heads digit and parity" in repr(loaded)
    again = loaded.model()
    assert list(again.state_dict()) == list(model.state_dict())
    x = torch.from_numpy(checkpoint.encoding.real(checkpoint.samples())).float()
    torch.manual_seed(1)
    ours = model.float().eval()(x)
    torch.manual_seed(1)
    theirs = again.eval()(x)
    assert list(theirs) == list(HEADS)
    for name in HEADS:
        assert torch.equal(ours[name], theirs[name])
    assert from_model(again, checkpoint.encoding, checkpoint.samples()).heads == checkpoint.heads
    alone = loaded.of_head("parity")
    assert alone.model().eval()(x).shape == (40, 2)
    write(alone, tmp_path / "alone.pt")
    reread = blrc.load(tmp_path / "alone.pt")
    assert (reread.nodes, reread.heads) == (alone.nodes, ()) and not any("digit" in key for key in reread.tensors)
    torch.manual_seed(1)
    wanted = alone.model().eval()(x)
    torch.manual_seed(1)
    assert torch.equal(reread.model().eval()(x), wanted)
    assert from_model(alone.model(), checkpoint.encoding, checkpoint.samples()).nodes == alone.nodes
    with pytest.raises(BlrcError, match="has no head 'digits'; its heads are digit, parity"):
        loaded.of_head("digits")


def test_outputs_get_the_names_that_are_given() -> None:
    torch.manual_seed(0)
    assert [n for n, _ in saved(stochastic(form="fields")).heads] == ["digit", "parity"]
    assert [n for n, _ in saved(stochastic(form="tuple")).heads] == ["head0", "head1"]
    assert [n for n, _ in saved(stochastic(form="tuple"), heads=["a", "b"]).heads] == ["a", "b"]
    assert [n for n, _ in saved(stochastic(), heads=["a", "b"]).heads] == ["a", "b"]
    assert saved(stochastic({"only": 4})).heads == ()
    for form in ("dict", "tuple"):
        assert saved(stochastic({"only": 4}, form)).heads == ()
    for names in (["a"], ["a", "b", "c"], ["a", "a"]):
        with pytest.raises(BlrcError, match=r"Headed\.forward returns 2 outputs; give each a name of its own"):
            saved(stochastic(), heads=names)
    with pytest.raises(BlrcError, match="returns 1 outputs; give each a name"):
        saved(stochastic({"only": 4}), heads=["a"])


class Deeper(Headed):
    """Its second head has a hidden layer of its own."""

    def __init__(self, make: Callable[[], Headed], hidden: nn.Module) -> None:
        made = make()
        super().__init__(made.trunk, made.ends, "dict")
        self.hidden = hidden

    def forward(self, x: torch.Tensor) -> Any:
        bits = self.trunk(x)
        return {"digit": self.ends["digit"](bits), "parity": self.ends["parity"](self.hidden(bits))}


class Same(Headed):
    def forward(self, x: torch.Tensor) -> Any:
        found = self.ends["digit"](self.trunk(x))
        return {"digit": found, "parity": found}


def refused(model: nn.Module, words: str) -> None:
    with pytest.raises(BlrcError, match=words):
        saved(model)


def test_heads_at_other_depths_and_of_other_kinds_are_refused() -> None:
    torch.manual_seed(0)
    same_bits = (
        "head 'parity': does not read the bits that head 'digit' reads; several heads have to read the same bits"
    )
    hidden = nn.Sequential(bnn.BinaryLinear(36, 36), bnn.StochasticBatchNorm1d(36), bnn.StochasticSign())
    refused(Deeper(stochastic, hidden), same_bits)
    ste = nn.Sequential(bnn.SteLinear(81, 81), nn.BatchNorm1d(81), bnn.SteSign())
    refused(Deeper(binarized, ste), same_bits)
    mixed = binarized()
    mixed.ends["parity"] = bnn.SoftmaxLinear(81, 2)
    refused(mixed, "head 'parity': has real weights, and head 'digit' binary ones; give all heads of a network")
    signed = binarized()
    signed.ends["parity"] = nn.Sequential(bnn.SteLinear(81, 2), nn.BatchNorm1d(2), bnn.SteSign())
    refused(signed, same_bits)
    one = stochastic()
    refused(Same(one.trunk, {"digit": one.ends["digit"]}), "gives the same scores as head 'parity'|same scores as")
    odd = stochastic({"digit": 10, "is even?": 2}, "dict")
    refused(odd, r"head 'is even\?': its name becomes a part of names in C")
    single = stochastic({"digit": 10, "even": 1})
    with pytest.raises(BlrcError, match=r"layer 'ends\.even': one output is no choice"):
        build(saved(single), [MAP])


class Idle(Headed):
    """One of its last layers is computed and returned by nobody."""

    def forward(self, x: torch.Tensor) -> Any:
        found = super().forward(x)
        return {name: found[name] for name in ("digit", "parity")}


def test_a_layer_that_no_head_needs_is_refused() -> None:
    torch.manual_seed(0)
    made = stochastic({**HEADS, "unused": 3})
    refused(Idle(made.trunk, made.ends), "layer 'ends.unused': no head needs what it gives; leave it out")


class Own(nn.Module):
    """One layer, behind which each head has steps of its own, up to its own sign."""

    def __init__(self, **steps: nn.Module) -> None:
        super().__init__()
        self.layer, self.steps = bnn.SteConv2d(SHAPE[0], 9, 3), nn.ModuleDict(steps)
        self.ends = nn.ModuleDict()
        for name, each in self.steps.items():
            features = each(torch.zeros(2, 9, SHAPE[1] - 2, SHAPE[2] - 2)).flatten(1).shape[1]
            self.ends[name] = nn.Sequential(bnn.SteSign(), nn.Flatten(), bnn.SoftmaxLinear(features, 4))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        z = self.layer(x)
        return {name: self.ends[name](each(z)) for name, each in self.steps.items()}


def test_heads_with_norms_or_pools_of_their_own_are_refused() -> None:
    """They were taken for heads of the same bits, since the layer is the same, and all computed from the first's."""
    torch.manual_seed(0)
    same_bits = "head 'parity': does not read the bits that head 'digit' reads"
    refused(Own(digit=nn.BatchNorm2d(9), parity=nn.BatchNorm2d(9)), same_bits)
    refused(Own(digit=nn.Identity(), parity=nn.MaxPool2d(2)), same_bits)
    refused(Own(digit=nn.MaxPool2d(2), parity=bnn.MaxPool2d(2, padding=(0, 0, 1, 1))), same_bits)
    refused(Own(digit=bnn.ChannelShift(torch.ones(9)), parity=bnn.ChannelShift(-torch.ones(9))), same_bits)


def test_heads_may_have_signs_of_their_own_for_the_same_bits() -> None:
    torch.manual_seed(0)
    for seed, steps in enumerate((nn.Identity, lambda: nn.MaxPool2d(2))):
        model = Own(digit=steps(), parity=steps())
        agrees(saved(model, "bits", seed), model, seed)


class Turned(Headed):
    """Its heads change places when it runs on one sample."""

    def forward(self, x: torch.Tensor) -> Any:
        found = super().forward(x)
        turned = not isinstance(x, torch.fx.Proxy) and len(x) == 1
        return dict(zip(found, reversed(found.values()), strict=True)) if turned else found


def test_outputs_that_change_places_are_found() -> None:
    torch.manual_seed(0)
    made = stochastic({"left": 3, "right": 3})
    refused(Turned(made.trunk, made.ends), "the module differs from its captured graph on .*the network's output")
