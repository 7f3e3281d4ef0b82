"""The module that was given runs itself: a forward that branches on the circumstances of a call is refused."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from given_forward import ENCODING, SAMPLES, Forward, Net
from random_networks import randomise
from torch import fx, nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.saving import from_model


def net(call: Forward | None = None) -> Net:
    return randomise(Net(call), 3)  # type: ignore[return-value]


def refusal(model: nn.Module) -> str:
    with pytest.raises(BlrcError) as error:
        from_model(model, ENCODING, SAMPLES)
    assert "\n" not in str(error.value)
    return str(error.value)


CIRCUMSTANCES: dict[str, Callable[[torch.Tensor], bool]] = {
    "float32": lambda x: x.dtype == torch.float32,
    "float64": lambda x: x.dtype == torch.float64,
    "many": lambda x: len(x) > 8,
    "one": lambda x: len(x) == 1,
    "gradients": lambda x: torch.is_grad_enabled(),
    "no gradients": lambda x: not torch.is_grad_enabled(),
    "inference mode": lambda x: torch.is_inference_mode_enabled(),
    "an inference tensor": lambda x: x.is_inference(),
    "gradients of the input": lambda x: x.requires_grad,
    "no layout": lambda x: not x.is_contiguous(),
}
# What does not go together.
NEVER = [
    {"many", "one"}, {"float32", "float64"}, {"gradients", "no gradients"}, {"gradients", "inference mode"},
    {"gradients", "an inference tensor"}, {"no gradients", "gradients of the input"},
    {"inference mode", "gradients of the input"}, {"many", "gradients of the input"},
]  # fmt: skip


def together() -> Iterator[tuple[str, str]]:
    """Each alone, and pairs of the usual type with each: what users run."""
    for one in CIRCUMSTANCES:
        yield one, one
        if one not in ("float32", "float64"):
            yield "float32", one
    yield from itertools.product(("many", "one"), ("no gradients", "inference mode"))


@pytest.mark.parametrize(("one", "other"), list(together()))
def test_regression_a_forward_that_branches_on_the_circumstances_of_a_call(one: str, other: str) -> None:
    assert {one, other} not in NEVER

    def call(m: Any, x: torch.Tensor) -> Any:
        return m.plain(-x if not isinstance(x, fx.Proxy) and CIRCUMSTANCES[one](x) and CIRCUMSTANCES[other](x) else x)

    assert "the module differs from its captured graph on calibration sample" in refusal(net(call))


@pytest.mark.parametrize("every", [2, 3, 5])
def test_a_counter(every: int) -> None:
    def call(m: Any, x: torch.Tensor) -> Any:
        m.count += 1
        return m.plain(x if m.count % every else -x)

    assert "sample" in refusal(net(call))


@pytest.mark.parametrize("by", ["identity", "address of the weights", "identity of a layer"])
def test_regression_a_forward_that_knows_the_module_that_was_given(by: str) -> None:
    """All that was run were copies."""
    known: list[Any] = []

    def call(m: Any, x: torch.Tensor) -> Any:
        return m.plain(-x if not isinstance(x, fx.Proxy) and signature(m) in known else x)

    def signature(m: Any) -> int:
        if by == "address of the weights":
            return int(m.conv.weight.data_ptr())
        return id(m if by == "identity" else m.conv)

    model = net(call)
    known.append(signature(model))
    assert "differs from its captured graph" in refusal(model)


class Negating(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return -result if func is F.linear else result


def with_mode(m: Any, x: torch.Tensor) -> Any:
    with Negating():
        return m.plain(x)


def with_eps(m: Any, x: torch.Tensor) -> Any:
    m.norm.eps = 3.0
    y = m.plain(x)
    m.norm.eps = 1e-5
    return y


def with_other_weights(m: Any, x: torch.Tensor) -> Any:
    features = m.flat(m.sign(m.norm(m.conv(x))))
    return torch.func.functional_call(m.scores, {"weight": -m.scores.weight}, (features,))


def with_forward(m: Any, x: torch.Tensor) -> Any:
    m.norm.forward = lambda y: -nn.BatchNorm2d.forward(m.norm, y)
    y = m.plain(x)
    del m.norm.forward
    return y


def with_hook(m: Any, x: torch.Tensor) -> Any:
    handle = m.norm.register_forward_hook(lambda module, args, y: -y)
    y = m.plain(x)
    handle.remove()
    return y


def with_training(m: Any, x: torch.Tensor) -> Any:
    m.norm.train()
    y = m.plain(x)
    m.norm.eval()
    return y


@pytest.mark.parametrize(
    "change",
    [with_mode, with_eps, with_other_weights, with_forward, with_hook, with_training],
    ids=lambda f: f.__name__,
)
def test_what_a_forward_changes_for_the_while_it_runs_in_its_own_type(change: Forward) -> None:
    def call(m: Any, x: torch.Tensor) -> Any:
        return m.plain(x) if isinstance(x, fx.Proxy) or x.dtype != torch.float32 else change(m, x)

    model = net(call)
    weight = model.norm.running_mean.clone()  # type: ignore[union-attr]
    assert "layer '" in refusal(model)
    assert torch.equal(model.norm.running_mean, weight)  # type: ignore[arg-type]
    assert model.norm.eps == 1e-5


class Interrupted(KeyboardInterrupt):
    pass


class Silent(BaseException):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("bye"), GeneratorExit(), Interrupted(), Silent()])
@pytest.mark.parametrize("when", ["traced", "run", "in eval"])
def test_regression_whatever_is_raised_is_an_error_in_one_line(error: BaseException, when: str) -> None:
    def call(m: Any, x: torch.Tensor) -> Any:
        if when == ("traced" if isinstance(x, fx.Proxy) else "run"):
            raise error
        return m.plain(x)

    class Own(Net):
        def train(self, mode: bool = True) -> Own:
            if when == "in eval" and not mode:
                raise error
            return super().train(mode)

    model = randomise(Own(call), 3)
    assert type(error).__name__ in refusal(model)


def test_an_interruption_from_the_keyboard_is_none_of_ours() -> None:
    def call(m: Any, x: torch.Tensor) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_model(net(call), ENCODING, SAMPLES)


@pytest.mark.parametrize("when", ["traced", "run"])
def test_a_forward_without_end(when: str) -> None:
    def call(m: Any, x: torch.Tensor) -> Any:
        return m(x) if when == ("traced" if isinstance(x, fx.Proxy) else "run") else m.plain(x)

    limit = sys.getrecursionlimit()
    assert "recursion" in refusal(net(call))
    assert sys.getrecursionlimit() == limit


def test_what_the_module_holds_is_put_back() -> None:
    def call(m: Any, x: torch.Tensor) -> Any:
        m.count += 1
        m.log.append(m.count)
        m.seen = True
        if not isinstance(x, fx.Proxy):
            m.norm.num_batches_tracked = m.norm.num_batches_tracked + 1
        return m.plain(x)

    model = net(call).train()
    model.log.append(-1)
    flags = [module.training for module in model.modules()]
    tracked = int(model.norm.num_batches_tracked)  # type: ignore[arg-type]
    with pytest.raises(BlrcError, match="num_batches_tracked"):
        from_model(model, ENCODING, SAMPLES)
    assert (model.count, model.log, hasattr(model, "seen")) == (0, [-1], False)
    assert [module.training for module in model.modules()] == flags
    assert int(model.norm.num_batches_tracked) == tracked  # type: ignore[arg-type]
    assert not model.conv._forward_hooks
    assert not model.conv._forward_pre_hooks


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("stochastic", [True, False])
def test_networks_of_every_type_are_taken(dtype: torch.dtype, stochastic: bool) -> None:
    model = nn.Sequential(
        bnn.BinaryConv2d(1, 4, 3) if stochastic else bnn.SteConv2d(1, 4, 3),
        bnn.StochasticBatchNorm2d(4) if stochastic else nn.BatchNorm2d(4),
        bnn.StochasticSign() if stochastic else bnn.SteSign(),
        nn.Flatten(),
        bnn.SoftmaxLinear(64, 3),
    )
    from_model(randomise(model, 1).to(dtype), ENCODING, SAMPLES)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_regression_eight_bit_floats(dtype: torch.dtype) -> None:
    model = net()
    model.scores.weight = nn.Parameter(model.scores.weight.detach().to(dtype), requires_grad=False)
    assert "layer 'scores': weight is of type torch.float8" in refusal(model)
