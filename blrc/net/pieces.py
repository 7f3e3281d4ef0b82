"""Group a net's layers into pieces, each of which becomes one op of the program, and refuse what has no exact form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blrc.errors import BlrcError
from blrc.net.choices import MOST_BITS, Rounding, level_bits, level_step
from blrc.net.elements import Codes, sum_bits
from blrc.net.heads import check_heads
from blrc.net.net import (
    INPUT,
    AveragePool,
    Clip,
    Conv,
    Dense,
    Flatten,
    Layer,
    Leak,
    Levels,
    MaxPool,
    Net,
    Norm,
    Pointwise,
    Scale,
    Shift,
    Sign,
    Softmax,
    Threshold,
    unit_of,
)
from blrc.net.parts import shifts
from blrc.net.shapes import with_windows

MOST_OUTPUT_BITS = 256
"""Bits of a last sign that are given as scores; the table that passes them on has the square of it as bytes."""


def averaged(pool: AveragePool, reads: Codes | None) -> Codes:
    """Return the sums that stand for averages of codes, or of +-1, which are counted as bits.

    Raises:
        BlrcError: averages of +-1 are padded, or sums have too many bits (layer named).
    """
    read = reads or Codes(pool.name, 1, Fraction(2), Fraction(1))
    assert pool.window is not None, "with_windows gives it one"
    if read.below and any(pool.window.padding):
        raise BlrcError(
            f"layer {pool.name!r}: pads signs, or levels below 0, with zeros, for which there is no count, before it "
            "averages them; use padding=0, or levels from 0 on (SteLevels)"
        )
    taps, bits = pool.window.taps, sum_bits(pool.window.taps, read.most)
    if bits > MOST_BITS:
        of, levels = (f"codes of up to {read.most}", ", or use fewer levels") if read.most > 1 else ("bits", "")
        raise BlrcError(
            f"layer {pool.name!r}: averages {taps} {of}, whose sum may be {taps * read.most}, and sums are counted up "
            f"to {2**MOST_BITS - 1}; pool or stride before it{levels}"
        )
    return Codes(pool.name, 2**bits - 1, read.step / taps, read.below)


@dataclass(frozen=True, eq=False)
class Stage:
    """Group a binary layer with what follows it up to its sign: the unit that folds into one op of the program.

    Attributes:
        linear: the binary layer.
        chain: monotone steps and max pooling, in their order.
        sign: what decides the bit or the code.
        rounding: see `blrc.net.net.Net`.
        reads: the codes that the layer reads; None where it reads +-1 or the network's input.
    """

    linear: Conv | Dense
    chain: tuple[Pointwise | MaxPool, ...]
    sign: Sign | Threshold | Levels
    rounding: Rounding = "exact"
    reads: Codes | None = None

    @property
    def pools(self) -> tuple[MaxPool, ...]:
        return tuple(step for step in self.chain if isinstance(step, MaxPool))

    @property
    def steps(self) -> tuple[Pointwise, ...]:
        """Return the chain without its pools."""
        return tuple(step for step in self.chain if not isinstance(step, MaxPool))

    @property
    def norm(self) -> Norm | None:
        """Return the first norm of the chain, if any."""
        return next((step for step in self.chain if isinstance(step, Norm)), None)


@dataclass(frozen=True, eq=False)
class ScoreStage:
    """Group a last binary dense layer with the affine steps behind it, which give the class scores.

    Attributes:
        linear, chain: the layer and the steps.
        reads: see `Stage`.
    """

    linear: Dense
    chain: tuple[Norm | Scale | Shift, ...]
    reads: Codes | None = None

    @property
    def norm(self) -> Norm | None:
        """Return the first norm of the chain, if any."""
        return next((step for step in self.chain if isinstance(step, Norm)), None)


Piece = Stage | MaxPool | AveragePool | Flatten | Softmax | ScoreStage


def pieces(net: Net) -> list[Piece]:
    """Group a net's layers: binary layer, monotone steps and max pools, sign; pools and flattens of bits between.

    The last piece gives the scores: a softmax layer, whose weights are those of what it reads, +-1 or codes; or a
    binary dense layer and affine steps without a sign. Where a dense layer's sign comes last, the scores are its bits,
    +1 and -1. A network with heads ends with a piece for each, all of one kind.

    Raises:
        BlrcError: the order of layers has no exact integer form; the message names the layer and says what to do.
    """
    if not net.heads:
        return _pieces(net)
    check_heads([name for name, _ in net.heads])
    found = [_pieces(net.upto(layer)) for _, layer in net.heads]
    (first, _), ends = net.heads[0], [each.pop() for each in found]
    for (name, layer), trunk, end in zip(net.heads, found, ends, strict=True):
        if _deciding(trunk) != _deciding(found[0]):
            raise BlrcError(
                f"head {name!r}: does not read the bits that head {first!r} reads; several heads have to read the same "
                "bits: let each be one last layer behind the same sign"
            )
        if type(end) is not type(ends[0]):
            kinds = ("binary", "real") if isinstance(end, ScoreStage) else ("real", "binary")
            raise BlrcError(
                f"head {name!r}: has {kinds[0]} weights, and head {first!r} {kinds[1]} ones; give all heads of a "
                "network weights of one kind"
            )
        if other := next((other for other, same in net.heads if same == layer and other != name), None):
            raise BlrcError(f"head {name!r}: gives the same scores as head {other!r}; leave one of them out")
    used = {layer.name for _, last in net.heads for layer in net.upto(last).layers}
    if idle := next((layer.name for layer in net.layers if layer.name not in used), None):
        raise BlrcError(f"layer {idle!r}: no head needs what it gives; leave it out")
    return [*found[0], *ends]


def _deciding(trunk: Sequence[Piece]) -> list[object]:
    """Return what decides bits and pools them; heads may each flatten these for themselves."""
    found: list[object] = []
    for piece in trunk:
        if isinstance(piece, Stage):
            found.append((piece.linear.name, [_content(step) for step in piece.chain], _content(piece.sign)))
        elif not isinstance(piece, Flatten):
            found.append(_content(piece))
    return found


def _content(layer: Piece | Pointwise | Sign | Threshold | Levels) -> tuple[object, ...]:
    """Return what a layer computes, whatever its name; norms, whose statistics come later, are told by their names."""
    if isinstance(layer, Norm):
        return Norm, layer.name
    held = {key: value for key, value in vars(layer).items() if key not in ("name", "x")}
    return type(layer), [value.tolist() if isinstance(value, np.ndarray) else value for value in held.values()]


def _pieces(net: Net) -> list[Piece]:
    """Return the pieces of a net that is a chain of layers."""
    layers = list(with_windows(net).layers)
    _check_chain(layers)
    found: list[Piece] = []
    signed = net.encoding.is_binary
    reads: Codes | None = None
    while layers:
        layer = layers.pop(0)
        if isinstance(layer, Dense) and all(isinstance(rest, Norm | Scale | Shift) for rest in layers):
            _expect_signs(layer, signed, "gives the scores, which needs +-1 inputs")
            if layer.unit is not None:
                raise BlrcError(f"layer {layer.name!r}: ends the network with weights of 8 bits; give it real ones")
            steps = tuple(s for s in layers if isinstance(s, Norm | Scale | Shift))
            found.append(ScoreStage(layer, (*_offset(layer, reads), *steps), reads))
            return found
        if isinstance(layer, Conv | Dense):
            stage, *rest = _stage(layer, layers, net.rounding, reads)
            found += [stage, *rest]
            signed, reads = True, stage.sign.codes if isinstance(stage.sign, Levels) else None
        elif isinstance(layer, Softmax):
            _expect_signs(layer, signed, "the softmax layer needs +-1 inputs")
            if layers:
                raise BlrcError(
                    f"layer {layers[0].name!r}: comes after the softmax layer {layer.name!r}, which must be the last"
                )
            if reads is not None:  # its weights take up the step
                layer = replace(layer, weights=layer.weights * float(reads.step), middle=reads.middle)
            return [*found, layer]
        elif isinstance(layer, MaxPool | AveragePool):
            if not signed:
                what = "max" if isinstance(layer, MaxPool) else "average"
                raise BlrcError(
                    f"layer {layer.name!r}: {what} pooling of the raw input is not supported; start with a binary layer"
                )
            reads = averaged(layer, reads) if isinstance(layer, AveragePool) else reads
            found.append(layer)
        elif isinstance(layer, Flatten):
            found.append(layer)
        elif isinstance(layer, Norm | Scale | Shift | Leak | Clip):
            what, remedy = "a norm" if isinstance(layer, Norm) else "arithmetic on values", _instead(found, reads)
            raise BlrcError(f"layer {layer.name!r}: {what} must stand between a binary layer and its sign; {remedy}")
        elif not signed:
            if isinstance(layer, Levels):
                raise BlrcError(f"layer {layer.name!r}: levels of the raw input; put a binary layer before it")
            raise BlrcError(
                f"layer {layer.name!r}: the sign of the raw input is not supported; declare the input as bits instead"
            )
        elif isinstance(layer, Threshold | Levels) or reads is not None:
            what = {Threshold: "a threshold", Levels: "levels"}.get(type(layer), "a sign")
            of = "+-1 already" if reads is None else "codes of levels or averages"
            raise BlrcError(f"layer {layer.name!r}: {what} of what is {of}; {_instead(found, reads)}")
        # A second sign changes nothing.
    if found and isinstance(found[-1], Stage) and isinstance(found[-1].linear, Dense) and reads is None:
        return [*found, _bits_as_scores(found[-1])]
    raise BlrcError(
        "the network has no softmax layer at its end: add a SoftmaxLinear (or a binary dense layer) that gives the "
        "class scores"
    )


def _instead(found: Sequence[Piece], reads: Codes | None) -> str:
    """Say what to do where a layer reads bits or codes and cannot; averages, too, can be written as a binary layer."""
    averages = reads is not None and any(isinstance(each, AveragePool) and each.name == reads.name for each in found)
    other = ", or take a depthwise convolution with weights of 1 in place of the average"
    return "put a binary layer before it" + other * averages


def _bits_as_scores(last: Stage) -> Softmax:
    """Return a layer that passes on the bits of a last dense layer, +1 and -1, as the scores of the network."""
    outputs = len(last.linear.weights)
    if outputs > MOST_OUTPUT_BITS:
        raise BlrcError(
            f"layer {last.sign.name!r}: ends the network with {outputs} bits, and at most {MOST_OUTPUT_BITS} are given "
            "as scores; add a layer that gives the class scores"
        )
    return Softmax(f"{last.sign.name}.scores", last.sign.name, np.eye(outputs), np.zeros(outputs))


def _expect_signs(layer: Layer, signed: bool, what: str) -> None:
    if not signed:
        raise BlrcError(f"layer {layer.name!r}: {what}; put a binary layer and a sign before it")


def _offset(linear: Conv | Dense, reads: Codes | None) -> tuple[Shift, ...]:
    """Return the step that makes sums of codes, some of which stand for less than 0, those of real numbers.

    Raises:
        BlrcError: the layer is padded with zeros, where no code need stand for 0 (layer named).
    """
    if reads is None or not reads.below:
        return ()
    if isinstance(linear, Conv) and any(linear.window.padding):
        raise BlrcError(
            f"layer {linear.name!r}: pads averages of signs, or levels below 0, from {reads.name!r}, with zeros, for "
            "which there is no count; use padding=0, or levels from 0 on (SteLevels)"
        )
    totals = linear.weights.reshape(len(linear.weights), -1).sum(axis=1, dtype=np.int64).tolist()
    by = [-reads.below * total * unit_of(linear, c) for c, total in enumerate(totals)]
    return shifts(f"{linear.name}.counted", linear.name, by)


def _stage(
    linear: Conv | Dense, rest: list[Layer], rounding: Rounding, reads: Codes | None
) -> tuple[Stage, *tuple[Flatten, ...]]:
    """Take the layers up to the sign from `rest`; a flatten directly before the sign may as well follow it."""
    chain: list[Pointwise | MaxPool] = [*_offset(linear, reads)]
    flat: list[Flatten] = []
    while rest:
        layer = rest.pop(0)
        if isinstance(layer, Sign | Threshold | Levels):
            if flat and isinstance(layer, Threshold) and len(layer.at) > 1:
                raise BlrcError(f"layer {flat[0].name!r}: flatten between {linear.name!r} and its thresholds; move it")
            if isinstance(layer, Levels):
                level_bits(f"layer {layer.name!r}", layer.bits)
                level_step(f"layer {layer.name!r}", layer.step)
            return (Stage(linear, tuple(chain), layer, rounding, reads), *flat)
        if (isinstance(layer, Clip) and flat) or (
            isinstance(layer, MaxPool | Norm | Scale | Shift | Leak | Clip) and not flat
        ):
            chain.append(layer)
        elif isinstance(layer, Flatten):
            flat.append(layer)
        elif flat:
            raise BlrcError(
                f"layer {flat[0].name!r}: flatten between {linear.name!r} and its sign; move it after the sign"
            )
        else:
            raise BlrcError(
                f"layer {layer.name!r}: its input, from {linear.name!r}, is not binary; "
                "put a StochasticSign between them"
            )
    raise BlrcError(
        f"layer {linear.name!r}: no sign follows it; a binary layer needs a sign and, at the end, a SoftmaxLinear"
    )


def _check_chain(layers: Sequence[Layer]) -> None:
    before = INPUT
    for layer in layers:
        if layer.x != before:
            raise BlrcError(
                f"layer {layer.name!r}: reads {layer.x!r}, not the layer before it ({before!r}); branches are not "
                "supported yet, make the network a chain of layers"
            )
        before = layer.name
