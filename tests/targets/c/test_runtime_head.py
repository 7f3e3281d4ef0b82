"""The head in C against blrc.program.head: extremes of scores and scales, ties, the floor, the largest ensemble."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from by_night import first
from numpy.typing import NDArray

from blrc.program import head
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE
from blrc.targets.c.runtime_files import runtime_dir, runtime_files

# Reads inputs, classes, multiplier, shift, members, remaining; then, for each input, scores of each member. Writes for
# each input log_p, p, p_squared of the classes, then label, mean, variance, settled.
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "blrc.h"

static int32_t scores[4096], log_p[4096];
static uint32_t p[4096];
static uint64_t p_squared[4096];

int main(void)
{
    int32_t h[6], i, m, c, label, settled;
    uint32_t moments[2];

    while (fread(h, sizeof h[0], 6, stdin) == 6) {
        const size_t classes = (size_t)h[1];

        for (i = 0; i < h[0]; ++i) {
            for (c = 0; c < h[1]; ++c) {
                log_p[c] = 0;
                p[c] = 0;
                p_squared[c] = 0;
            }
            for (m = 0; m < h[4]; ++m) {
                if (fread(scores, 4, classes, stdin) != classes) {
                    return 2;
                }
                blrc_head_add(h[1], (uint32_t)h[2], h[3], scores, log_p, p, p_squared);
            }
            label = blrc_argmax(h[1], log_p);
            moments[0] = blrc_head_mean((uint32_t)h[4], p[label]);
            moments[1] = blrc_head_variance((uint32_t)h[4], p[label], p_squared[label]);
            settled = blrc_head_settled(h[1], (uint32_t)h[5], log_p);
            fwrite(log_p, 4, classes, stdout);
            fwrite(p, 4, classes, stdout);
            fwrite(p_squared, 8, classes, stdout);
            fwrite(&label, 4, 1, stdout);
            fwrite(moments, 4, 2, stdout);
            fwrite(&settled, 4, 1, stdout);
        }
    }
    return 0;
}
"""
BUILDS = {
    "O2": ("", ("-O2",), "<", ()),
    "sanitizers": ("", SANITIZE, "<", ()),
    "clang": ("clang", ("-Os",), "<", ()),
    "s390x": ("s390x-linux-gnu-gcc -static", ("-O2",), ">", ("qemu-s390x",)),
}


@pytest.fixture(
    scope="module",
    params=[
        "O2",
        "sanitizers",
        pytest.param("clang", marks=[pytest.mark.needs("clang"), pytest.mark.nightly]),
        pytest.param("s390x", marks=[pytest.mark.needs("s390x-linux-gnu-gcc", "qemu-s390x"), pytest.mark.nightly]),
    ],
)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    """The command of the compiled program above, and its byte order."""
    folder = tmp_path_factory.mktemp("head")
    cc, flags, order, runner = BUILDS[request.param]
    (folder / "main.c").write_text(MAIN)
    compiler = build.find_compiler(cc or None)
    include = runtime_dir() / "include"
    sources = [folder / "main.c", *(runtime_files()[f"blrc_{name}.c"] for name in ("head", "argmax"))]
    objects = [
        build.compile_object(compiler, (*flags, *STRICT), source, folder / f"{source.stem}.o", include)
        for source in sources
    ]
    return [*runner, str(build.link(compiler, flags, objects, folder / "main"))], order


def check(built: tuple[list[str], str], scores: NDArray[np.int32], scale: head.Scale, remaining: int = 0) -> None:
    """`scores` are (inputs, members, classes); C and Python must agree in every number."""
    command, order = built
    inputs, members, classes = scores.shape
    numbers = np.array([inputs, classes, scale.multiplier, scale.shift, members, remaining])
    data = numbers.astype(f"{order}i4").tobytes() + scores.astype(f"{order}i4").tobytes()
    done = subprocess.run(command, input=data, capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    sums_of = {"log_p": "i4", "p": "u4", "p_squared": "u8"}
    moments = {"label": "i4", "mean": "u4", "variance": "u4", "settled": "i4"}
    record = [(name, f"{classes}{order}{kind}") for name, kind in sums_of.items()]
    record += [(name, order + kind) for name, kind in moments.items()]
    found = np.frombuffer(done.stdout, np.dtype(record))
    sums = head.Sums.start(inputs, classes)
    for member in range(members):
        sums = sums.add(scores[:, member], scale)
    answer = sums.answer()
    expected = {
        "log_p": sums.log_p,
        "p": sums.p,
        "p_squared": sums.p_squared,
        "label": answer.label,
        "mean": answer.mean,
        "variance": answer.variance,
        "settled": sums.settled(remaining),
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name].reshape(values.shape).astype(np.int64), values, err_msg=name)


def test_tables_are_those_of_python() -> None:
    text = runtime_files()["blrc_head.c"].read_text()
    for name, table in (("exp2", head.exp2_table()), ("log2", head.log2_table())):
        found = re.search(rf"blrc_head_{name}_table\[257\] = \{{(.*?)\}}", text, re.DOTALL)
        assert found is not None
        assert [int(number) for number in re.findall(r"\d+", found[1])] == table.tolist()


@pytest.mark.parametrize("scale", first(3, [1e-30, 0.01, 21.7, 1e-9, 3e-4, 1.0, 1e12]))
def test_random_scores(built: tuple[list[str], str], scale: float) -> None:
    rng = np.random.default_rng(1)
    q = head.scale_of(scale)
    for classes in (1, 2, 10, 257, 4096):
        for bits in (1.0, 24.0, 60.0):
            spread = min(int(bits / scale) + 1, 2**30)
            scores = rng.integers(-spread, spread + 1, (12, 3, classes)).astype(np.int32)
            check(built, scores, q, int(rng.integers(0, 3)))


def test_every_size_of_d(built: tuple[list[str], str]) -> None:
    # multiplier 1 and shift 0: d is the difference of the scores
    behind = np.arange(0, 33 << 16, 11)
    scores = np.stack([np.zeros_like(behind), -behind], axis=1)[:, None, :].astype(np.int32)
    check(built, scores, head.Scale(1, 0))
    check(built, scores[:, :, ::-1], head.Scale(1, 0), remaining=1)


def test_extremes(built: tuple[list[str], str]) -> None:
    low, high = -(2**30), 2**30 - 1
    rows = [[high, low, 0], [low, high, high], [low, low, low], [0, 0, high], [high, high - 1, high]]
    scores = np.array(rows, dtype=np.int32)[:, None, :]
    for multiplier, shift in ((2**31 - 1, 0), (2**31 - 1, 46), (0, 46), (1, 0), (1, 1)):
        check(built, scores, head.Scale(multiplier, shift))
    check(built, np.zeros((3, 2, 4096), np.int32), head.scale_of(1.0))


def test_the_largest_ensemble(built: tuple[list[str], str]) -> None:
    scores = np.zeros((3, head.MAX_MEMBERS, 2), np.int32)
    scores[0, :, 1] = 2**30 - 1  # one class at the floor in every member, the other at p = 1
    scores[1, ::2, 0] = scores[1, 1::2, 1] = 2**30 - 1  # the largest variance
    check(built, scores, head.scale_of(1.0))
    check(built, scores[:, :1], head.scale_of(1.0), remaining=head.MAX_MEMBERS)


def test_settled_at_and_beside_its_bound(built: tuple[list[str], str]) -> None:
    # Two members at the floor each: leads of exactly 48 bits for an early and for a late class, and a tie of two.
    scores = np.zeros((3, 2, 3), np.int32)
    scores[0, :, 0] = scores[1, :, 2] = scores[2, :, 1:] = 2**30 - 1
    for remaining in range(4):
        check(built, scores, head.scale_of(1.0), remaining)
    sums = head.Sums.start(3, 3)
    for member in range(2):
        sums = sums.add(scores[:, member], head.scale_of(1.0))
    # An earlier rival would win a tie, a later one would not.
    assert [sums.settled(r).tolist() for r in (1, 2)] == [[True, True, False], [True, False, False]]
