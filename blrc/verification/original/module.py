"""Hold the original network of an export: a module of torch, whose own code is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.extras import require
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, sample
from blrc.net.choices import Rounding
from blrc.net.encoding import InputEncoding
from blrc.net.net import INPUT, Net
from blrc.net.pieces import Stage
from blrc.verification.original.original import Tensor
from blrc.verification.original.rounding import SINGLE

if TYPE_CHECKING:
    from blrc.frontend.capture.byvalue.replay import Replay


@dataclass(frozen=True, eq=False)
class OriginalModule:
    """Hold the original network, as `blrc.verification.original.original.Original` describes it.

    Its tensors have the names of the layers.

    Attributes:
        name: how reports call it.
        net: the net that it is read as.
        replay: runs it.
    """

    name: str
    net: Net
    replay: Replay

    @property
    def sha256(self) -> None:
        """Return None: a module has no file."""
        return

    @property
    def unit(self) -> float:
        """Return the relative error of one operation in float32."""
        return SINGLE

    @property
    def source(self) -> Tensor:
        """Return the module's input."""
        return Tensor(INPUT, INPUT, self.net.encoding.shape)

    @property
    def ends(self) -> tuple[Tensor, ...]:
        """Return the scores, of each head in order: what its last layer gives, before a softmax."""
        captured = self.replay.captured
        layers = [layer for _, layer in captured.heads] or [captured.nodes[-1].name]
        return tuple(self._tensor(layer) for layer in layers)

    def bits(self, stage: Stage) -> Tensor:
        """Return what a stage's sign gives."""
        return self._tensor(stage.sign.name)

    def sums(self, stage: Stage) -> Tensor:
        """Return what the operation gives that computes a stage's linear layer."""
        names = [stage.linear.name, *(step.name for step in stage.chain)]
        return self._tensor(next((name for name in names if name in self.replay.taps), names[0]))

    def pooled(self, layer: str) -> Tensor:
        """Return what a pool of bits gives."""
        return self._tensor(layer)

    def is_plus(self, tensor: Tensor, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which values of a tensor of bits are +1."""
        return np.asarray(values > 0)

    def fed(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Return what the module is given for raw samples: exact pixels, or what their codes stand for."""
        return self.net.encoding.real(raw)

    def seen(self, raw: NDArray[Any]) -> NDArray[Any] | None:
        """Return pixels as training standardises them, or None where nothing is rounded to codes."""
        encoding = self.net.encoding
        return encoding.standardised(raw, np.float32) if encoding.mean and not encoding.exact else None

    def part(self, source: Tensor, outputs: Sequence[Tensor]) -> _Part:
        """Return the part of the module from one layer to others."""
        return _Part(self.replay, source.name, tuple(each.name for each in outputs))

    def _tensor(self, layer: str) -> Tensor:
        if layer not in self.replay.taps:
            raise BlrcError(
                f"original={self.name}: does not compute what layer {layer!r} gives as a value of its own, so that it "
                "cannot be compared; compare the export with its checkpoint (--checkpoint, model=)"
            )
        return Tensor(layer, layer, self.replay.shapes[layer])


@dataclass(frozen=True, eq=False)
class _Part:
    replay: Replay
    source: str
    outputs: tuple[str, ...]

    def run(self, maps: NDArray[Any]) -> dict[str, NDArray[Any]]:
        if self.source == INPUT:
            return dict(self.replay.outputs(maps, self.outputs))
        return dict(self.replay.from_layer(self.source, maps, self.outputs))


def open_module(
    model: Any, encoding: InputEncoding, norms: str, rounding: Rounding, heads: Sequence[str] | None = None
) -> OriginalModule:
    """Read the module that an export is compared with.

    Args:
        encoding: the export's input.
        norms, rounding: the statistics of the export's norms, and what decides its bits.
        heads: the names of the export's heads, where it has several.

    Raises:
        BlrcError: the module is no binary network, has random weights, or is not what was exported.
    """
    require("torch", "comparing an export with a module")
    from blrc.frontend.capture.byvalue.front import unwrapped
    from blrc.frontend.capture.byvalue.replay import Replay
    from blrc.frontend.graph import GraphModel, of_codes

    name = type(model).__name__
    if norms == "estimated":
        raise BlrcError(
            f"original={name}: the export's norms were estimated anew, so that it is not the module as it is; export "
            "with --norms given to compare the two, or see what estimating changed by verify --checkpoint"
        )
    inner, _ = unwrapped(model)
    if isinstance(inner, GraphModel) and inner.pixels is not None:
        model, encoding = of_codes(inner, encoding, f"original={name}")
    _refuse_levels(name, model)
    replay = Replay(model, encoding, heads)
    name = type(replay.model).__name__
    found = replay.captured
    source = Checkpoint(found.nodes, found.tensors, found.reads(encoding), None, name, heads=found.heads)
    return OriginalModule(name, replace(sample(source, MAP, running=True), rounding=rounding), replay)


def _refuse_levels(name: str, model: Any) -> None:
    """Refuse a module with levels, whose codes are not compared."""
    from torch import nn

    from blrc.nn.layers.levels import EvenLevels, SteLevels, StochasticLevels

    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    for layer, module in modules:
        if isinstance(module, EvenLevels | SteLevels | StochasticLevels):
            raise BlrcError(
                f"original={name}: layer {layer!r} gives codes of levels, and an export is compared with an original "
                "network of +-1 alone; verify it without one"
            )
