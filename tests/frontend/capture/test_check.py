"""`blrc.save` runs the module beside its captured graph: what tracing does not see is refused by layer and sample."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from by_night import first
from given_forward import ENCODING, SAMPLES, SHAPE, Net
from random_networks import binarized_network, deep_network, encoding_of, randomise, raw_samples
from torch import fx, nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.capture.check import check_equal
from blrc.frontend.capture.evaluate import output
from blrc.frontend.capture.trace import capture
from blrc.frontend.capture.walk import tensors_of
from blrc.frontend.sample import MAP, sample
from blrc.frontend.saving import from_model
from blrc.lowering.calibrate import calibrate
from blrc.net.encoding import device_layout
from blrc.net.net import Norm
from blrc.program import reference


def refusal(model: nn.Module, **options: Any) -> str:
    with pytest.raises(BlrcError) as error:
        from_model(model, ENCODING, SAMPLES, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def traced(x: Any) -> bool:
    return isinstance(x, fx.Proxy)


def counted(m: Net, x: torch.Tensor) -> Any:
    m.count += 1
    return m.plain(x if m.count < 3 else -x)


def in_place(m: Net, x: torch.Tensor) -> Any:
    y = m.plain(x)
    if not traced(x):
        x.neg_()
    return y


def skipped(m: Net, x: torch.Tensor) -> Any:
    return m.scores(m.flat(m.sign(m.norm(m.conv(x)) if traced(x) else m.conv(x))))


def functional(m: Net, x: torch.Tensor) -> Any:
    if traced(x):
        return m.plain(x)
    return F.linear(m.flat(m.sign(m.norm(m.conv(x)))), m.scores.weight)


def swapped(m: Net, x: torch.Tensor) -> Any:
    features = m.flat(m.sign(m.norm(m.conv(x))))
    if traced(x):
        return m.scores(features)
    return torch.func.functional_call(m.scores, {"weight": -m.scores.weight}, (features,))


def changed_weights(m: Net, x: torch.Tensor) -> Any:
    if not traced(x):
        m.conv.weight.data.neg_()
    return m.plain(x)


def by_values(m: Net, x: torch.Tensor) -> Any:
    return m.plain(x if traced(x) or bool(x.mean() > 1) else -x)


TRICKS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "the input's sign where it is not traced": lambda m, x: m.plain(x if traced(x) else -x),
    "values": by_values,
    "a counter": counted,
    "gradients": lambda m, x: m.plain(-x if torch.is_grad_enabled() and not traced(x) else x),
    "the size of the batch": lambda m, x: m.plain(x if traced(x) or len(x) > 1 else -x),
    "the input changed in place": in_place,
    "the input changed before": lambda m, x: m.plain(x if traced(x) else x.neg_()),
    "a layer left out": skipped,
    "a layer run twice": lambda m, x: m.plain(x) if traced(x) else m.scores(m.sign(m.sign(m.flat(m.norm(m.conv(x)))))),
    "a function beside the layers": functional,
    "classes in another order": lambda m, x: m.plain(x) if traced(x) else m.plain(x)[:, [2, 1, 0]],
    "scaled scores": lambda m, x: m.plain(x) if traced(x) else m.plain(x) * 2,
    "softmax behind the scores": lambda m, x: m.plain(x) if traced(x) else m.plain(x).softmax(1),
    "NumPy": lambda m, x: m.plain(x) if traced(x) else torch.from_numpy(-m.plain(x).detach().numpy()),
    "another set of weights": swapped,
    "weights that each call changes": changed_weights,
    "several outputs": lambda m, x: m.plain(x) if traced(x) else [m.plain(x), x],
    "nothing": lambda m, x: m.plain(x) if traced(x) else None,
    "an error": lambda m, x: m.plain(x) if traced(x) else m.plain(x.flatten()),
    "whether torch.fx is at work": lambda m, x: m.plain(x if fx._symbolic_trace.is_fx_tracing() else -x),
}


@pytest.mark.parametrize("name", TRICKS)
def test_a_forward_that_is_traced_one_way_and_runs_another(name: str) -> None:
    model = randomise(Net(TRICKS[name]), 3)
    line = refusal(model)
    assert "sample" in line
    assert "layer '" in line or "network's output" in line


GLOBAL = {"mode": True}


def test_what_is_the_same_traced_and_run_is_taken() -> None:
    for call in (
        lambda m, x: m.plain(x if GLOBAL["mode"] else -x),
        lambda m, x: m.plain(-x if m.training else x),
        lambda m, x: m.scores(torch.flatten(m.sign(m.norm(m.conv(x))), 1)),
        lambda m, x: m.scores(m.sign(m.norm(m.conv(x=x))).flatten(1)),
    ):
        from_model(randomise(Net(call), 3), ENCODING, SAMPLES)


def test_layer_and_sample_are_named() -> None:
    """The one calibration sample that is bright takes another way."""
    samples = np.zeros((40, *SHAPE), np.uint8) + np.arange(36, dtype=np.uint8).reshape(SHAPE)
    samples[21] = 255

    def call(m: Net, x: torch.Tensor) -> Any:
        bright = None if traced(x) else (x.amin((1, 2, 3), keepdim=True) > 2)
        y = m.norm(m.conv(x))
        return m.scores(m.flat(m.sign(y if bright is None else torch.where(bright, -y, y))))

    with pytest.raises(BlrcError, match=r"layer 'sign': .* on calibration sample 21: its input, which 'norm' gives"):
        from_model(randomise(Net(call), 3), ENCODING, samples, check_samples=40)


@pytest.mark.parametrize("seed", first(4, range(12)))
def test_random_networks_are_what_they_say(seed: int) -> None:
    """Stochastic and Binarized NNs, with ties, gammas of 0 and of either sign: nothing is refused."""
    for make in (deep_network, binarized_network):
        model, shape = make(seed)
        encoding = encoding_of(("uint8", "int8", "bits")[seed % 3], shape)
        before = copy.deepcopy(randomise(model, seed)).state_dict()
        from_model(model, encoding, raw_samples(encoding, 6, seed))
        from_model(model, encoding, None, check_samples=2)
        for key, value in model.state_dict().items():
            assert torch.equal(value, before[key])


@pytest.mark.parametrize("seed", first(4, range(6)))
def test_the_evaluation_is_the_nets(seed: int) -> None:
    """Decisions of the independent evaluation are those of the calibrated integer network, given its statistics."""
    model, shape = deep_network(seed)
    encoding = encoding_of("int8", shape)
    raw = raw_samples(encoding, 9, seed)
    source = from_model(randomise(model, seed, ties=False), encoding, raw)
    nodes, tensors = source.nodes, dict(source.tensors)
    for layer in calibrate(sample(source), raw).layers:
        if isinstance(layer, Norm):
            sums: Any = layer.statistics
            units = encoding.scale if layer.x == nodes[0].name else 1.0
            bias = tensors.get(f"{layer.x}.bias", np.zeros(len(layer.gamma)))
            channels = range(len(layer.gamma))
            tensors[f"{layer.name}.running_mean"] = np.array([float(sums.mean(c)) for c in channels]) / units + bias
            tensors[f"{layer.name}.running_var"] = np.array([float(sums.variance(c)) for c in channels]) / units**2
    x = encoding.codes(raw) / encoding.scale
    for node in nodes:
        x = output(node, tensors, x).values
    program, _ = build(source, [MAP])
    device = device_layout(raw).astype(bool) if encoding.kind == "bits" else device_layout(raw)
    scores = reference.scores(program, device) * program.score_scale
    np.testing.assert_allclose(scores, x, atol=64 * program.score_scale)


@pytest.mark.parametrize("broken", ["weight", "bias", "eps", "kernel", "padding", "sign"])
def test_an_evaluation_that_is_another_networks_is_refused(broken: str) -> None:
    """The net itself, without the rules above it: each tensor and option of the graph is compared."""
    model = nn.Sequential(
        bnn.BinaryConv2d(1, 4, 3, padding=1, bias=True), bnn.StochasticBatchNorm2d(4), bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(), nn.Flatten(), bnn.SoftmaxLinear(36, 3),
    )  # fmt: skip
    randomise(model, 5)
    nodes, tensors = list(capture(model)), dict(tensors_of(model, [str(i) for i in range(6)]))
    check_equal(model, nodes, tensors, ENCODING, SAMPLES)

    def option(index: int, name: str, value: Any) -> None:
        node = nodes[index]
        nodes[index] = type(node)(node.name, node.kind, node.inputs, {**node.options, name: value})

    if broken in ("weight", "sign"):
        key = "5.weight" if broken == "weight" else "0.weight.logits"
        tensors[key] = tensors[key].copy()
        tensors[key].flat[0] = -tensors[key].flat[0] - 1e-3
    elif broken == "bias":
        tensors["0.bias"] = tensors["0.bias"] + np.float32(1e-3)
    else:
        option(*{"eps": (1, "eps", 1e-3), "kernel": (2, "stride", [1, 1]), "padding": (0, "padding", 0)}[broken])
    with pytest.raises(BlrcError, match=r"layer '\d': .*calibration sample"):
        check_equal(model, nodes, tensors, ENCODING, SAMPLES)


@pytest.mark.parametrize("count", [0, -1, 1.5, "all", False, True])
def test_the_check_cannot_be_switched_off(count: Any, tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match=r"check_samples .*: must be a whole number from 1 on"):
        blrc.save(Net(), path=tmp_path / "a.pt", input=ENCODING, calibration=SAMPLES, check_samples=count)
    assert not (tmp_path / "a.pt").exists()
    assert "sample" in refusal(randomise(Net(TRICKS["values"]), 3), check_samples=20)


def test_a_module_that_does_not_take_its_input_is_refused_when_it_is_saved() -> None:
    with pytest.raises(
        BlrcError, match="the module fails on random sample 0 in or after layer 'conv': SteConv2d takes"
    ):
        from_model(Net(), encoding_of("uint8", (2, 6, 6)), None)


def test_saving_leaves_the_module_and_the_generators_as_they_are() -> None:
    def call(m: Net, x: torch.Tensor) -> Any:
        m.count += 1
        np.random.random()  # the old generator, which user code has
        torch.rand(2)
        return m.plain(x)

    model = randomise(Net(call), 3).train()
    model.norm.eval()
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index, union-attr]
    from_model(model, ENCODING, SAMPLES)
    assert (model.count, model.training, model.norm.training) == (0, True, False)
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == numpy_state).all()  # type: ignore[index]
    assert not model.conv._forward_hooks


def test_another_default_device_and_type_change_nothing(tmp_path: Path) -> None:
    model = randomise(Net(), 3)
    blrc.save(model, path=tmp_path / "a.pt", input=ENCODING, calibration=SAMPLES)
    try:
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        blrc.save(model, path=tmp_path / "b.pt", input=ENCODING, calibration=SAMPLES)
        again = blrc.load(tmp_path / "b.pt").model()
        blrc.save(again, path=tmp_path / "again.pt", input=ENCODING, calibration=SAMPLES)
        blrc.export(tmp_path / "again.pt", folder=tmp_path / "out", targets="c")
    finally:
        torch.set_default_device("cpu")
        torch.set_default_dtype(torch.float32)
    assert {value.dtype for value in again.parameters()} == {torch.float32}
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.pt").read_bytes() == (tmp_path / "again.pt").read_bytes()


def test_tensors_are_those_that_the_layers_use_whatever_state_dict_says(tmp_path: Path) -> None:
    model = randomise(Net(), 3)
    plain = from_model(model, ENCODING, SAMPLES)

    def doubled(module: nn.Module, state: dict[str, torch.Tensor], prefix: str, metadata: Any) -> Any:
        for key in state:
            state[key] = state[key] * 2

    model._register_state_dict_hook(doubled)
    hooked = from_model(model, ENCODING, SAMPLES)
    for key, value in plain.tensors.items():
        np.testing.assert_array_equal(hooked.tensors[key], value)


def test_shared_weights_are_saved_under_both_names(tmp_path: Path) -> None:
    model = nn.Sequential(
        bnn.BinaryLinear(6, 6),
        bnn.StochasticSign(),
        bnn.BinaryLinear(6, 6),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(6, 2),
    )
    model[2].weight = model[0].weight
    encoding = encoding_of("bits", (6,))
    source = from_model(model, encoding, raw_samples(encoding, 4, 0))
    np.testing.assert_array_equal(source.tensors["0.weight.logits"], source.tensors["2.weight.logits"])


def test_norms_without_spread_and_inference_mode_are_no_difference() -> None:
    """A channel that is constant, with eps = 0: exporting re-estimates its statistics, and names it if that fails."""
    model = nn.Sequential(
        bnn.BinaryConv2d(1, 4, 3), bnn.StochasticBatchNorm2d(4, eps=0.0), bnn.StochasticSign(), nn.Flatten(),
        bnn.SoftmaxLinear(64, 3),
    )  # fmt: skip
    model[1].running_var[1] = 0.0
    with torch.inference_mode():
        from_model(model, ENCODING, SAMPLES)
