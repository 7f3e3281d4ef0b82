"""docs/performance.md: measures, records, draws. No number in the page is typed by hand.

python tools/pages/performance.py [--rounds 15] [--counts-only | --page-only | --another BENCH.json]

Times the shapes of `benchmarks/bench.py` and the shipped MNIST network on this machine, and counts the instructions of
the MNIST and the CIFAR-10 network on emulated microcontrollers: some minutes. docs/performance/record.json keeps what
was measured. `--counts-only` counts instructions again, which are the same on every machine, and keeps the times;
`--page-only` writes page and figures from the record. `--another` adds what `make bench BENCH_JSON=BENCH.json` has just
measured on this machine, beside the record of the other one; with a `--note`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import bench as shapes_bench
from c_kernels import NETWORKS, network
from performance_page import Record, page

import blrc
from blrc.benchmark.clock import SECONDS
from blrc.benchmark.run import ROUNDS, bench
from blrc.store.places import write_atomically

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / "docs" / "performance"
MNIST = ROOT / "examples" / "mnist" / "mnist.pt"
CHOSEN = "cortex-m4,cortex-m55"  # of which other choices are shown
MACHINES = f"{CHOSEN},cortex-m0,rv32imc,rv32imc_zbb,aarch64"
BITS = (2, 3, 4, 8)  # of activations whose cost is shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--page-only", action="store_true", help="write the page from the record")
    parser.add_argument("--counts-only", action="store_true", help="count instructions again, keep the times")
    parser.add_argument("--another", type=Path, help="what make bench has measured here; keep the rest")
    parser.add_argument("--note", default="", help="what to say of it, a sentence")
    arguments = parser.parse_args()
    if not arguments.page_only:
        if arguments.another is not None:
            here = json.loads(arguments.another.read_text(encoding="utf-8"))
            found = {**record(), "another": {"date": today(), "cpu": cpu(), "note": arguments.note, "shapes": here}}
        elif arguments.counts_only:
            found = {**record(), **counted()}
        else:
            found = {**timed(arguments.rounds), **counted()}
        content = json.dumps(found, indent=1) + "\n"
        write_atomically(FOLDER / "record.json", content.encode())
    for name, content in figures(record()).items():
        write_atomically(FOLDER / name, content)
    write_atomically(PAGE, page(record()).encode())
    print(f"wrote {PAGE.relative_to(ROOT)}")


def timed(rounds: int) -> dict[str, Any]:
    """What depends on this machine."""
    with tempfile.TemporaryDirectory(prefix="blrc-performance-") as temporary:
        folder = Path(temporary) / "fast"
        blrc.export(MNIST, folder=folder, targets=["c", "onnx"], cpu="x86-64")
        return {
            "date": today(),
            "cpu": cpu(),
            "shapes": shapes_bench.measure(list(shapes_bench.SHAPES), rounds, SECONDS),
            "mnist": bench(folder, rounds=rounds, progress=say),
        }


def counted() -> dict[str, Any]:
    """Instructions of microcontrollers."""
    with tempfile.TemporaryDirectory(prefix="blrc-performance-") as temporary:
        folder = Path(temporary) / "mnist"
        blrc.export(MNIST, folder=folder, targets=["c"])
        return {
            "counted": today(),
            "devices": devices(folder),
            "cifar10": bench(network(*NETWORKS["cifar10"]), on=CHOSEN, progress=say),
            "levels": [{"title": title, **of_shapes(**options)} for title, options in beyond_signs().items()],
        }


def beyond_signs() -> dict[str, dict[str, Any]]:
    """Titles of networks of MNIST's shapes, and the options of `c_kernels.network` that make them."""
    levels: dict[str, dict[str, Any]] = {f"activations of {bits} bits": {"bits": bits} for bits in BITS}
    return {"signs": {}, **levels, "signs, ternary weights": {"ternary": True}}


def of_shapes(**options: Any) -> dict[str, Any]:
    """Instructions and sizes of such a network on the chosen machines, each with the best choice of ``--cpu``."""
    found = bench(network(*NETWORKS["mnist"], **options), on=CHOSEN, progress=say)["devices"]
    return {
        "devices": {
            device["name"]: min(
                (choice for choice in device["choices"] if choice["instructions"] and "speed" not in choice["options"]),
                key=lambda choice: choice["instructions"],
            )
            for device in found
        }
    }


def devices(folder: Path) -> dict[str, Any]:
    """An export on all machines; what other choices cost on some."""
    rest = MACHINES.removeprefix(f"{CHOSEN},")
    found, more = bench(folder, on=CHOSEN, progress=say), bench(folder, on=rest, others=False, progress=say)
    return {**found, "devices": [*found["devices"], *more["devices"]]}


def today() -> str:
    return datetime.date.today().isoformat()


def say(what: str, done: int, total: int) -> None:
    print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)


def cpu() -> str:
    """The CPU's name, family and model, where the system says so."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.is_file() else ""
    found = {key: re.search(rf"^{key}\s*: (.+)$", text, re.MULTILINE) for key in ("model name", "cpu family", "model")}
    name, family, model = (None if match is None else match[1] for match in found.values())
    return f"{name} (family {family}, model {model})" if name else platform.processor() or platform.machine()


def record() -> Record:
    found: Record = json.loads((FOLDER / "record.json").read_text(encoding="utf-8"))
    return found


def figures(known: Record) -> dict[str, bytes]:
    """The page's figures, by file name. Needs matplotlib."""
    from blrc.benchmark.show import figure

    levels = tuple(known["shapes"]["levels"])
    return {
        "shapes.svg": shapes_bench.drawn(known["shapes"]["shapes"], levels),
        "mnist.svg": figure.draw(known["mnist"]),
    }


if __name__ == "__main__":
    main()
