"""What `blrc.compile` costs and gives: the shipped MNIST network on 10,000 images, called from Python.

    python benchmarks/from_python.py [--data DIR] [--flags="-O2"] [--rounds 5]

Prints wall and CPU time (medians over rounds, in turns) of the whole batch with one thread and with all, of images one
by one, and of a call without images, which is what Python costs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from blrc import compile
from blrc.datasets import labelled
from blrc.workers import usable_cpus

EXAMPLE = Path(__file__).parents[1] / "examples" / "mnist"
SINGLES = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=EXAMPLE / "data")
    parser.add_argument("--flags", help="of the compiler")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    flags = None if options.flags is None else options.flags.split()
    with compile(EXAMPLE / "mnist.pt", flags=flags) as net:
        images = labelled.load(options.data, net.program.input, net.program.classes).raw
        cases: dict[str, tuple[int, Callable[[], object]]] = {
            f"{len(images):,} images, 1 thread": (1, lambda: net(images, threads=1)),
            f"{len(images):,} images, {usable_cpus()} threads": (1, lambda: net(images)),
            "one image": (SINGLES, lambda: net(images[:1])),
            "no image": (SINGLES, lambda: net(images[:0])),
        }
        spent: dict[str, list[tuple[float, float]]] = {what: [] for what in cases}
        for _ in range(options.rounds):
            for what, (times, call) in cases.items():
                wall, cpu = time.perf_counter(), time.process_time()
                for _ in range(times):
                    call()
                spent[what].append(((time.perf_counter() - wall) / times, (time.process_time() - cpu) / times))
    for what, rounds in spent.items():
        wall, cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{what:28} wall {1e3 * wall:10.4f} ms   CPU {1e3 * cpu:10.4f} ms")


if __name__ == "__main__":
    main()
