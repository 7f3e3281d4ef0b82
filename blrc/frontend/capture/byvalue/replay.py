"""Run a module again in float32, as its author wrote it, to look at values between its layers or to put others there.

The layers are found once, by `read`. After that nothing is explained: torch's operations are only counted, the results
of some are kept, and the result of one can be replaced by given values, so that the module's own code computes what
follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.emit import Captured
from blrc.frontend.capture.byvalue.front import unwrapped
from blrc.frontend.capture.byvalue.read import read, run, twin_of, values_of
from blrc.frontend.capture.byvalue.tape import name_of
from blrc.frontend.capture.byvalue.values import Reals, Tap
from blrc.frontend.capture.check import inputs_of
from blrc.frontend.capture.recording import first_line
from blrc.frontend.capture.trace import undisturbed
from blrc.frontend.capture.walk import named_modules
from blrc.net.encoding import InputEncoding
from blrc.nn import WeightDistribution

AT_ONCE = 2**23
"""Values of all layers that are computed in one run."""


class Replay:
    """Hold a module whose layers were recognised by value, and run it again.

    Args:
        model: the module, which stays as it is.
        encoding: its raw input.
        heads: names for its heads, in their order; None takes those that its forward gives them.

    Raises:
        BlrcError: the module is no binary network (see `read`), has random weights, or does not run in float32.
    """

    def __init__(self, model: nn.Module, encoding: InputEncoding, heads: Sequence[str] | None = None) -> None:
        self.model, _ = unwrapped(model)
        if any(isinstance(module, WeightDistribution) for module in named_modules(self.model).values()):
            raise BlrcError(
                f"original={type(model).__name__}: its weights are random, so it computes no one value; compare the "
                "export with its checkpoint (--checkpoint, model=)"
            )
        inputs = inputs_of(encoding, None, None, sum(value.numel() for value in values_of(self.model)))
        self.captured: Captured = read(self.model, encoding, inputs, None, heads)
        with undisturbed(), torch.autocast("cpu", enabled=False), torch.device("cpu"):
            done = run(self.model, encoding, torch.from_numpy(inputs.real).float(), torch.float32, heads)
        self.steps = done.steps
        self.taps: Mapping[str, Tap] = {
            name: atom.tap for name, atom in done.captured.atoms.items() if atom.tap is not None
        }
        self.shapes = {name: atom.shape for name, atom in self.captured.atoms.items()}
        self.shape = encoding.shape
        values = int(np.prod(encoding.shape)) + sum(int(np.prod(shape)) for shape in self.shapes.values())
        self.batch = max(1, AT_ONCE // values)

    def outputs(self, x: NDArray[Any], layers: Sequence[str]) -> dict[str, Reals]:
        """Return what layers give for real inputs ``(N, *shape)``, each ``(N, *its shape)``; signs are -1 and +1."""
        parts = [
            self._run(torch.from_numpy(np.ascontiguousarray(x[i : i + self.batch])).float(), layers, None)
            for i in range(0, len(x), self.batch)
        ]
        return _joined(parts, layers)

    def from_layer(self, source: str, values: NDArray[Any], layers: Sequence[str]) -> dict[str, Reals]:
        """Return what layers give where the layer `source` gives `values` ``(N, *its shape)``, whatever is before it.

        The module is given one sample of zeros, and from the layer on computes with as many as there are values. Where
        its code has looked at the number of samples before, it gets as many from the beginning.
        """
        parts = []
        for i in range(0, len(values), self.batch):
            given = torch.from_numpy(np.ascontiguousarray(values[i : i + self.batch]))
            try:
                parts.append(self._run(torch.zeros(1, *self.shape), layers, (self.taps[source].number, given)))
            except BlrcError:
                zeros = torch.zeros(len(given), *self.shape)
                parts.append(self._run(zeros, layers, (self.taps[source].number, given)))
        return _joined(parts, layers)

    def _run(self, x: torch.Tensor, layers: Sequence[str], given: tuple[int, torch.Tensor] | None) -> dict[str, Reals]:
        twin = twin_of(self.model, torch.float32)
        counter = _Counter(self.steps, {self.taps[name].number for name in layers}, given)
        with undisturbed(), torch.autocast("cpu", enabled=False), torch.device("cpu"), torch.no_grad():
            try:
                with counter:
                    twin(x)
            except _Done:
                pass
            except BlrcError:
                raise
            except Exception as error:  # of the module's own code
                raise BlrcError(f"{type(self.model).__name__}: fails in float32: {first_line(error)}") from error
        samples = len(x) if given is None else len(given[1])
        if counter.missing or any(len(found) != samples for found in counter.found.values()):
            raise _other_steps(len(x))
        return {name: self.taps[name].again(counter.found[self.taps[name].number]) for name in layers}


class _Done(BaseException):  # it is no error, and no code of a module may catch it
    """End a run in which everything that was wanted has been found."""


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Count operations, keep the results of some, and replace the result of one."""

    def __init__(self, steps: Sequence[str], wanted: set[int], given: tuple[int, torch.Tensor] | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.steps, self.missing, self.given = steps, wanted, given
        self.found: dict[int, torch.Tensor] = {}
        self.number = -1

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from importing its compiler, as `blrc.frontend.capture.byvalue.tape.Tape` does."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.number += 1
        if self.number >= len(self.steps) or name_of(func) != self.steps[self.number]:
            raise _other_steps(None)
        if self.given is not None and self.number == self.given[0]:
            result = self.given[1].to(result.dtype, copy=True).reshape(-1, *result.shape[1:])
        if self.number in self.missing:
            values = result if isinstance(result, torch.Tensor) else result[0]
            self.found[self.number] = values.detach().clone()
            self.missing = self.missing - {self.number}
            if not self.missing:
                raise _Done
        return result


def _other_steps(samples: int | None) -> BlrcError:
    of = "another number of" if samples is None else f"{samples:,}"
    return BlrcError(f"forward takes other steps for {of} samples; it must compute each sample alike")


def _joined(parts: Sequence[Mapping[str, Reals]], layers: Sequence[str]) -> dict[str, Reals]:
    return {name: np.concatenate([part[name] for part in parts]) for name in layers}
