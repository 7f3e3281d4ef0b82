"""Which orders of layers have an exact integer form: every sequence up to a length, by an independent grammar."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import numpy as np
import pytest

from blrc.errors import BlrcError
from blrc.net.encoding import InputEncoding, bits, int8_codes
from blrc.net.net import (
    Conv,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    Net,
    Norm,
    Sign,
    Softmax,
    Sums,
    check_finite,
)
from blrc.net.pieces import Piece, ScoreStage, Stage, pieces
from blrc.net.window import Window

ONE = Window((1, 1))


def layer(letter: str, name: str, x: str) -> Layer:
    if letter == "c":
        return Conv(name, x, np.ones((2, 2, 1, 1), np.int8), None, ONE, 1)
    if letter == "d":
        return Dense(name, x, np.ones((2, 2), np.int8), None)
    if letter == "n":
        return Norm(name, x, np.ones(2), np.zeros(2), 0.0, None)
    if letter == "p":
        return MaxPool(name, x, ONE)
    if letter == "s":
        return Sign(name, x)
    if letter == "f":
        return Flatten(name, x)
    return Softmax(name, x, np.ones((2, 2)), np.zeros(2))


def net(word: str, encoding: InputEncoding) -> Net:
    names = ["input", *(f"{i}{letter}" for i, letter in enumerate(word))]
    return Net(encoding, tuple(layer(c, names[i + 1], names[i]) for i, c in enumerate(word)), "map")


# A stage is a binary layer, norms and pools in any order, and a sign, before which the map may be flattened. Between
# stages bits may be pooled, flattened, or signed again. The softmax layer ends it, or a dense binary layer with norms.
STAGE = "[cd][np]*f*s"
LAST = "d[np]*ss*"  # a dense layer's sign, whose bits are the scores
BEHIND_BITS = f"(?:[pfs]|{STAGE})*(?:m|dn*|{LAST})"
LEGAL = {"bits": re.compile(BEHIND_BITS), "int8": re.compile(f"f*(?:{STAGE}{BEHIND_BITS}|{LAST})")}


@pytest.mark.parametrize("kind", LEGAL)
@pytest.mark.parametrize(("alphabet", "longest"), [("cnpsfm", 6), ("cdnpsfm", 5)])
def test_every_word(kind: str, alphabet: str, longest: int) -> None:
    encoding = bits((2, 1, 1)) if kind == "bits" else int8_codes((2, 1, 1), scale=1.0)
    legal = refused = 0
    for length in range(longest + 1):
        for letters in itertools.product(alphabet, repeat=length):
            word = "".join(letters)
            expected = LEGAL[kind].fullmatch(word) is not None
            try:
                found = pieces(net(word, encoding))
            except BlrcError as error:
                assert not expected, word
                refused += 1
                message = str(error)
                assert message.startswith("layer '") or "no softmax layer" in message
                # The layer that is named is one of the network's.
                for name in re.findall(r"layer '(.*?)'", message):
                    assert name in {f"{i}{letter}" for i, letter in enumerate(word)}
            else:
                assert expected, word
                legal += 1
                # A second sign changes nothing, and is no piece.
                found_word = spelled(found[:-1] if word.endswith("s") else found)
                assert found_word.replace("s", "") == word.replace("s", "")  # a flatten may move behind a sign
                linears = word.count("c") + word.count("d")
                assert sum(isinstance(p, Stage | ScoreStage) for p in found) == linears
                assert isinstance(found[-1], Softmax if word[-1] in "ms" else ScoreStage)
                assert sum(isinstance(p, MaxPool) for p in found) + sum(
                    len(p.pools) for p in found if isinstance(p, Stage)
                ) == word.count("p")
    assert legal > 20
    assert refused > (50_000 if longest == 6 else 15_000)


def spelled(found: list[Piece]) -> str:
    letters = ""
    for piece in found:
        if isinstance(piece, Stage | ScoreStage):
            letters += "d" if isinstance(piece.linear, Dense) else "c"
            letters += "".join({MaxPool: "p", Norm: "n"}[type(step)] for step in piece.chain)
        if isinstance(piece, ScoreStage):
            pass
        elif isinstance(piece, Stage):
            letters += "s"
        else:
            letters += {MaxPool: "p", Flatten: "f", Softmax: "m"}[type(piece)]
    return letters


def test_a_stage_bears_the_names_of_its_layers() -> None:
    found = pieces(net("cnppsfcsm", int8_codes((2, 1, 1), scale=1.0)))
    first, flat, second, last = found
    assert isinstance(first, Stage)
    assert isinstance(second, Stage)
    assert (first.linear.name, first.sign.name, [p.name for p in first.pools]) == ("0c", "4s", ["2p", "3p"])
    assert first.norm is not None
    assert first.norm.name == "1n"
    assert isinstance(flat, Flatten)
    assert (second.norm, second.pools, second.sign.name) == (None, (), "7s")
    assert isinstance(last, Softmax)


@pytest.mark.parametrize(("position", "reads"), [(2, "input"), (3, "0c"), (1, "later"), (0, "0c")])
def test_anything_but_a_chain_is_refused(position: int, reads: str) -> None:
    whole = net("cnsm", bits((2, 1, 1)))
    layers = list(whole.layers)
    layers[position] = layer("cnsm"[position], layers[position].name, reads)
    before = "input" if position == 0 else layers[position - 1].name
    with pytest.raises(BlrcError, match=rf"layer '{layers[position].name}': reads '{reads}'.*\('{before}'\).*branches"):
        pieces(Net(whole.encoding, tuple(layers), "map"))


def test_statistics_are_exact() -> None:
    z = [[3, -5, 7, 7], [10**9, 10**9 + 1, 10**9, 10**9]]
    sums = Sums(4, tuple(sum(row) for row in z), tuple(sum(v * v for v in row) for row in z))
    for channel, row in enumerate(z):
        mean = Fraction(sum(row), 4)
        assert sums.mean(channel) == mean
        assert sums.variance(channel) == sum((v - mean) ** 2 for v in row) / 3
    assert sums.variance(1) == Fraction(1, 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 2, 2)])
def test_what_is_not_finite_is_named(shape: tuple[int, ...], bad: float) -> None:
    values = np.zeros(shape)
    check_finite("conv", "weight", values)
    values[(2, *[-1] * (len(shape) - 1))] = bad
    values[(3, *[0] * (len(shape) - 1))] = bad
    with pytest.raises(BlrcError, match=r"layer 'conv': weight of channel 2 is NaN or infinite \(2 channels in all\)"):
        check_finite("conv", "weight", values)
