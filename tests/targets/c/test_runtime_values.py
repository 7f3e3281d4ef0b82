"""Values in C against exact fractions: extremes of values, the largest ensemble, all small sums, halves."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Sequence
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest

from blrc.program.values import MOST_SUM
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE
from blrc.targets.c.runtime_files import runtime_dir, runtime_files

# Reads how many members there are, then a value of each; writes sum, mean, squares and variance.
MAIN = r"""
#include <stdio.h>
#include "blrc.h"

int main(void)
{
    int32_t members;

    while (fread(&members, 4, 1, stdin) == 1) {
        int32_t sum = 0, value, mean, i;
        uint64_t squares = 0, variance;

        for (i = 0; i < members; ++i) {
            if (fread(&value, 4, 1, stdin) != 1) {
                return 2;
            }
            blrc_values_add(1, &value, &sum, &squares);
        }
        mean = blrc_values_mean((uint32_t)members, sum);
        variance = blrc_values_variance((uint32_t)members, sum, squares);
        fwrite(&sum, 4, 1, stdout);
        fwrite(&mean, 4, 1, stdout);
        fwrite(&squares, 8, 1, stdout);
        fwrite(&variance, 8, 1, stdout);
    }
    return 0;
}
"""
BUILDS = {
    "sanitizers": ("", SANITIZE, "<", ()),
    "s390x": ("s390x-linux-gnu-gcc -static", ("-O2",), ">", ("qemu-s390x",)),
}


@pytest.fixture(
    scope="module",
    params=[
        "sanitizers",
        pytest.param("s390x", marks=[pytest.mark.needs("s390x-linux-gnu-gcc", "qemu-s390x"), pytest.mark.nightly]),
    ],
)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    """The command of the compiled program above, and its byte order."""
    folder: Path = tmp_path_factory.mktemp("values")
    cc, flags, order, runner = BUILDS[request.param]
    (folder / "main.c").write_text(MAIN)
    compiler = build.find_compiler(cc or None)
    objects = [
        build.compile_object(
            compiler, (*flags, *STRICT), source, folder / f"{source.stem}.o", runtime_dir() / "include"
        )
        for source in (folder / "main.c", runtime_files()["blrc_values.c"])
    ]
    return [*runner, str(build.link(compiler, flags, objects, folder / "main"))], order


def check(built: tuple[list[str], str], ensembles: Sequence[Sequence[int]]) -> None:
    command, order = built
    words = [word for each in ensembles for word in (len(each), *each)]
    data = np.array(words, np.int64).astype(f"{order}i4").tobytes()
    done = subprocess.run(command, input=data, capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    kinds = {"sum": "i4", "mean": "i4", "squares": "u8", "variance": "u8"}
    found = np.frombuffer(done.stdout, np.dtype([(name, order + kind) for name, kind in kinds.items()]))
    assert len(found) == len(ensembles)
    for each, row in zip(ensembles, found, strict=True):
        mean = Fraction(sum(each), len(each))
        variance = Fraction(sum(v * v for v in each), len(each)) - mean**2
        expected = (sum(each), floor(mean + Fraction(1, 2)), sum(v * v for v in each), floor(variance))
        assert tuple(map(int, row)) == expected, each


def test_all_small_ensembles(built: tuple[list[str], str]) -> None:
    """Every mean, halves and negative ones among them, of up to four members."""
    check(built, [each for n in (1, 2, 3, 4) for each in itertools.product(range(-3, 4), repeat=n)])


def test_the_largest_values_of_every_number_of_members(built: tuple[list[str], str]) -> None:
    cases = []
    for members in (*range(1, 40), 255, 256, 1023, 1364, 1365):
        most = (MOST_SUM - 1) // members
        alternating = [most if k % 2 else -most for k in range(members)]
        cases += [[most] * members, [-most] * members, alternating, [most, *[-most] * (members - 1)]]
    check(built, cases)


def test_random_values(built: tuple[list[str], str]) -> None:
    rng = np.random.default_rng(0)
    cases = []
    for members in rng.integers(1, 60, 300).tolist():
        most = (MOST_SUM - 1) // members
        reach = min(most, int(2.0 ** rng.uniform(0, 31)))
        cases.append(rng.integers(-reach, reach + 1, members).tolist())
    check(built, cases)
